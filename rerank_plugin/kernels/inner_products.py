"""Inner products of one vector with some rows of a matrix."""

from functools import partial

import numpy as np
from numba import njit

from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.parallel import split

SMALLEST_PART = 512  # rows: for fewer, waking a thread takes longer than their products


def inner_products(query: np.ndarray, vectors: np.ndarray, rows: np.ndarray, threads: int) -> np.ndarray:
    """``vectors[rows] @ query``, float32 [C], of vectors float32 [any, E], query float32 [E] and rows int64 [C]."""
    scores = np.empty(len(rows), np.float32)
    split(partial(_inner_products, vectors, rows, query, scores), len(rows), threads, SMALLEST_PART)
    return scores


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def _inner_products(vectors, rows, query, scores, start, stop):
    """Scores start..stop: ``vectors[rows] @ query``."""
    for candidate in range(start, stop):
        row, total = rows[candidate], np.float32(0.0)
        for i in range(len(query)):
            total += vectors[row, i] * query[i]
        scores[candidate] = total
