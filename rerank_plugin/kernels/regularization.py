"""Score regularization: documents that are close to each other should have similar scores.

F. Diaz, Regularizing ad hoc retrieval scores, CIKM 2005, in one step over the candidates of one query: with s the score
of a document, w the weight, and S the cubed cosines between the encodings of the top n documents, where each document
keeps only its k largest positive cosines with others, ::

    s'_i = (1 - w) s_i + w (sum over j of S_ij s_j) / (sum over j of S_ij)

A document below the top n, or without similar documents, gets (1 - w) s, so no document enters the top n from below.

Letters in shapes: C candidates, n top documents, E dimension of an encoding.
"""

from __future__ import annotations

import numpy as np

from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.compiling import njit

POWER = 3  # of cosines


def regularize(scores: np.ndarray, encodings: np.ndarray, neighbours: int, weight: float) -> np.ndarray:
    """Regularized scores, float32 [C].

    Args:
        scores: float32 [C], descending, not negative.
        encodings: of the first n documents, float32 [n, E], n at most C, not normalized.
        neighbours: k.
        weight: w, from 0 to 1.
    """
    lengths = np.sqrt(np.einsum("ne,ne->n", encodings, encodings))
    units = encodings / np.where(lengths > 0, lengths, 1)[:, None]
    top = len(encodings)
    regularized = (1 - weight) * scores.astype(np.float64)
    cosines = np.zeros((top, top), np.float32)
    _fill_cosines(units, cosines)
    regularized[:top] += weight * _neighbour_means(cosines, scores[:top], neighbours)
    return regularized.astype(np.float32)


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def _fill_cosines(units, cosines):
    """The cosines of unit vectors float32 [n, E], into float32 [n, n]; the diagonal is 0."""
    count, size = units.shape
    for row in range(0, count, 2):  # blocks of two by two, as reading takes longer than multiplying
        below = min(row + 1, count - 1)
        for column in range(0, row + 1, 2):
            right = min(column + 1, count - 1)
            first = second = third = fourth = np.float32(0.0)
            for i in range(size):
                first += units[row, i] * units[column, i]
                second += units[row, i] * units[right, i]
                third += units[below, i] * units[column, i]
                fourth += units[below, i] * units[right, i]
            cosines[row, column] = cosines[column, row] = first
            cosines[row, right] = cosines[right, row] = second
            cosines[below, column] = cosines[column, below] = third
            cosines[below, right] = cosines[right, below] = fourth
    for row in range(count):
        cosines[row, row] = 0.0


@njit(nogil=True, cache=True)
def _neighbour_means(cosines, scores, neighbours):
    """The mean score of each document's neighbours, weighted by cubed cosines, float64 [n]; 0 without neighbours."""
    means = np.zeros(len(scores))
    nearest, nearest_scores = np.zeros(neighbours), np.zeros(neighbours)  # cosines, ascending, and their scores
    for row in range(len(scores)):
        nearest[:] = 0.0
        for column in range(len(scores)):
            cosine = cosines[row, column]
            if cosine <= nearest[0]:
                continue
            position = 0
            while position + 1 < neighbours and nearest[position + 1] < cosine:
                nearest[position], nearest_scores[position] = nearest[position + 1], nearest_scores[position + 1]
                position += 1
            nearest[position], nearest_scores[position] = cosine, scores[column]
        total = (nearest**POWER).sum()
        if total > 0:
            means[row] = (nearest**POWER * nearest_scores).sum() / total
    return means
