"""Strings by row number and row numbers by string, memory-mapped instead of in a Python dictionary.

A table is the UTF-8 bytes of all strings, their offsets and, if it can be searched, the sorted 64-bit hashes of the
strings and their rows. A look-up is a binary search of the hash and a comparison of the string, so collisions are
harmless.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rerank_plugin.files.arrays import (
    ArrayWriter,
    OffsetsWriter,
    are_below,
    are_offsets,
    are_sorted,
    open_array,
    ranges,
    save_array,
    slices,
)
from rerank_plugin.files.checksums import check_once


def hash_strings(strings: Iterable[str]) -> np.ndarray:
    """64-bit hashes, uint64 [n]; the same on every machine and in every process.

    Half a character (a lone surrogate) is in no string of a table, and looked up in vain.
    """
    digests = b"".join([blake2b(string.encode(errors="surrogatepass"), digest_size=8).digest() for string in strings])
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def ranks(padded: np.ndarray) -> np.ndarray:
    """The rank of each string, given as bytes with zeros after them, uint8 [C, B], in increasing byte order."""
    order = np.argsort(padded.view(f"S{padded.shape[1]}").ravel(), kind="stable")
    ranked = np.empty(len(order), np.int64)
    ranked[order] = np.arange(len(order))
    return ranked


class StringTable:
    """A read-only table, opened by folder and name.

    Args:
        rows: the number of strings, if it is known.

    Raises:
        ValueError: a file holds no such array, or they do not fit together.

    Attributes:
        hashes: of the strings, sorted, uint64 [n]. rows: theirs, uint32 [n]. Both are empty if the table was written
            without them, and cannot be searched.
    """

    def __init__(self, folder: Path, name: str, rows: int | None = None) -> None:
        self.folder, self.name = folder, name
        opened = []

        def array(part: str, dtype: Any, length: int | None = None) -> np.ndarray:
            opened.append(folder / f"{name}.{part}.npy")
            return open_array(opened[-1], dtype, (length,))

        self.bytes = array("bytes", np.uint8)
        self.offsets = array("offsets", np.uint64, None if rows is None else rows + 1)
        self.hashes, self.rows = np.zeros(0, np.uint64), np.zeros(0, np.uint32)
        self.is_searchable = (folder / f"{name}.hashes.npy").exists()
        if self.is_searchable:
            self.hashes = array("hashes", np.uint64)
            self.rows = array("rows", np.uint32, len(self.hashes))
        if not check_once(opened, self._is_sound):
            raise ValueError(f"the arrays of {name} in {folder} do not fit together")

    def _is_sound(self) -> bool:
        return (
            are_offsets(self.offsets, len(self.bytes)) and are_sorted(self.hashes) and are_below(self.rows, len(self))
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> str:
        start, end = int(self.offsets[row]), int(self.offsets[row + 1])
        return self.bytes[start:end].tobytes().decode()

    def take(self, rows: ArrayLike) -> list[str]:
        """The strings of rows, gathered in one pass. Shapes: rows int [C]."""
        starts, lengths = slices(self.offsets, np.asarray(rows, dtype=np.int64))
        gathered = self.bytes[ranges(starts, lengths)].tobytes()
        ends = np.cumsum(lengths).tolist()
        return [gathered[end - length : end].decode() for end, length in zip(ends, lengths.tolist())]

    def ranks(self, rows: np.ndarray) -> np.ndarray:
        """The rank of each of these strings among them, in increasing byte order (as C's strcmp), int64 [C]."""
        return ranks(self.beginnings(rows))

    def beginnings(self, rows: np.ndarray, longest: int | None = None) -> np.ndarray:
        """The first bytes of strings, by default all, with zeros after them, uint8 [C, B]."""
        starts, lengths = slices(self.offsets, rows)
        lengths = lengths if longest is None else np.minimum(lengths, longest)
        padded = np.zeros((len(rows), int(lengths.max(initial=1))), np.uint8)
        padded[np.arange(padded.shape[1]) < lengths[:, None]] = self.bytes[ranges(starts, lengths)]
        return padded

    def find(self, strings: Sequence[str], hashes: np.ndarray | None = None) -> np.ndarray:
        """Rows of the strings, int64 [n]; the first row of a string that repeats, -1 for one not in the table.

        Args:
            hashes: of the strings, if they are known.
        """
        if not self.is_searchable:
            raise TypeError("this table was written without hashes")
        hashes = hash_strings(strings) if hashes is None else hashes
        found, pending = np.full(len(hashes), -1, np.int64), np.arange(len(hashes))
        positions = np.searchsorted(self.hashes, hashes)
        while len(pending := pending[positions[pending] < len(self.hashes)]):
            pending = pending[self.hashes[positions[pending]] == hashes[pending]]
            rows = self.rows[positions[pending]].astype(np.int64)
            same = np.array([stored == strings[i] for stored, i in zip(self.take(rows), pending.tolist())], bool)
            found[pending[same]] = rows[same]
            pending = pending[~same]  # a collision: try the next row of the same hash
            positions[pending] += 1
        return found


class StringsInMemory:
    """A growing table in memory, with a dictionary for look-ups."""

    def __init__(self, strings: Iterable[str] = ()) -> None:
        self.strings = list(strings)
        self.rows = {string: row for row, string in enumerate(self.strings)}

    def __len__(self) -> int:
        return len(self.strings)

    def __getitem__(self, row: int) -> str:
        return self.strings[row]

    def take(self, rows: ArrayLike) -> list[str]:
        """The strings of rows int [C]."""
        return [self.strings[row] for row in np.asarray(rows).tolist()]

    def find(self, strings: Sequence[str]) -> np.ndarray:
        """Rows of the strings, int64 [n]; -1 for a string that is not in the table."""
        return np.array([self.rows.get(string, -1) for string in strings], np.int64)

    def add(self, string: str) -> int:
        """The row of a string; a new string is appended."""
        row = self.rows.setdefault(string, len(self.strings))
        if row == len(self.strings):
            self.strings.append(string)
        return row


class StringTableWriter:
    """Appends strings; ``close`` also writes the arrays for look-ups by string, if requested."""

    def __init__(self, folder: Path, name: str, searchable: bool):
        self.folder, self.name = folder, name
        self.text = ArrayWriter(folder / f"{name}.bytes.npy", np.uint8)
        self.offsets = OffsetsWriter(folder / f"{name}.offsets.npy")
        self.hashes: list[np.ndarray] | None = [] if searchable else None

    def __len__(self) -> int:
        """The number of strings in the table so far."""
        return self.offsets.length - 1

    def extend(self, strings: Sequence[str], hashes: np.ndarray | None = None) -> None:
        """Append strings, whose ``hashes`` are computed if not given."""
        encoded = [string.encode() for string in strings]
        self.text.append(np.frombuffer(b"".join(encoded), np.uint8))
        self.offsets.extend(list(map(len, encoded)))
        if self.hashes is not None:
            self.hashes.append(hash_strings(strings) if hashes is None else hashes)

    def copy(self, table: StringTable) -> None:
        """Append the strings of another table, whose hashes are not computed again."""
        self.text.append(table.bytes)
        self.offsets.append(table.offsets[1:] + np.uint64(self.offsets.end))
        self.offsets.end += int(table.offsets[-1])
        if self.hashes is not None:
            by_row = np.empty(len(table), np.uint64)
            by_row[table.rows] = table.hashes
            self.hashes.append(by_row)

    def close(self) -> None:
        self.text.close()
        self.offsets.close()
        if self.hashes is not None:
            hashes = np.concatenate([np.zeros(0, np.uint64), *self.hashes])
            order = np.argsort(hashes, kind="stable")
            save_array(self.folder / f"{self.name}.hashes.npy", hashes[order])
            save_array(self.folder / f"{self.name}.rows.npy", order.astype(np.uint32))


class SeenHashes:
    """A set of hashes in 8 bytes per string, as sorted runs; a new run is merged with runs that are not larger."""

    def __init__(self) -> None:
        self.runs: list[np.ndarray] = []

    def seen(self, hashes: np.ndarray) -> np.ndarray:
        """Whether each hash was added before, bool [n]; adds nothing."""
        seen = np.zeros(len(hashes), bool)
        for run in self.runs:
            positions = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            seen |= run[positions] == hashes
        return seen

    def add(self, hashes: np.ndarray) -> None:
        run = np.sort(hashes)
        while self.runs and len(self.runs[-1]) <= len(run):
            run = np.sort(np.concatenate([self.runs.pop(), run]))
        if len(run):
            self.runs.append(run)
