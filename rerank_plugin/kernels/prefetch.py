"""Memory prefetching: without it, a loop over scattered rows of a large table waits for each row."""

from __future__ import annotations

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

CACHE_LINE = 64  # bytes
AHEAD = 4  # rows: by the time they are needed they have arrived


@intrinsic
def _prefetch(typing_context, address):
    signature = types.void(types.uintp)

    def generate(context, builder, _, arguments):
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        builder.call(prefetch, [builder.inttoptr(arguments[0], pointer), number(0), number(3), number(1)])
        return context.get_dummy_value()

    return signature, generate


@njit(nogil=True, inline="always")
def prefetch_row(matrix, row):
    """Prefetch a row of a contiguous matrix; a row number out of range is harmless."""
    size = matrix.shape[1] * matrix.itemsize
    start = matrix.ctypes.data + row * size
    for offset in range(0, size, CACHE_LINE):
        _prefetch(start + offset)


@njit(nogil=True, inline="always")
def prefetch_run(array, start, length):
    """Prefetch ``array[start : start + length]`` of a contiguous one-dimensional array."""
    first = array.ctypes.data + start * array.itemsize
    for offset in range(0, length * array.itemsize + CACHE_LINE - 1, CACHE_LINE):
        _prefetch(first + offset)
