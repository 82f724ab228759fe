"""DUET written from the paper, one number at a time: the twin that the module and the fused path are checked against.

Mitra, Diaz and Craswell, "Learning to Match using Local and Distributed Representations of Text for Web Search" (WWW
2017): section 3.1 the local model, 3.2 the distributed one, tanh behind every layer. Python floats (float64), explicit
loops, and no padding anywhere: a text is the list of its words, and the network is as wide as the text needs it.

Weights come as nested lists: a layer is (weight [outward][inward], bias [outward]), a convolution (weight
[filter][dimension][tap], bias [filter]). Of a fully connected layer over query words or windows, the first columns are
used, as many as there are features: features that are not there add nothing.
"""

import math


def affine(values, weight, bias):
    return [constant + sum(w * v for w, v in zip(row, values)) for row, constant in zip(weight, bias)]


def layer(values, weight, bias):
    return [math.tanh(value) for value in affine(values, weight, bias)]


def fully_connected(values, layers):
    """Layers one behind the other; the last has one output."""
    for weight, bias in layers:
        values = layer(values, weight, bias)
    if len(values) != 1:
        raise AssertionError(f"the last layer has {len(values)} outputs, not 1")
    return values[0]


def local(document, query, row, layers):
    """Words as anything that can be compared (section 3.1); None is a query word that no document holds.

    Args:
        row: the affine map of a query word's row of matches.
        layers: the fully connected ones.
    """
    features = []
    for query_word in query:
        matches = [1.0 if word == query_word and query_word is not None else 0.0 for word in document]
        features += layer(matches, *row)
    return fully_connected(features, layers)


def convolution(words, weight, bias):
    """tanh of every n-gram of word vectors; a text shorter than one n-gram is filled up with zero vectors."""
    if not words:
        return []
    width = len(weight[0][0])
    words = words + [[0.0] * len(words[0])] * max(0, width - len(words))
    output = []
    for start in range(len(words) - width + 1):
        position = []
        for filter_weight, constant in zip(weight, bias):
            total = constant
            for tap in range(width):
                for dimension, value in enumerate(words[start + tap]):
                    total += filter_weight[dimension][tap] * value
            position.append(math.tanh(total))
        output.append(position)
    return output


def maxima(positions):
    return [max(values) for values in zip(*positions)]


def windows(positions, width, stride):
    """Maxima of windows until all positions are covered; the last one takes what is left."""
    pooled, start, covered = [], 0, 0
    while covered < len(positions):
        pooled.append(maxima(positions[start : start + width]))
        covered = start + width
        start += stride
    return pooled


def distributed(document, query, query_convolution, query_layer, document_convolution, window_layer, pooling, layers):
    """Texts as lists of word vectors (section 3.2). pooling: width and stride."""
    represented = layer(maxima(convolution(query, *query_convolution)), *query_layer)
    features = []
    for pooled in windows(convolution(document, *document_convolution), *pooling):
        features += [one * other for one, other in zip(layer(pooled, *window_layer), represented)]
    return fully_connected(features, layers)
