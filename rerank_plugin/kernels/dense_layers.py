"""Feed-forward layers whose weights are larger than the processor's near caches, compiled with numba.

A layer that fits the first-level cache is computed by groups of rows
(:func:`~rerank_plugin.kernels.convolution.leaky_convolution`). Here the weights are divided into contiguous panels of
LANES outputs, and one panel is applied to all rows before the next: every weight is read from memory once per call.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rerank_plugin.kernels.convolution import LANES, ROWS, pad_columns, window_products


def pack_panels(matrix: np.ndarray) -> np.ndarray:
    """A matrix float32 [inward, outward] as panels float32 [outward / LANES rounded up, inward, LANES]."""
    padded = pad_columns(np.asarray(matrix, np.float32))
    return np.ascontiguousarray(padded.reshape(len(padded), -1, LANES).transpose(1, 0, 2))


def pad_vector(vector: np.ndarray) -> np.ndarray:
    """A vector float32 [n] with zeros up to a multiple of LANES."""
    return pad_columns(np.asarray(vector, np.float32)[None])[0]


@njit(nogil=True, cache=True)
def dense(source, panels, bias, slope, target, rows):
    """``target[i] = leaky(bias + window i of source @ weights)`` for i < rows, with the slope below zero.

    Window i is ``source[i:].ravel()[:inward]``: a row, its beginning, or the rows of a convolution. Slope 0 is ReLU, 1
    is linear. Up to ROWS - 1 further rows are overwritten with arbitrary values, and as many further windows are read.

    Args:
        source: float32 [at least rows + ROWS, any], contiguous. panels: float32 [P, inward, LANES].
        bias: float32 [P * LANES].
        target: float32 [at least rows + ROWS - 1, P * LANES], contiguous; it must not overlap with an input.
    """
    step, columns = source.shape[1], target.shape[1]
    for panel in range(len(panels)):
        start = panel * LANES
        for row in range(0, rows, ROWS):
            for i in range(row, row + ROWS):
                for j in range(start, start + LANES):
                    target[i, j] = bias[j]
            window_products(
                source.ctypes.data + row * step * 4,
                panels.ctypes.data + panel * panels.shape[1] * LANES * 4,
                target.ctypes.data + (row * columns + start) * 4,
                panels.shape[1],
                step,
                LANES,
                columns,
            )
            for i in range(row, row + ROWS):
                for j in range(start, start + LANES):
                    value = target[i, j]
                    target[i, j] = value if value > 0 else value * slope
