"""Inner products of one vector with the rows of a matrix, or some of them.

Both ways add up the products of a row in the same order, so they agree to the last bit. NumPy's own product is not
used: its threads (BLAS) wait for more work after each one, and take processor time from what comes next.
"""

from functools import partial

import numpy as np

from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.compiling import njit
from rerank_plugin.kernels.parallel import available_threads, split

SMALLEST_PART = 512  # rows: for fewer, waking a thread takes longer than their products
LARGE = 1 << 22  # numbers: one thread reads as many in half a millisecond, and a second one does not help with fewer


def inner_products(query: np.ndarray, vectors: np.ndarray, rows: np.ndarray, threads: int) -> np.ndarray:
    """``vectors[rows] @ query``, float32 [C], of vectors float32 [any, E], query float32 [E] and rows int64 [C]."""
    scores = np.empty(len(rows), np.float32)
    split(partial(_inner_products, vectors, rows, query, scores), len(rows), threads, SMALLEST_PART)
    return scores


def all_inner_products(query: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """``vectors @ query``, float32 [R], of vectors float32 [R, E] and a query float32 [E]."""
    scores = np.empty(len(vectors), np.float32)
    threads = available_threads() if vectors.size >= LARGE else 1
    split(partial(_all_inner_products, vectors, query, scores), len(vectors), threads, SMALLEST_PART)
    return scores


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def _inner_products(vectors, rows, query, scores, start, stop):
    """Scores start..stop: ``vectors[rows] @ query``."""
    for candidate in range(start, stop):
        scores[candidate] = _inner_product(vectors, rows[candidate], query)


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def _all_inner_products(vectors, query, scores, start, stop):
    """Scores start..stop: ``vectors @ query``."""
    for row in range(start, stop):
        scores[row] = _inner_product(vectors, row, query)


@njit(nogil=True, inline="always", fastmath=REASSOCIATE)
def _inner_product(vectors, row, query):
    total = np.float32(0.0)
    for i in range(len(query)):
        total += vectors[row, i] * query[i]
    return total
