"""Convolutions over the words of a document as a sequence of small matrix products, compiled with numba.

Rows are contiguous in memory, so a window of ``width`` rows is one contiguous run of ``width * K`` numbers, and a
convolution is a product of overlapping rows with a matrix [width * K, filters]. A document's rows and the weights
stay in the first-level cache, and the sums in registers: :func:`window_products` is written in vectors of LLVM, which
become AVX, AVX-512 or NEON, because no compiler finds this form by itself.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

LANES = 16  # filters at once
ROWS = 5  # output rows at once: 10 of 16 registers hold sums with AVX, 5 of 32 with AVX-512


def round_up(filters: int) -> int:
    """Filters with the padding that :func:`convolve` needs: a multiple of LANES."""
    return -(-filters // LANES) * LANES


def pad_columns(matrix: np.ndarray) -> np.ndarray:
    """A matrix float32 [n, filters] with zero columns up to a multiple of LANES."""
    padded = np.zeros((len(matrix), round_up(matrix.shape[1])), np.float32)
    padded[:, : matrix.shape[1]] = matrix
    return padded


class _Tile:
    """Code for ROWS x LANES sums: row i is ``source[i * source_step :][:length] @ weights[:, :LANES]``.

    Args:
        builder: of LLVM code. size: the integer type of lengths. source, weights: addresses of float32.
        length: of a row, at least 1. source_step, weights_step: floats from one row to the next.
    """

    number = ir.FloatType()
    vector = ir.VectorType(number, LANES)
    undefined = ir.Constant(vector, ir.Undefined)
    all_first = ir.Constant(ir.VectorType(ir.IntType(32), LANES), None)  # a shuffle that repeats lane 0

    def __init__(self, builder, size, source, weights, length, source_step, weights_step):
        self.builder, self.size, self.length = builder, size, length
        self.source_rows = self.rows(source, source_step)
        self.weights, self.weights_step = self.pointer(weights), weights_step

    def pointer(self, address):
        return self.builder.inttoptr(address, self.number.as_pointer())

    def as_vector(self, pointer):
        return self.builder.bitcast(pointer, self.vector.as_pointer())

    def rows(self, address, step):
        start = self.pointer(address)
        return [self.builder.gep(start, [self.builder.mul(self.size(row), step)]) for row in range(ROWS)]

    def repeat(self, value):
        """A vector with the same number in every lane."""
        first = self.builder.insert_element(self.undefined, value, ir.IntType(32)(0))
        return self.builder.shuffle_vector(first, self.undefined, self.all_first)

    def sums(self, before):
        """The sums, added to the vectors ``before``; the builder is left behind the loop."""
        builder = self.builder
        entry = builder.block
        loop, end = builder.append_basic_block("products"), builder.append_basic_block("products_end")
        builder.branch(loop)
        builder.position_at_end(loop)
        place = builder.phi(self.size)
        sums = [builder.phi(self.vector) for _ in range(ROWS)]
        weight_row = builder.gep(self.weights, [builder.mul(place, self.weights_step)])
        weight_row = builder.load(self.as_vector(weight_row), align=4)
        following = []
        for row, total in zip(self.source_rows, sums):
            value = self.repeat(builder.load(builder.gep(row, [place])))
            product = builder.fmul(value, weight_row, flags=("contract",))
            following.append(builder.fadd(total, product, flags=("contract",)))
        next_place = builder.add(place, self.size(1))
        builder.cbranch(builder.icmp_signed("<", next_place, self.length), loop, end)
        place.add_incoming(self.size(0), entry)
        place.add_incoming(next_place, loop)
        for total, start, then in zip(sums, before, following):
            total.add_incoming(start, entry)
            total.add_incoming(then, loop)
        builder.position_at_end(end)
        return following


@intrinsic
def window_products(typing_context, source, weights, target, length, source_step, weights_step, target_step):
    """``target[i, :LANES] += source[i * source_step :][:length] @ weights[:, :LANES]`` for i = 0 .. ROWS - 1.

    All three are addresses of float32; steps count floats from one row to the next. ``length`` must be at least 1.
    """
    signature = types.void(*[types.uintp] * 3, *[types.intp] * 4)

    def generate(context, builder, _, arguments):
        source, weights, target, length, source_step, weights_step, target_step = arguments
        tile = _Tile(builder, length.type, source, weights, length, source_step, weights_step)
        targets = [tile.as_vector(row) for row in tile.rows(target, target_step)]
        sums = tile.sums([builder.load(row, align=4) for row in targets])
        for total, row in zip(sums, targets):
            builder.store(total, row, align=4)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def leaky_products(
    typing_context, source, weights, bias, target, length, source_step, weights_step, target_step, slope
):
    """As :func:`window_products`, with ``target = leaky(bias + products)`` and the slope below zero."""
    signature = types.void(*[types.uintp] * 4, *[types.intp] * 4, types.float32)

    def generate(context, builder, _, arguments):
        source, weights, bias, target, length, source_step, weights_step, target_step, slope = arguments
        tile = _Tile(builder, length.type, source, weights, length, source_step, weights_step)
        targets = [tile.as_vector(row) for row in tile.rows(target, target_step)]
        before = builder.load(tile.as_vector(tile.pointer(bias)), align=4)
        slopes, zero = tile.repeat(slope), ir.Constant(tile.vector, None)
        for total, row in zip(tile.sums([before] * ROWS), targets):
            positive = builder.fcmp_ordered(">", total, zero)
            builder.store(builder.select(positive, total, builder.fmul(total, slopes)), row, align=4)
        return context.get_dummy_value()

    return signature, generate


@njit(nogil=True, cache=True)
def leaky_convolution(source, weights, bias, slope, target, rows, width):
    """``target[i] = leaky(bias + source[i : i + width].ravel() @ weights)`` for i < rows, with the slope below zero.

    Up to ROWS - 1 further rows are overwritten with arbitrary values. With width 1 this is a feed-forward layer.

    Args:
        source: float32 [at least rows + width - 1 + ROWS, K], contiguous.
        weights: float32 [width * K, filters], filters a multiple of LANES. bias: float32 [filters].
        target: float32 [at least rows + ROWS - 1, filters], contiguous.
    """
    filters, step = weights.shape[1], source.shape[1]
    for row in range(0, rows, ROWS):
        for column in range(0, filters, LANES):
            leaky_products(
                source.ctypes.data + row * step * 4,
                weights.ctypes.data + column * 4,
                bias.ctypes.data + column * 4,
                target.ctypes.data + (row * filters + column) * 4,
                width * step,
                step,
                filters,
                filters,
                slope,
            )
