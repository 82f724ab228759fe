"""Arrays that grow, on disk and in memory; memory-mapped arrays; and slices of concatenated lists."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from tokenize import TokenError
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from rerank_plugin.files.regular_files import regular

PART = 1 << 20  # rows that a core checks at once
HEADERS = Lock()  # NumPy parses them as Python, which several threads at once cannot in all versions: a SystemError


class ArrayWriter:
    """Appends rows of shape ``row_shape`` to a ``.npy`` file whose length is known only at the end.

    The header is written twice: NumPy pads it, so the length can grow without moving the data.

    Attributes:
        length: the number of rows in the file.
    """

    def __init__(self, path: Path, dtype, row_shape: tuple[int, ...] = ()):
        self.dtype, self.row_shape, self.length = np.dtype(dtype), row_shape, 0
        self.file: BinaryIO = open(path, "wb")
        self._write_header()

    def _write_header(self) -> None:
        self.file.seek(0)
        shape = (self.length, *self.row_shape)
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
    """Writes the offsets of concatenated lists, uint64 [n + 1]."""

    def __init__(self, path: Path):
        super().__init__(path, np.uint64)
        self.end = 0
        self.append([0])

    def extend(self, lengths: Sequence[int]) -> None:
        """Append lists of these lengths."""
        self.append(self.end + np.cumsum(lengths, dtype=np.int64))
        self.end += sum(lengths)


class GrowingArray:
    """A flat array in memory that grows at its end.

    Attributes:
        buffer: the allocated array. length: the number of values in use.
    """

    def __init__(self, dtype) -> None:
        self.buffer, self.length = np.zeros(1024, dtype), 0

    @property
    def values(self) -> np.ndarray:
        """The values in use: a view, which later appends do not change."""
        return self.buffer[: self.length]

    def reserve(self, count: int) -> None:
        """Make room for ``count`` more values."""
        if (needed := self.length + count) > len(self.buffer):
            self.buffer = np.concatenate([self.values, np.zeros(2 * needed - self.length, self.buffer.dtype)])

    def append(self, values) -> None:
        self.reserve(len(values))
        self.buffer[self.length : self.length + len(values)] = values
        self.length += len(values)


def map_array(path: Path) -> np.memmap:
    """A read-only memory map of a ``.npy`` file; a ValueError if it holds no array, or a pickled one."""
    try:
        with HEADERS:
            return npy.open_memmap(regular(path), mode="r")
    except (SyntaxError, TokenError) as error:  # of a header that is damaged
        raise ValueError(f"{path} has no header of an array ({error})") from None


def open_array(path: Path, dtype: Any = None, shape: Sequence[int | None] | None = None) -> np.ndarray:
    """A read-only memory map of a ``.npy`` file, as a plain array; pickled arrays are refused.

    Args:
        dtype: the expected one. shape: the expected one, with None for any length.

    Raises:
        ValueError: the file holds no such array.
    """
    array = map_array(path)
    shape = [None] * array.ndim if shape is None else shape
    fits = len(shape) == array.ndim and all(one in (None, other) for one, other in zip(shape, array.shape))
    if not fits or not array.flags.c_contiguous or (dtype is not None and array.dtype != dtype):
        expected = f"{array.dtype if dtype is None else np.dtype(dtype)} {['any' if n is None else n for n in shape]}"
        raise ValueError(f"{path} is {array.dtype} {list(array.shape)}, expected {expected}".replace("'", ""))
    return array.view(np.ndarray)  # slicing a memmap takes microseconds


# What compiled loops rely on, checked once (:func:`rerank_plugin.files.checksums.check_once`). No loop checks it again.


def are_offsets(offsets: np.ndarray, end: int) -> bool:
    """Whether integers [n + 1] are the offsets of n lists in ``end`` values."""
    whole = len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == end
    return bool(whole) and are_sorted(offsets)


def are_sorted(values: np.ndarray) -> bool:
    """Whether no value of [n] is below the one before it."""
    return _all(values, lambda part: bool((part[1:] >= part[:-1]).all()))


def are_below(values: np.ndarray, bound: int, absent: int | None = None) -> bool:
    """Whether all integers are from 0 to below ``bound``, or ``absent``; any shape."""

    def are(part: np.ndarray) -> bool:
        if absent is not None:
            part = part[part != absent]
        return not part.size or bool(part.max() < bound and (part.dtype.kind == "u" or part.min() >= 0))

    return _all(values, are)


def are_finite(values: np.ndarray) -> bool:
    """Whether no value is infinite or NaN; any shape."""
    return _all(values, lambda part: bool(np.isfinite(part).all()))


def _all(values: np.ndarray, check: Callable[[np.ndarray], bool]) -> bool:
    """Whether all parts of an array pass, each of which begins with the last row of the one before; by all cores."""
    parts = [values[max(start - 1, 0) : start + PART] for start in range(0, len(values), PART)]
    if len(parts) < 2:
        return all(map(check, parts))
    from concurrent.futures import ThreadPoolExecutor  # needed once for an index

    with ThreadPoolExecutor(os.cpu_count()) as executor:
        return all(executor.map(check, parts))


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
    """Starts and lengths of the lists of rows [C], int64 [C] each, from the offsets [n + 1] of all lists."""
    starts = offsets[rows].astype(np.int64)
    return starts, offsets[rows + 1].astype(np.int64) - starts
