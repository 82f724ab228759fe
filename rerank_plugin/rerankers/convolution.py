"""Convolutions over the words of a document as one small matrix product after another, compiled with numba.

Rows that lie behind one another in memory make a window of ``width`` rows one contiguous run of ``width * K`` numbers,
so a convolution is a product of overlapping rows with a matrix [width * K, filters]. A document's rows and the weights
stay in the first-level cache, and the sums in registers: :func:`window_products` is written in vectors of LLVM, which
become AVX, AVX-512 or NEON, because no compiler finds this form by itself.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

LANES = 16  # filters at once
ROWS = 6  # output rows at once: 12 registers of sums with AVX, 6 with AVX-512


def round_up(filters: int) -> int:
    """Filters with the padding that :func:`convolve` needs: a multiple of LANES."""
    return -(-filters // LANES) * LANES


def pad_columns(matrix: np.ndarray) -> np.ndarray:
    """A matrix float32 [n, filters] with zero columns up to a multiple of LANES."""
    padded = np.zeros((len(matrix), round_up(matrix.shape[1])), np.float32)
    padded[:, : matrix.shape[1]] = matrix
    return padded


@intrinsic
def window_products(typing_context, source, weights, target, length, source_step, weights_step, target_step):
    """``target[i, :LANES] += source[i * source_step :][:length] @ weights[:, :LANES]`` for i = 0 .. ROWS - 1.

    All three are addresses of float32; steps count floats from one row to the next. ``length`` must be at least 1.
    """
    signature = types.void(*[types.uintp] * 3, *[types.intp] * 4)

    def generate(context, builder, _, arguments):
        one = ir.FloatType()
        vector = ir.VectorType(one, LANES)
        size = arguments[3].type
        source, weights, target = (builder.inttoptr(address, one.as_pointer()) for address in arguments[:3])
        length, source_step, weights_step, target_step = arguments[3:]
        undefined, first = ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), LANES), None)

        def rows(start, step):
            return [builder.gep(start, [builder.mul(size(row), step)]) for row in range(ROWS)]

        def as_vector(address):
            return builder.bitcast(address, vector.as_pointer())

        source_rows = rows(source, source_step)
        target_rows = [as_vector(row) for row in rows(target, target_step)]
        before = [builder.load(row, align=4) for row in target_rows]
        entry = builder.block
        loop, end = builder.append_basic_block("products"), builder.append_basic_block("products_end")
        builder.branch(loop)

        builder.position_at_end(loop)
        place = builder.phi(size)
        sums = [builder.phi(vector) for _ in range(ROWS)]
        weight_row = builder.load(as_vector(builder.gep(weights, [builder.mul(place, weights_step)])), align=4)
        following = []
        for row, total in zip(source_rows, sums):
            value = builder.load(builder.gep(row, [place]))
            value = builder.insert_element(undefined, value, ir.IntType(32)(0))
            value = builder.shuffle_vector(value, undefined, first)
            product = builder.fmul(value, weight_row, flags=("contract",))
            following.append(builder.fadd(total, product, flags=("contract",)))
        next_place = builder.add(place, size(1))
        builder.cbranch(builder.icmp_signed("<", next_place, length), loop, end)
        place.add_incoming(size(0), entry)
        place.add_incoming(next_place, loop)
        for total, start, then in zip(sums, before, following):
            total.add_incoming(start, entry)
            total.add_incoming(then, loop)

        builder.position_at_end(end)
        for row, total in zip(target_rows, following):
            builder.store(total, row, align=4)
        return context.get_dummy_value()

    return signature, generate


@njit(nogil=True, cache=True)
def leaky_convolution(source, weights, bias, slope, target, rows, width):
    """``target[i] = leaky(bias + source[i : i + width].ravel() @ weights)`` for i < rows, with the slope below zero.

    Up to ROWS - 1 rows more are overwritten with what means nothing. With width 1 this is a feed-forward layer.

    Args:
        source: float32 [at least rows + width - 1 + ROWS, K], contiguous.
        weights: float32 [width * K, filters], filters a multiple of LANES. bias: float32 [filters].
        target: float32 [at least rows + ROWS - 1, filters], contiguous.
    """
    filters, step = weights.shape[1], source.shape[1]
    for row in range(0, rows, ROWS):
        for i in range(row, row + ROWS):
            for j in range(filters):
                target[i, j] = bias[j]
        for column in range(0, filters, LANES):
            window_products(
                source.ctypes.data + row * step * 4,
                weights.ctypes.data + column * 4,
                target.ctypes.data + (row * filters + column) * 4,
                width * step,
                step,
                filters,
                filters,
            )
        for i in range(row, row + ROWS):
            for j in range(filters):
                value = target[i, j]
                target[i, j] = value if value > 0 else value * slope
