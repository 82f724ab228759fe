"""DRMM in plain Python and double precision, from the paper and the decisions in ``models/baselines/drmm.py``.

A word is a pair (text, vector); the vector is None for a word that the model does not know.
"""

import math
from fractions import Fraction

from tests.models.plain_layers import cosine, feed_forward


def bin_of(query_word, document_word, bins):
    """The last bin is for the same word; the others divide similarities from -1 to 1."""
    if query_word[0] == document_word[0]:
        return bins - 1
    if query_word[1] is None or document_word[1] is None:
        similarity = Fraction(0)
    else:
        similarity = Fraction(round(cosine(query_word[1], document_word[1]) * 10**6), 10**6)
    return min(max(math.floor((similarity + 1) / 2 * (bins - 1)), 0), bins - 2)


def histogram(query_word, document, bins):
    counts = [0] * bins
    for word in document:
        counts[bin_of(query_word, word, bins)] += 1
    return counts


def shares(idfs, gate):
    powers = [math.exp(gate * (idf - max(idfs))) for idf in idfs]
    return [power / sum(powers) for power in powers]


def score(document, query, idfs, bins, layers, gate):
    total = 0.0
    for word, share in zip(query, shares(idfs, gate)):
        logarithms = [math.log10(1 + count) for count in histogram(word, document, bins)]
        total += share * feed_forward(logarithms, layers, math.tanh, math.tanh)
    return total
