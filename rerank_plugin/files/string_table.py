"""Strings by row number and row numbers by string, memory-mapped instead of in a Python dictionary.

A table is four arrays: the UTF-8 bytes of all strings, their offsets, the sorted 64-bit hashes and the rows of the
hashes. A look-up is a binary search of the hash and a comparison of the string, so collisions are harmless.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from rerank_plugin.files.arrays import ArrayWriter, OffsetsWriter, open_array, ranges, save_array, slices


def hash_strings(strings: Iterable[str]) -> np.ndarray:
    """64-bit hashes, uint64 [n]; the same on every machine and in every process."""
    digests = b"".join([blake2b(string.encode(), digest_size=8).digest() for string in strings])
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


class StringTable:
    """A read-only table, opened by folder and name."""

    def __init__(self, folder: Path, name: str):
        self.bytes = open_array(folder / f"{name}.bytes.npy")
        self.offsets = open_array(folder / f"{name}.offsets.npy")
        hashes = folder / f"{name}.hashes.npy"
        self.hashes = open_array(hashes) if hashes.exists() else None
        self.rows_by_hash = open_array(folder / f"{name}.rows.npy") if hashes.exists() else None

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
        starts, lengths = slices(self.offsets, rows)
        padded = np.zeros((len(rows), int(lengths.max(initial=1))), np.uint8)
        padded[np.arange(padded.shape[1]) < lengths[:, None]] = self.bytes[ranges(starts, lengths)]
        order = np.argsort(padded.view(f"S{padded.shape[1]}").ravel(), kind="stable")
        ranks = np.empty(len(rows), np.int64)
        ranks[order] = np.arange(len(rows))
        return ranks

    def find(self, strings: Sequence[str]) -> np.ndarray:
        """Rows of the strings, int64 [n]; -1 for a string that is not in the table."""
        if self.hashes is None or self.rows_by_hash is None:
            raise TypeError("this table was written without hashes")
        hashes = hash_strings(strings)
        positions = np.searchsorted(self.hashes, hashes)
        found, pending = np.full(len(hashes), -1, np.int64), np.arange(len(hashes))
        while len(pending := pending[positions[pending] < len(self.hashes)]):
            pending = pending[self.hashes[positions[pending]] == hashes[pending]]
            rows = self.rows_by_hash[positions[pending]].astype(np.int64)
            same = np.array([stored == strings[i] for stored, i in zip(self.take(rows), pending.tolist())], bool)
            found[pending[same]] = rows[same]
            pending = pending[~same]  # a collision: try the next row of the same hash
            positions[pending] += 1
        return found


class StringsInMemory:
    """A growing table in memory, with a dictionary for look-ups."""

    hashes = None

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

    def extend(self, strings: Sequence[str], hashes: np.ndarray | None = None) -> None:
        """Append strings, whose ``hashes`` are computed if not given."""
        encoded = [string.encode() for string in strings]
        self.text.append(np.frombuffer(b"".join(encoded), np.uint8))
        self.offsets.extend(list(map(len, encoded)))
        if self.hashes is not None:
            self.hashes.append(hash_strings(strings) if hashes is None else hashes)

    def close(self) -> None:
        self.text.close()
        self.offsets.close()
        if self.hashes is not None:
            hashes = np.concatenate(self.hashes) if self.hashes else np.zeros(0, np.uint64)
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
