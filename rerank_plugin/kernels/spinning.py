"""A short busy wait for another thread, compiled with numba so that the GIL is released."""

from __future__ import annotations

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic


@intrinsic
def _load(typing_context, address):
    """Load an int64 from memory; the compiler may not reuse an earlier value."""

    def generate(context, builder, _, arguments):
        number = ir.IntType(64)
        return builder.load_atomic(builder.inttoptr(arguments[0], number.as_pointer()), "acquire", 8)

    return types.int64(types.uintp), generate


@njit(nogil=True, cache=True)
def wait_beyond(counter, seen, spins):
    """Read ``counter``, int64 [1], until it is greater than ``seen``, at most ``spins`` times; returns its value."""
    address = counter.ctypes.data
    for _ in range(spins):
        now = _load(address)
        if now > seen:
            return now
    return seen
