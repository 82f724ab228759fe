"""Feed-forward layers and convolutions over words as products of rows with panels of weights, compiled with numba.

Rows are contiguous in memory, so a window of ``width`` rows is one contiguous run of ``width * K`` numbers, and a
convolution is a product of overlapping rows with a matrix [width * K, filters]. The weights are divided into contiguous
panels of LANES outputs, and one panel is applied to all rows before the next: large weights are read from memory once
per call, and the sums of ROWS rows stay in registers.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numba import types

from rerank_plugin.kernels.compiling import njit
from rerank_plugin.kernels.intrinsics import (
    LANES,
    NUMBER,
    VECTOR,
    code,
    load_lanes,
    loop,
    multiply_add,
    repeat,
    store_lanes,
)
from rerank_plugin.kernels.parallel import Workspace

ROWS = 5  # output rows per block: their sums take 10 of 16 registers with AVX, 5 of 32 with AVX-512
RELU, LINEAR = np.float32(0.0), np.float32(1.0)  # slopes below zero


def round_up(filters: int) -> int:
    """The padded number of filters: a multiple of LANES."""
    return -(-filters // LANES) * LANES


def pad_columns(matrix: np.ndarray) -> np.ndarray:
    """A matrix float32 [n, filters] with zero columns up to a multiple of LANES."""
    padded = np.zeros((len(matrix), round_up(matrix.shape[1])), np.float32)
    padded[:, : matrix.shape[1]] = matrix
    return padded


def pad_vector(vector: np.ndarray) -> np.ndarray:
    """A vector float32 [n] with zeros up to a multiple of LANES."""
    return pad_columns(np.asarray(vector)[None])[0]


def pack_panels(matrix: np.ndarray) -> np.ndarray:
    """A matrix float32 [inward, outward] as panels float32 [outward / LANES rounded up, inward, LANES]."""
    padded = pad_columns(np.asarray(matrix))
    return np.ascontiguousarray(padded.reshape(len(padded), -1, LANES).transpose(1, 0, 2))


def tap_columns(weight: np.ndarray) -> np.ndarray:
    """The weights of a convolution, float32 [filters, inward, width], tap beside tap: float32 [inward, width * K]."""
    return np.concatenate([pad_columns(tap) for tap in weight.transpose(2, 1, 0)], axis=1)


def pack_convolution(weight: np.ndarray, inward: int = 0) -> np.ndarray:
    """The weights of a convolution, float32 [filters, inward, width], as panels for windows of rows.

    Args:
        inward: the length of a row, if zeros follow the inputs that have weights.
    """
    rows = np.zeros((weight.shape[2], inward or weight.shape[1], weight.shape[0]), np.float32)
    rows[:, : weight.shape[1]] = weight.transpose(2, 1, 0)
    return pack_panels(rows.reshape(-1, rows.shape[2]))


@code(*[NUMBER] * 4, *[types.intp] * 3, types.float32)
def _window_products(builder, source, weights, bias, target, length, source_step, target_step, slope):
    """``target[i, :LANES] = leaky(bias + source[i * source_step :][:length] @ weights)`` for i = 0 .. ROWS - 1.

    The first four are addresses of float32; steps count floats from one row to the next. ``length`` is at least 1.
    ``weights`` are [length, LANES]. On CPUs with fused multiply-add, a product and its sum are rounded once.
    """
    size = length.type

    def rows(first, step):
        return [builder.gep(first, [builder.mul(size(row), step)]) for row in range(ROWS)]

    sources = rows(source, source_step)

    def add(index, sums):
        weight_row = load_lanes(builder, builder.gep(weights, [builder.mul(index, size(LANES))]))
        values = [repeat(builder, builder.load(builder.gep(row, [index]))) for row in sources]
        return [multiply_add(builder, value, weight_row, total) for value, total in zip(values, sums)]

    sums = loop(builder, length, [load_lanes(builder, bias)] * ROWS, add)
    slopes, zero = repeat(builder, slope), VECTOR(None)
    for total, row in zip(sums, rows(target, target_step)):
        positive = builder.fcmp_ordered(">", total, zero)
        store_lanes(builder, builder.select(positive, total, builder.fmul(total, slopes)), row)


@njit(nogil=True, cache=True)
def dense(source, panels, bias, slope, target, rows):
    """``target[i] = leaky(bias + window i of source @ weights)`` for i < rows, with the slope below zero.

    Window i is ``source[i:].ravel()[:inward]``: a row, its beginning, or the rows of a convolution. Slope 0 is ReLU, 1
    is linear. Up to ROWS - 1 further rows are overwritten with arbitrary values, and as many further windows read.

    Args:
        source: float32 [at least rows + ROWS, any], contiguous. panels: float32 [P, inward, LANES].
        bias: float32 [P * LANES].
        target: float32 [at least rows + ROWS - 1, P * LANES], contiguous; it must not overlap with an input.
    """
    step, columns, inward = source.shape[1], target.shape[1], panels.shape[1]
    for panel in range(len(panels)):
        for row in range(0, rows, ROWS):
            _window_products(
                source.ctypes.data + row * step * 4,
                panels.ctypes.data + panel * inward * LANES * 4,
                bias.ctypes.data + panel * LANES * 4,
                target.ctypes.data + (row * columns + panel * LANES) * 4,
                inward, step, columns, slope,
            )  # fmt: skip


class DenseLayers:
    """Packed feed-forward layers with leaky activations.

    Args:
        layers: weight float32 [outward, inward] and bias float32 [outward] of each layer.
        slope: of the activations below zero. last_slope: of the last layer; by default it is linear.
    """

    def __init__(self, layers: Iterable[tuple], slope: float, last_slope: float = 1.0):
        self.layers = [(pack_panels(weight.T), pad_vector(bias), np.float32(slope)) for weight, bias in layers]
        self.layers[-1] = (*self.layers[-1][:2], np.float32(last_slope))

    def outputs(
        self, source: np.ndarray, count: int, workspace: Workspace, first_bias: np.ndarray | None = None
    ) -> np.ndarray:
        """The first output of the last layer for the first ``count`` rows: float32 [count], in the workspace.

        Args:
            source: float32 [at least count + ROWS, inward].
            first_bias: replaces the first layer's bias; padded.
        """
        for layer, (panels, bias, slope) in enumerate(self.layers):
            target = workspace.array(f"layer {layer % 2}", (count + ROWS, len(bias)), np.float32)
            dense(source, panels, bias if layer or first_bias is None else first_bias, slope, target, count)
            source = target
        return source[:count, 0]
