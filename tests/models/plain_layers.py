"""Layers in plain Python, one number at a time, for the twins of the models; independent of the package."""

import math


def length(vector):
    return math.sqrt(math.fsum(x * x for x in vector))


def cosine(first, second):
    """Of two vectors (lists of numbers); 0 if either is zero."""
    lengths = length(first) * length(second)
    return math.fsum(a * b for a, b in zip(first, second)) / lengths if lengths else 0.0


def similarity(first, second):
    """Of two words (text, vector or None where the model does not know it)."""
    if first[0] == second[0]:
        return 1.0
    return 0.0 if first[1] is None or second[1] is None else cosine(first[1], second[1])


def relu(value, slope=0.0):
    return value if value > 0 else slope * value


def affine(values, weight, bias):
    """weight[output][input]."""
    return [constant + sum(w * x for w, x in zip(row, values)) for row, constant in zip(weight, bias)]


def feed_forward(values, layers, activation, of_last=lambda value: value):
    """A sequence of layers (weight, bias); the last one has one output."""
    for place, (weight, bias) in enumerate(layers, 1):
        after = of_last if place == len(layers) else activation
        values = [after(value) for value in affine(values, weight, bias)]
    if len(values) != 1:
        raise AssertionError(f"the last layer has {len(values)} outputs, not 1")
    return values[0]


def convolution(rows, weight, bias, starts, activation):
    """A list of features for each window; weight[f][c][t] meets channel c of row start + t, 0 beyond the rows."""
    windows = []
    for start in starts:
        features = []
        for kernel, constant in zip(weight, bias):
            total = constant
            for tap in range(len(kernel[0])):
                if 0 <= start + tap < len(rows):
                    total += sum(channel[tap] * x for channel, x in zip(kernel, rows[start + tap]))
            features.append(activation(total))
        windows.append(features)
    return windows


def full_convolution(rows, weight, bias, activation):
    """Border mode 'full': one window for every position that covers a row."""
    return convolution(rows, weight, bias, range(1 - len(weight[0][0]), len(rows)), activation)


def maxima(rows, filters):
    """The largest value of each filter; zeros where there are no rows."""
    return [max(column) for column in zip(*rows)] if rows else [0.0] * filters


def standardize(features, mean, deviation):
    return [(value - m) / d for value, m, d in zip(features, mean, deviation)]
