"""Score regularization: documents that are close to each other should have similar scores.

F. Diaz, Regularizing ad hoc retrieval scores, CIKM 2005, in one step over the candidates of one query: with s the score
of a document, w the weight, and S the cosines of the encodings of the best n documents, of which only a document's k
largest others, not below 0, are kept and cubed, ::

    s'_i = (1 - w) s_i + w (sum over j of S_ij s_j) / (sum over j of S_ij)

A document beyond the best n, or without a similar one, keeps (1 - w) s, so that none passes the best n from below.

Letters in shapes: n documents, E numbers of an encoding.
"""

from __future__ import annotations

import numpy as np

from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.compiling import njit

POWER = 3  # of cosines


def regularize(scores: np.ndarray, encodings: np.ndarray, neighbours: int, weight: float) -> np.ndarray:
    """Regularized scores, float32 [C], of scores from the best on, none below 0.

    Args:
        scores: float32 [C].
        encodings: of the first n documents, float32 [n, E], n at most C, of any length.
        neighbours: k.
        weight: w, from 0 to 1.
    """
    lengths = np.sqrt(np.einsum("ne,ne->n", encodings, encodings))
    units = encodings / np.where(lengths > 0, lengths, 1)[:, None]
    best = len(encodings)
    regularized = (1 - weight) * scores.astype(np.float64)
    cosines = np.zeros((best, best), np.float32)
    _fill_cosines(units, cosines)
    regularized[:best] += weight * _of_neighbours(cosines, scores[:best], neighbours)
    return regularized.astype(np.float32)


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def _fill_cosines(units, cosines):
    """The cosines of unit vectors float32 [n, E], into float32 [n, n]; the diagonal is 0."""
    count, size = units.shape
    for row in range(0, count, 2):  # two rows with two others at once, as reading takes longer than multiplying
        below = min(row + 1, count - 1)
        for other in range(0, row + 1, 2):
            right = min(other + 1, count - 1)
            first = second = third = fourth = np.float32(0.0)
            for i in range(size):
                first += units[row, i] * units[other, i]
                second += units[row, i] * units[right, i]
                third += units[below, i] * units[other, i]
                fourth += units[below, i] * units[right, i]
            cosines[row, other] = cosines[other, row] = first
            cosines[row, right] = cosines[right, row] = second
            cosines[below, other] = cosines[other, below] = third
            cosines[below, right] = cosines[right, below] = fourth
    for row in range(count):
        cosines[row, row] = 0.0


@njit(nogil=True, cache=True)
def _of_neighbours(cosines, scores, neighbours):
    """The mean score of each document's nearest others, weighted by cubed cosines, float64 [n]; 0 without any."""
    means = np.zeros(len(scores))
    nearest, of_nearest = np.zeros(neighbours), np.zeros(neighbours)  # cosines, ascending, and the others' scores
    for row in range(len(scores)):
        nearest[:] = 0.0
        for other in range(len(scores)):
            cosine = cosines[row, other]
            if cosine <= nearest[0]:
                continue
            place = 0
            while place + 1 < neighbours and nearest[place + 1] < cosine:
                nearest[place], of_nearest[place] = nearest[place + 1], of_nearest[place + 1]
                place += 1
            nearest[place], of_nearest[place] = cosine, scores[other]
        total = (nearest**POWER).sum()
        if total > 0:
            means[row] = (nearest**POWER * of_nearest).sum() / total
    return means
