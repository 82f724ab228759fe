"""Arrays on disk that grow while an index is built and are memory-mapped when it is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.lib import format as npy


class ArrayWriter:
    """Appends to a one-dimensional ``.npy`` file whose length is known only at the end.

    NumPy pads the header so that the length may grow without moving the data, so the header is written twice.
    """

    def __init__(self, path: Path, dtype):
        self.dtype = np.dtype(dtype)
        self.length = 0
        self.file = open(path, "wb")
        self._write_header()

    def _write_header(self) -> None:
        self.file.seek(0)
        npy.write_array_header_1_0(
            self.file, {"descr": npy.dtype_to_descr(self.dtype), "fortran_order": False, "shape": (self.length,)}
        )

    def append(self, values) -> None:
        """Append an array or a sequence of numbers."""
        array = np.ascontiguousarray(values, dtype=self.dtype)
        self.file.write(array.data)
        self.length += len(array)

    def close(self) -> None:
        self._write_header()
        self.file.close()


def open_array(path: Path) -> np.ndarray:
    """A read-only memory map of a ``.npy`` file; pickled arrays are refused."""
    return np.load(path, mmap_mode="r", allow_pickle=False)


def save_array(path: Path, values: np.ndarray) -> None:
    np.save(path, values, allow_pickle=False)


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The concatenated ranges ``starts[i] .. starts[i] + lengths[i]``, to gather many slices at once.

    Shapes: starts [C], lengths [C], result int64 [sum of lengths].
    """
    lengths = lengths.astype(np.int64)
    ends = np.cumsum(lengths)
    if not len(ends) or not ends[-1]:
        return np.zeros(0, np.int64)
    shift = starts.astype(np.int64) - (ends - lengths)
    return np.arange(ends[-1], dtype=np.int64) + np.repeat(shift, lengths)
