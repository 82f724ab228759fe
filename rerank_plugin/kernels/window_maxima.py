"""A convolution over word vectors and the maxima of its windows, for many documents, compiled with numba.

The convolution is linear in the word vectors, so what a word adds at each tap is a row of a table, and a position is
the sum of a few rows. The table is divided into panels of LANES filters, and one panel is applied to all documents
before the next: unlike the whole table, the rows of a panel for the words of some documents fit into a cache.

Maxima are kept in registers over a block of positions, where no window begins or ends (the common divisor of a window's
width and stride), and a window is the maximum of its blocks by van Herk's method: runs of as many blocks as a window
has, running maxima from both ends of each run; a window is the end of one run and the start of the next.

Letters in shapes: C documents, N words of the longest, V words of the table, D dimension, K filters (a multiple of
LANES), P windows.
"""

from __future__ import annotations

from math import gcd

import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rerank_plugin.kernels.compiling import njit
from rerank_plugin.kernels.dense_layers import pad_columns
from rerank_plugin.kernels.intrinsics import (
    AHEAD,
    LANES,
    NUMBER,
    VECTOR,
    code,
    larger_or_nan,
    load_lanes,
    loop,
    prefetch_row,
    store_lanes,
)
from rerank_plugin.kernels.parallel import Workspace


class WindowMaxima:
    """The maxima of a convolution, without its bias, in the windows of documents.

    Args:
        vectors: word vectors, float32 [V, D].
        weight: of the convolution, float32 [filters, D, taps].
        width, stride: positions of a window, and from one window to the next.

    Attributes:
        table: what each word adds at each tap, float32 [K / LANES, V + 1, taps * LANES]; the last row is zero, for
            positions after a document.
        offsets: where each tap begins in a row.
    """

    def __init__(self, vectors: np.ndarray, weight: np.ndarray, width: int, stride: int):
        taps, panels = weight.shape[2], -(-len(weight) // LANES)
        table = torch.zeros(panels, len(vectors) + 1, taps, LANES).numpy()  # torch aligns rows with cache lines
        for tap in range(taps):
            products = torch.from_numpy(vectors) @ torch.from_numpy(pad_columns(weight[:, :, tap].T))  # [V, K]
            table[:, :-1, tap] = products.numpy().reshape(-1, panels, LANES).transpose(1, 0, 2)
        self.table = table.reshape(panels, len(vectors) + 1, taps * LANES)
        self.offsets = tuple(tap * LANES for tap in range(taps))
        self.width, self.stride, self.block = width, stride, gcd(width, stride)

    def fill(self, places: np.ndarray, positions: np.ndarray, pooled: np.ndarray, workspace: Workspace) -> None:
        """Fill ``pooled``, float32 [P, C or more, K], with the maxima.

        Args:
            places: the documents' words as rows of the table, padded with its last row, int32 [C, N + taps].
            positions: of the convolution in each document, int64 [C].
        """
        block = self.block
        maxima = workspace.array("block maxima", (2, -(-int(positions.max(initial=1)) // block), LANES), np.float32)
        windows = self.width // block, self.stride // block, block
        _pool_panels(places, positions, self.table, self.offsets, *windows, maxima, pooled)


@njit(nogil=True, cache=True)
def count_windows(positions, width, stride):
    """The number of pooling windows of a document: the first, and each whose predecessor does not reach the end."""
    return (positions > 0) + max(0, -((width - positions) // stride))


@njit(nogil=True, cache=True)
def _pool_panels(places, positions, table, offsets, width, stride, block, maxima, pooled):
    """See :meth:`WindowMaxima.fill`; ``width`` and ``stride`` count blocks. maxima: scratch, [2, blocks, LANES]."""
    row, half = LANES * maxima.itemsize, maxima[0].size * maxima.itemsize
    for panel in range(len(table)):
        for document in range(len(positions)):
            blocks = _block_maxima(places[document], positions[document], table[panel], offsets, block, maxima[0])
            _run_maxima(maxima, blocks, width)
            end_of_run = width
            for window in range(count_windows(blocks, width, stride)):
                first = window * stride
                last = min(first + width, blocks) - 1
                if first >= end_of_run:  # a stride is no longer than a run
                    end_of_run += width
                tail = maxima.ctypes.data + half + first * row
                head = tail if last < end_of_run else maxima.ctypes.data + last * row
                target = (window * pooled.shape[1] + document) * pooled.shape[2] + panel * LANES
                _maximum(tail, head, pooled.ctypes.data + target * pooled.itemsize)


@njit(nogil=True, cache=True)
def _block_maxima(places, positions, table, offsets, block, maxima):
    """The largest value of each filter in each block of positions: float32 [blocks, LANES]; returns their number."""
    blocks = (positions + block - 1) // block
    for number in range(blocks):
        first = number * block
        ahead = first + block + AHEAD
        for position in range(ahead, min(ahead + block, positions)):
            prefetch_row(table, places[position])
        _largest_sums(
            places.ctypes.data + first * places.itemsize,
            table.ctypes.data,
            maxima.ctypes.data + number * LANES * maxima.itemsize,
            min(block, positions - first),
            table.shape[1],
            offsets,
        )
    return blocks


@intrinsic
def _largest_sums(typing_context, places, table, target, count, step, offsets):
    """``target[:LANES] = max over i < count of the sum over taps t of table[places[i + t] * step + offsets[t] :]``.

    The sums and the maximum stay in registers. NaN is larger than any number.

    Args:
        places: address of int32. table, target: addresses of float32.
        count: at least 1. step: floats from one row of the table to the next.
        offsets: a tuple, one a tap; each length of it is compiled for itself.
    """
    taps = len(offsets)

    def generate(context, builder, _, arguments):
        count, step, offsets = arguments[3:]
        size = count.type
        places = builder.inttoptr(arguments[0], ir.IntType(32).as_pointer())
        table, target = (builder.inttoptr(address, NUMBER.as_pointer()) for address in arguments[1:3])
        starts = [builder.gep(table, [builder.extract_value(offsets, tap)]) for tap in range(taps)]

        def add(position, largest):
            total = VECTOR([-0.0] * LANES)  # adds nothing, not even a sign
            for tap, start in enumerate(starts):
                place = builder.sext(builder.load(builder.gep(places, [builder.add(position, size(tap))])), size)
                total = builder.fadd(total, load_lanes(builder, builder.gep(start, [builder.mul(place, step)])))
            return [larger_or_nan(builder, total, largest[0])]

        store_lanes(builder, loop(builder, count, [VECTOR([float("-inf")] * LANES)], add)[0], target)
        return context.get_dummy_value()

    return types.void(*[types.uintp] * 3, *[types.intp] * 2, offsets), generate


@njit(nogil=True, cache=True)
def _run_maxima(maxima, blocks, run):
    """Maxima within runs of ``run`` blocks: ``maxima[1]`` from a block to the run's end, ``[0]`` from its start.

    Args:
        maxima: float32 [2, blocks, LANES]; the first half holds the maxima of the blocks.
    """
    row = LANES * maxima.itemsize
    heads, tails = maxima.ctypes.data, maxima.ctypes.data + maxima[0].size * maxima.itemsize
    for first in range(0, blocks, run):
        last = min(first + run, blocks) - 1
        _maximum(heads + last * row, heads + last * row, tails + last * row)
        for block in range(last - 1, first - 1, -1):
            _maximum(heads + block * row, tails + (block + 1) * row, tails + block * row)
        for block in range(first + 1, last + 1):
            _maximum(heads + block * row, heads + (block - 1) * row, heads + block * row)


@code(NUMBER, NUMBER, NUMBER)
def _maximum(builder, one, other, target):
    """``target[:LANES] = max(one[:LANES], other[:LANES])`` for addresses of float32. NaN is larger than any number."""
    store_lanes(builder, larger_or_nan(builder, load_lanes(builder, one), load_lanes(builder, other)), target)
