"""Layers in plain Python, one number at a time, for the twins of the models. Nothing of the package is used."""

import math


def length(vector):
    return math.sqrt(math.fsum(x * x for x in vector))


def cosine(one, other):
    """Of two vectors (lists of numbers); 0 if either is zero."""
    lengths = length(one) * length(other)
    return math.fsum(a * b for a, b in zip(one, other)) / lengths if lengths else 0.0


def similarity(one, other):
    """Of two words (text, vector or None where the model does not know it)."""
    if one[0] == other[0]:
        return 1.0
    return 0.0 if one[1] is None or other[1] is None else cosine(one[1], other[1])


def relu(value, slope=0.0):
    return value if value > 0 else slope * value


def affine(values, weight, bias):
    """weight[output][input]."""
    return [constant + sum(w * x for w, x in zip(row, values)) for row, constant in zip(weight, bias)]


def feed_forward(values, layers, activation, of_last=lambda value: value):
    """(weight, bias) layers one behind the other, of which the last has one output."""
    for place, (weight, bias) in enumerate(layers, 1):
        after = of_last if place == len(layers) else activation
        values = [after(value) for value in affine(values, weight, bias)]
    if len(values) != 1:
        raise AssertionError(f"the last layer has {len(values)} outputs, not 1")
    return values[0]


def convolution(rows, weight, bias, starts, activation):
    """A list of features for each window; weight[f][c][t] meets channel c of row start + t, 0 beyond the rows."""
    found = []
    for start in starts:
        features = []
        for of_filter, constant in zip(weight, bias):
            total = constant
            for tap in range(len(of_filter[0])):
                if 0 <= start + tap < len(rows):
                    total += sum(channel[tap] * x for channel, x in zip(of_filter, rows[start + tap]))
            features.append(activation(total))
        found.append(features)
    return found


def full_convolution(rows, weight, bias, activation):
    """Border mode 'full': one window for every place that covers a row."""
    return convolution(rows, weight, bias, range(1 - len(weight[0][0]), len(rows)), activation)


def maxima(rows, filters):
    """The largest value of each filter; zeros where there are no rows."""
    return [max(column) for column in zip(*rows)] if rows else [0.0] * filters


def standardize(features, mean, deviation):
    return [(value - m) / d for value, m, d in zip(features, mean, deviation)]
