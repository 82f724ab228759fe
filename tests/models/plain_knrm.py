"""KNRM word by word in plain Python, from the paper, for tests."""

import math

from tests.models.plain_layers import similarity


def kernels():
    """(mean, standard deviation) of the 11 kernels: exact matches, then from 0.9 down to -0.9."""
    return [(1.0, 0.001)] + [((9 - 2 * number) / 10, 0.1) for number in range(10)]


def soft_count(similarities, mean, deviation):
    return sum(math.exp(-((value - mean) ** 2) / (2 * deviation**2)) for value in similarities)


def features(matrix):
    """11 numbers, from one list of similarities for each query word."""
    return [
        sum(0.01 * math.log(max(soft_count(row, mean, deviation), 1e-10)) for row in matrix)
        for mean, deviation in kernels()
    ]


def rank(features, weights, bias):
    return math.tanh(sum(weight * feature for weight, feature in zip(weights, features)) + bias)


def score(document, query, weights, bias):
    """The score of a document: words and query words are (text, vector or None)."""
    return rank(features([[similarity(word, other) for other in document] for word in query]), weights, bias)
