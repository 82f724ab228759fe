"""Instructions that numba does not generate: vectors of LANES numbers, prefetching, and waiting for another thread.

The first functions emit instructions with a ``builder`` of llvmlite; :func:`code` turns such functions into intrinsics
for the kernels. LLVM compiles the vectors to AVX, AVX-512 or NEON.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rerank_plugin.kernels.compiling import njit

LANES = 16  # float32 numbers of a vector
NUMBER, BYTE, WHOLE = ir.FloatType(), ir.IntType(8), ir.IntType(64)
VECTOR = ir.VectorType(NUMBER, LANES)
CACHE_LINE = 64  # bytes
AHEAD = 4  # rows to prefetch ahead: they arrive before they are needed


def code(*parameters: types.Type | ir.Type, result: types.Type = types.void) -> Callable:
    """Decorator: makes an intrinsic of a function that emits instructions, given a ``builder`` and the arguments.

    Args:
        parameters: the numba type of each argument; for an address, the llvmlite type of the value there: the function
            gets a pointer.
        result: the numba type of the result.
    """
    numba_types = [types.uintp if isinstance(parameter, ir.Type) else parameter for parameter in parameters]

    def decorated(emit: Callable):
        def generate(context, builder, _, arguments):
            values = (
                builder.inttoptr(value, parameter.as_pointer()) if isinstance(parameter, ir.Type) else value
                for value, parameter in zip(arguments, parameters)
            )
            returned = emit(builder, *values)
            return context.get_dummy_value() if result == types.void else returned

        return intrinsic(wraps(emit)(lambda typing_context, *_: (result(*numba_types), generate)))

    return decorated


def load_lanes(builder, pointer):
    """The vector at a pointer."""
    return builder.load(builder.bitcast(pointer, VECTOR.as_pointer()), align=4)


def store_lanes(builder, values, pointer):
    """Store a vector at a pointer."""
    builder.store(values, builder.bitcast(pointer, VECTOR.as_pointer()), align=4)


def repeat(builder, value):
    """A vector with the same number in every lane."""
    undefined, first = ir.Constant(VECTOR, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), LANES), None)
    return builder.shuffle_vector(builder.insert_element(undefined, value, ir.IntType(32)(0)), undefined, first)


def halves(builder, values):
    """The first and the second half of a vector of any type."""
    count = values.type.count // 2
    for start in (0, count):
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), count), list(range(start, start + count)))
        yield builder.shuffle_vector(values, values, lanes)


def multiply_add(builder, left, right, total):
    """``left * right + total``, rounded once on CPUs with fused multiply-add."""
    return builder.fadd(builder.fmul(left, right, flags=("contract",)), total, flags=("contract",))


def larger(builder, left, right):
    """The elementwise maximum of two vectors; ``right`` where either is NaN."""
    return builder.select(builder.fcmp_ordered(">", left, right), left, right)


def loop(builder, count, start, step):
    """Emit ``for i in range(count): values = step(i, values)`` with ``values`` in registers; ``count`` is at least 1.

    Args:
        start: the values before the loop, a list. step: emits the code of one iteration.

    Returns:
        the values after the loop.
    """
    entry = builder.block
    body, end = builder.append_basic_block("loop"), builder.append_basic_block("loop_end")
    builder.branch(body)
    builder.position_at_end(body)
    index, values = builder.phi(count.type), [builder.phi(value.type) for value in start]
    after = step(index, values)
    following = builder.add(index, count.type(1))
    last = builder.block
    builder.cbranch(builder.icmp_signed("<", following, count), body, end)
    for phi, initial, updated in zip([index, *values], [count.type(0), *start], [following, *after]):
        phi.add_incoming(initial, entry)
        phi.add_incoming(updated, last)
    builder.position_at_end(end)
    return after


def _prefetch_lines(builder, first, size, more):
    """Prefetch the complete cache lines of ``size + more`` bytes from the pointer ``first`` on; at least one line."""
    number, start = ir.IntType(32), builder.bitcast(first, BYTE.as_pointer())
    signature = ir.FunctionType(ir.VoidType(), [start.type, number, number, number])
    prefetch = builder.module.declare_intrinsic("llvm.prefetch", [start.type], signature)

    def prefetch_line(line, _):
        address = builder.gep(start, [builder.mul(line, line.type(CACHE_LINE))])
        builder.call(prefetch, [address, number(0), number(3), number(1)])
        return []

    loop(builder, builder.sdiv(builder.add(size, WHOLE(more)), WHOLE(CACHE_LINE)), [], prefetch_line)


@intrinsic
def prefetch_row(typing_context, matrix, row):
    """Prefetch a row of a contiguous matrix; a row number out of range is harmless."""

    def generate(context, builder, signature, arguments):
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        columns = builder.extract_value(view.shape, 1)
        start = builder.gep(view.data, [builder.mul(arguments[1], columns)])
        _prefetch_lines(builder, start, builder.mul(columns, view.itemsize), CACHE_LINE - 1)
        return context.get_dummy_value()

    return types.void(matrix, types.intp), generate


@intrinsic
def prefetch_run(typing_context, array, start, length):
    """Prefetch ``array[start : start + length]`` of a contiguous one-dimensional array."""

    def generate(context, builder, signature, arguments):
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        start = builder.gep(view.data, [arguments[1]])
        # The run may begin in the middle of a cache line.
        _prefetch_lines(builder, start, builder.mul(arguments[2], view.itemsize), 2 * (CACHE_LINE - 1))
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp), generate


@code(WHOLE, result=types.int64)
def _load_atomic(builder, address):
    """Load an int64 from memory; the compiler must not reuse an earlier value."""
    return builder.load_atomic(address, "acquire", 8)


@njit(nogil=True, cache=True)
def spin_until_above(counter, seen, spins):
    """Read ``counter``, int64 [1], until it is greater than ``seen``, at most ``spins`` times; returns its value."""
    address = counter.ctypes.data
    for _ in range(spins):
        now = _load_atomic(address)
        if now > seen:
            return now
    return seen
