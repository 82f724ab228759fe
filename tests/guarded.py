"""Arrays in memory that shows when a kernel leaves them: filled with NaN, between pages that nobody may touch.

A read or a write beyond such an array kills the process, so what uses :func:`fenced` runs in a process of its own.
"""

import ctypes
import mmap
import sys

import numpy as np

FENCES = sys.platform == "linux"  # where pages can be forbidden as below
MARGIN = 64  # elements before and after a poisoned array


def garbage(dtype):
    """A value that spoils what is computed with it: NaN, or the last of whatever is numbered."""
    return np.nan if np.dtype(dtype).kind == "f" else np.array(-1).astype(dtype)


class Poisoned:
    """Gives arrays with garbage in them and around them, as any ``Workspace.array`` may, and remembers them."""

    def __init__(self):
        self.given = []

    def array(self, workspace, name, shape, dtype):
        size = int(np.prod(shape, dtype=np.int64))
        memory = np.full(size + 2 * MARGIN, garbage(dtype), dtype)
        self.given.append((name, memory))
        return memory[MARGIN : MARGIN + size].reshape(shape)

    def overrun(self):
        """Names of the arrays around which something was written."""
        return [
            name
            for name, memory in self.given
            for around in (memory[:MARGIN], memory[-MARGIN:])
            if not np.array_equal(around, np.full(MARGIN, garbage(memory.dtype), memory.dtype), equal_nan=True)
        ]


_kept = []  # memory maps must outlive the arrays that lie in them


def fenced(shape, dtype, at_end=True):
    """An array of garbage whose last (or first) byte is the last (or first) that may be touched."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, pages + 2 * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for fence in (start, start + mmap.PAGESIZE + pages):
        if protect(fence, mmap.PAGESIZE, 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    _kept.append(memory)
    offset = mmap.PAGESIZE + (pages - size if at_end else 0)
    array = np.frombuffer(memory, dtype, size // np.dtype(dtype).itemsize, offset).reshape(shape)
    array[...] = garbage(dtype)
    return array
