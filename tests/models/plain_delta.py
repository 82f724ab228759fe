"""The Delta model written from the paper alone, one number at a time: the twin that the fast model is checked against.

Mohan et al., "A Fast Deep Learning Model for Textual Relevance in Biomedical Information Retrieval" (WWW 2018):
section 3.2 the Delta stage, section 3.3 the network, section 4.2 the activation. Python floats (float64), explicit
loops, no padding anywhere: a document is the list of its words' vectors, and what lies beyond it is zero.

What the paper leaves open: the first of equally close query words is the closest; the cosine with a zero vector is 0;
the proximity of two zero vectors is 0, as the package documents it (1 would be as good); an empty document pools to
zeros; without query words there is no closest word and every delta is zero.
"""

import math

LEAK = 0.3


def delta_stage(document, query):
    """One row [V differences, cosine, distance, proximity] for each word vector of the document (section 3.2)."""
    rows = []
    for word in document:
        if len(query) == 0:
            rows.append([0.0] * (len(word) + 3))
            continue
        best, best_distance = None, math.inf
        for candidate in query:
            distance = _length([float(a) - float(b) for a, b in zip(word, candidate)])
            if distance < best_distance:
                best, best_distance = candidate, distance
        difference = [float(a) - float(b) for a, b in zip(word, best)]
        word_length, best_length = _length(word), _length(best)
        product = sum(float(a) * float(b) for a, b in zip(word, best))
        cosine = product / (word_length * best_length) if word_length * best_length > 0 else 0.0
        lengths = word_length + best_length
        proximity = 1.0 - best_distance / lengths if lengths > 0 else 0.0
        rows.append(difference + [cosine, best_distance, proximity])
    return rows


def select_columns(rows, differences=True, delta_features=True):
    """The delta rows without the columns that an ablation takes away."""
    selected = []
    for row in rows:
        split = len(row) - 3
        selected.append((row[:split] if differences else []) + (row[split:] if delta_features else []))
    return selected


def leaky_relu(value):
    return value if value >= 0 else LEAK * value


def convolution(rows, weight, bias):
    """Border mode 'same', stride 1: weight[f][c][t] meets channel c of the row t - k//2 places to the right."""
    output = []
    for position in range(len(rows)):
        features = []
        for filter_weight, filter_bias in zip(weight, bias):
            total = float(filter_bias)
            width = len(filter_weight[0])
            for tap in range(width):
                source = position + tap - width // 2
                if 0 <= source < len(rows):  # zeros beyond the document's words add nothing
                    for channel, value in enumerate(rows[source]):
                        total += float(filter_weight[channel][tap]) * value
            features.append(leaky_relu(total))
        output.append(features)
    return output


def max_pool(rows, filters):
    """The largest value of each filter over the document's words; zeros for a document without words."""
    if not rows:
        return [0.0] * filters
    return [max(row[f] for row in rows) for f in range(filters)]


def standardize(features, mean, scale):
    return [(float(value) - float(m)) / float(s) for value, m, s in zip(features, mean, scale)]


def layer(values, weight, bias):
    """g(Z.W + b) with weight[output][input]."""
    outputs = []
    for row, constant in zip(weight, bias):
        outputs.append(leaky_relu(float(constant) + sum(float(w) * v for w, v in zip(row, values))))
    return outputs


def score(document, query, convolutions, layers, features=(), mean=(), scale=(), differences=True, delta_features=True):
    """The relevance score (section 3.3). convolutions and layers are lists of (weight, bias), in order."""
    rows = select_columns(delta_stage(document, query), differences, delta_features)
    for weight, bias in convolutions:
        rows = convolution(rows, weight, bias)
    values = max_pool(rows, len(convolutions[-1][1])) + standardize(features, mean, scale)
    for weight, bias in layers:
        values = layer(values, weight, bias)
    if len(values) != 1:
        raise AssertionError(f"the last layer has {len(values)} outputs, not 1")
    return values[0]


def _length(vector):
    return math.sqrt(sum(float(a) * float(a) for a in vector))
