"""DUET in plain Python from the paper, one number at a time: the reference of the module and the fast path.

Mitra, Diaz and Craswell, "Learning to Match using Local and Distributed Representations of Text for Web Search" (WWW
2017): section 3.1 the local model, 3.2 the distributed one, tanh behind every layer. Python floats (float64), explicit
loops, and no padding anywhere: a text is the list of its words, and the network is as wide as the text needs it.

Weights come as nested lists: a layer is (weight [outward][inward], bias [outward]), a convolution (weight
[filter][dimension][tap], bias [filter]). Of a fully connected layer over query words or windows, the first columns are
used, as many as there are features: features that are not there add nothing.
"""

import math

from tests.models.plain_layers import affine, convolution, feed_forward, maxima


def layer(values, weight, bias):
    return [math.tanh(value) for value in affine(values, weight, bias)]


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
    return feed_forward(features, layers, math.tanh, math.tanh)


def ngrams(words, weight, bias):
    """tanh of every n-gram of word vectors; a text shorter than one n-gram is filled up with zero vectors."""
    width = len(weight[0][0])
    return convolution(words, weight, bias, range(max(1, len(words) - width + 1) if words else 0), math.tanh)


def windows(positions, width, stride):
    """Maxima of windows until all positions are covered; the last one takes what is left."""
    pooled, start, covered = [], 0, 0
    while covered < len(positions):
        pooled.append(maxima(positions[start : start + width], 0))
        covered = start + width
        start += stride
    return pooled


def distributed(document, query, query_convolution, query_layer, document_convolution, window_layer, pooling, layers):
    """Texts as lists of word vectors (section 3.2). pooling: width and stride."""
    represented = layer(maxima(ngrams(query, *query_convolution), 0), *query_layer)
    features = []
    for pooled in windows(ngrams(document, *document_convolution), *pooling):
        features += [a * b for a, b in zip(layer(pooled, *window_layer), represented)]
    return feed_forward(features, layers, math.tanh, math.tanh)
