"""MatchPyramid in plain Python, from the paper and the decisions in ``models/baselines/matchpyramid.py``.

A word is a pair (text, vector); the vector is None for a word that the model does not know. Convolutions and layers are
pairs (weights, bias) of nested lists.
"""

import math

from tests.models.plain_layers import feed_forward, relu, similarity


def convolve(maps, weights, bias):
    """One layer with ReLU: maps [inward][m][n], weights [outward][inward][S][T], zeros beyond the borders."""
    rows, columns = len(maps[0]), len(maps[0][0])
    outputs = []
    for kernels, b in zip(weights, bias):
        above, left = len(kernels[0]) // 2, len(kernels[0][0]) // 2
        result = [[b] * columns for _ in range(rows)]
        for i in range(rows):
            for j in range(columns):
                for source, kernel in zip(maps, kernels):
                    for s, taps in enumerate(kernel):
                        for t, weight in enumerate(taps):
                            y, x = i + s - above, j + t - left
                            if 0 <= y < rows and 0 <= x < columns:
                                result[i][j] += weight * source[y][x]
        outputs.append([[max(value, 0.0) for value in row] for row in result])
    return outputs


def part(length, cells, number):
    """The positions of a cell's words."""
    return range(math.floor(number * length / cells), math.ceil((number + 1) * length / cells))


def pool(one_map, rows, columns):
    height, width = len(one_map), len(one_map[0])
    return [
        max(one_map[i][j] for i in part(height, rows, p) for j in part(width, columns, q))
        for p in range(rows)
        for q in range(columns)
    ]


def score(document, query, kind, convolutions, rows, columns, layers):
    cells = [0.0] * (len(convolutions[-1][1]) * rows * columns)
    if document and query:
        exact = kind == "indicator"
        compared = [[(word, None if exact else vector) for word, vector in text] for text in (query, document)]
        maps = [
            [[similarity(query_word, document_word) for document_word in compared[1]] for query_word in compared[0]]
        ]
        for weights, bias in convolutions:
            maps = convolve(maps, weights, bias)
        cells = [value for one_map in maps for value in pool(one_map, rows, columns)]
    return feed_forward(cells, layers, relu)
