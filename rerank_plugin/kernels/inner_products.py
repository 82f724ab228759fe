"""Inner products of one vector with the rows of a matrix.

NumPy's own product is not used: its threads (BLAS) wait for more work after each one, and take processor time from what
comes next.
"""

from functools import partial

import numpy as np

from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.compiling import njit
from rerank_plugin.kernels.parallel import available_threads, split

SMALLEST_PART = 512  # rows: for fewer, waking a thread takes longer than their products
LARGE = 1 << 22  # numbers: one thread reads as many in half a millisecond, and a second one does not help with fewer


def inner_products(query: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """``vectors @ query``, float32 [R], of vectors float32 [R, E] and a query float32 [E]."""
    products = np.empty(len(vectors), np.float32)
    threads = available_threads() if vectors.size >= LARGE else 1
    split(partial(_inner_products, vectors, query, products), len(vectors), threads, SMALLEST_PART)
    return products


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def _inner_products(vectors, query, products, start, stop):
    """Products start..stop of ``vectors @ query``."""
    for row in range(start, stop):
        total = np.float32(0.0)
        for i in range(len(query)):
            total += vectors[row, i] * query[i]
        products[row] = total
