"""Arrays that grow: on disk while an index is built, memory-mapped when it is read, and in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.lib import format as npy


class ArrayWriter:
    """Appends to a ``.npy`` file whose length is known only at the end; its rows have the shape ``of_row``.

    NumPy pads the header so that the length may grow without moving the data, so the header is written twice.
    """

    def __init__(self, path: Path, dtype, of_row: tuple[int, ...] = ()):
        self.dtype, self.of_row = np.dtype(dtype), of_row
        self.length = 0
        self.file = open(path, "wb")
        self._write_header()

    def _write_header(self) -> None:
        self.file.seek(0)
        shape = (self.length, *self.of_row)
        header = {"descr": npy.dtype_to_descr(self.dtype), "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(self.file, header)

    def append(self, values) -> None:
        """Append an array or a sequence of rows."""
        array = np.ascontiguousarray(values, dtype=self.dtype)
        self.file.write(array.data)
        self.length += len(array)

    def close(self) -> None:
        self._write_header()
        self.file.close()


class OffsetsWriter(ArrayWriter):
    """Writes where each of many lists starts that are stored one after another, uint64 [n + 1]."""

    def __init__(self, path: Path):
        super().__init__(path, np.uint64)
        self.append([0])
        self.end = 0

    def extend(self, lengths: Sequence[int]) -> None:
        """Append lists of these lengths."""
        self.append(self.end + np.cumsum(lengths, dtype=np.int64))
        self.end += sum(lengths)


class GrowingArray:
    """A flat array in memory that grows at its end.

    Attributes:
        room: the array and unused room behind it. length: how much of it is used.
    """

    def __init__(self, dtype) -> None:
        self.room, self.length = np.zeros(1024, dtype), 0

    @property
    def values(self) -> np.ndarray:
        """The array: a view, which stays as it is when more is appended."""
        return self.room[: self.length]

    def reserve(self, count: int) -> None:
        """Make room for so many more values."""
        if (needed := self.length + count) > len(self.room):
            self.room = np.concatenate([self.values, np.zeros(2 * needed - self.length, self.room.dtype)])

    def append(self, values) -> None:
        self.reserve(len(values))
        self.room[self.length : self.length + len(values)] = values
        self.length += len(values)


def open_array(path: Path) -> np.ndarray:
    """A read-only memory map of a ``.npy`` file, as a plain array; pickled arrays are refused."""
    return np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray)  # a memmap's slices cost microseconds


def save_array(path: Path, values: np.ndarray) -> None:
    np.save(path, values, allow_pickle=False)


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The concatenated ranges ``starts[i] .. starts[i] + lengths[i]``, int64 [sum of lengths], to gather many slices.

    Shapes: starts [C], lengths [C].
    """
    lengths = lengths.astype(np.int64)
    before = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum(), dtype=np.int64) + np.repeat(starts.astype(np.int64) - before, lengths)


def slices(offsets: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the lists of rows [C] start, and their lengths, int64 [C] each, by the offsets [n + 1] of all lists."""
    starts = offsets[rows].astype(np.int64)
    return starts, offsets[rows + 1].astype(np.int64) - starts
