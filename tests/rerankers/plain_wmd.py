"""Word Mover's Distance as an assignment problem: every word is divided into units that are assigned to each other.

With n words in one text and m in the other, lcm(n, m) units on either side have the same mass, so an optimal transport
moves whole units.
"""

import math

import numpy as np
from scipy.optimize import linear_sum_assignment


def euclidean(first, second):
    return math.sqrt(sum((float(a) - float(b)) ** 2 for a, b in zip(first, second)))


def units(words, count):
    return [word for word in words for _ in range(count // len(words))]


def distance(query, title, vectors):
    """Distance of two lists of words by {word: vector}; words without a vector are ignored; inf for an empty list."""
    query, title = ([word for word in text if word in vectors] for text in (query, title))
    if not query or not title:
        return math.inf
    count = math.lcm(len(query), len(title))
    costs = {(a, b): euclidean(vectors[a], vectors[b]) for a in set(query) for b in set(title)}
    matrix = np.array([[costs[a, b] for b in units(title, count)] for a in units(query, count)])
    rows, columns = linear_sum_assignment(matrix)
    return float(matrix[rows, columns].sum()) / count


def relaxed(query, title, vectors):
    """A lower bound: the mean distance of a word to the nearest word of the other text, in the longer direction."""
    query, title = ([word for word in text if word in vectors] for text in (query, title))
    if not query or not title:
        return math.inf
    return max(
        sum(min(euclidean(vectors[a], vectors[b]) for b in target) for a in source) / len(source)
        for source, target in ((query, title), (title, query))
    )
