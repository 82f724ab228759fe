"""The exponential function in float32, for compiled loops: without a library call, so that loops are vectorized.

``exp(x) = 2^n exp(r)`` with ``n`` the integer closest to ``x / ln 2`` and ``|r| <= ln 2 / 2``, where a polynomial of
degree 6 (minimax, relative error) is within 3e-9 of ``exp(r)``; float32 rounds to 6e-8.
"""

from __future__ import annotations

import numpy as np

from rerank_plugin.kernels.compiling import njit

_PER_LN_2 = np.float32(1 / np.log(2))
_LN_2_HIGH = np.float32(0.693359375)  # 9 bits: its product with n is exact
_LN_2_LOW = np.float32(np.log(2) - 0.693359375)
_SMALLEST, _LARGEST = np.float32(-87.0), np.float32(88.0)  # between them 2^n is a normal number
_HALF, _ONE, _ZERO = np.float32(0.5), np.float32(1.0), np.float32(0.0)
_P0, _P1, _P2, _P3, _P4 = (np.float32(term) for term in (0.49999993, 0.1666652, 0.04166839, 0.00836875, 0.00138145))


@njit(nogil=True, cache=True, fastmath={"contract"}, forceinline=True)
def exponential(x):
    """exp(x) of a float32, relative error 2e-7: 0 below -87, NaN for NaN; x must not exceed 88.

    Compiled without reassociation, even in a caller that allows it: the two parts of ln 2 must stay separate.
    """
    inside = _SMALLEST if x < _SMALLEST else x
    n = np.floor(inside * _PER_LN_2 + _HALF)
    r = inside - n * _LN_2_HIGH - n * _LN_2_LOW
    series = _P0 + r * (_P1 + r * (_P2 + r * (_P3 + r * _P4)))
    power = np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)
    return _ZERO if x < _SMALLEST else (_ONE + (r + r * r * series)) * power
