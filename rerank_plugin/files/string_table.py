"""Strings by row number and row numbers by string, memory-mapped instead of in a Python dictionary.

A table is the UTF-8 bytes of all strings, their offsets, and one or several *pieces*: the sorted 64-bit hashes of some
strings and their rows. A look-up is a binary search of the hash and a comparison of the string, so collisions are
harmless. Strings appended to a table get a piece of their own, which is merged with earlier pieces that are not at
least twice as large: there are at most log2(n) + 1 pieces, and each string is merged about as often.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
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
    slices,
)
from rerank_plugin.files.checksums import passed

PIECE = "hashes", "rows"  # the files of a piece
RANGES = 256  # of hashes, merged one after the other
WHOLE: Mapping[str, int] = MappingProxyType({})  # sizes of files that are not appended to


def hash_strings(strings: Iterable[str]) -> np.ndarray:
    """64-bit hashes, uint64 [n]; the same on every machine and in every process."""
    digests = b"".join([blake2b(string.encode(), digest_size=8).digest() for string in strings])
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


class StringTable:
    """A read-only table, opened by folder and name.

    Args:
        pieces: what the names of the files of each piece end in, newest first; the table cannot be searched without.
        sizes: the size in bytes of each file that may have been appended to since, by its name.
        rows: the number of strings, if it is known.

    Raises:
        ValueError: a file holds no such array, or they do not fit together.

    Attributes:
        pieces: hashes uint64 [n] and rows uint32 [n] of each piece, newest first, by the end of its name.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        pieces: Sequence[str] = ("",),
        sizes: Mapping[str, int] = WHOLE,
        rows: int | None = None,
    ) -> None:
        self.folder, self.name = folder, name
        opened = []

        def array(name: str, dtype: Any, length: int | None = None) -> np.ndarray:
            opened.append(folder / name)
            return open_array(opened[-1], sizes.get(name), dtype, (length,))

        self.bytes = array(f"{name}.bytes.npy", np.uint8)
        self.offsets = array(f"{name}.offsets.npy", np.uint64, None if rows is None else rows + 1)
        self.pieces: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for piece in pieces:
            hashes_file, rows_file = (f"{name}.{part}{piece}.npy" for part in PIECE)
            if (folder / hashes_file).exists():
                hashes = array(hashes_file, np.uint64)
                self.pieces[piece] = hashes, array(rows_file, np.uint32, len(hashes))
        if not passed(opened, self._is_sound, sizes.get(f"{name}.bytes.npy"), sizes.get(f"{name}.offsets.npy")):
            raise ValueError(f"the arrays of {name} in {folder} do not fit together")

    def _is_sound(self) -> bool:
        return are_offsets(self.offsets, len(self.bytes)) and all(
            are_sorted(hashes) and are_below(rows, len(self)) for hashes, rows in self.pieces.values()
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
        padded = self.beginnings(rows)
        order = np.argsort(padded.view(f"S{padded.shape[1]}").ravel(), kind="stable")
        ranks = np.empty(len(rows), np.int64)
        ranks[order] = np.arange(len(rows))
        return ranks

    def beginnings(self, rows: np.ndarray, longest: int | None = None) -> np.ndarray:
        """The first bytes of strings, by default all, with zeros after them, uint8 [C, B]."""
        starts, lengths = slices(self.offsets, rows)
        lengths = lengths if longest is None else np.minimum(lengths, longest)
        padded = np.zeros((len(rows), int(lengths.max(initial=1))), np.uint8)
        padded[np.arange(padded.shape[1]) < lengths[:, None]] = self.bytes[ranges(starts, lengths)]
        return padded

    def find(self, strings: Sequence[str]) -> np.ndarray:
        """Rows of the strings, int64 [n]; the last row of a string that repeats, -1 for one not in the table."""
        if not self.pieces:
            raise TypeError("this table was written without hashes")
        hashes = hash_strings(strings)
        found = np.full(len(hashes), -1, np.int64)
        for sorted_hashes, rows_by_hash in self.pieces.values():
            pending = np.flatnonzero(found < 0)
            positions = np.zeros(len(hashes), np.int64)
            positions[pending] = np.searchsorted(sorted_hashes, hashes[pending])
            while len(pending := pending[positions[pending] < len(sorted_hashes)]):
                pending = pending[sorted_hashes[positions[pending]] == hashes[pending]]
                rows = rows_by_hash[positions[pending]].astype(np.int64)
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
    """Appends strings; ``close`` also writes the arrays for look-ups by string, if requested.

    Args:
        piece: what the names of the files for look-ups end in.
        table: an existing table to append to, in the same folder, and the ``sizes`` of its files.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        searchable: bool,
        piece: str = "",
        table: StringTable | None = None,
        sizes: Mapping[str, int] = WHOLE,
    ):
        self.folder, self.name, self.piece = folder, name, piece
        files = f"{name}.bytes.npy", f"{name}.offsets.npy"
        self.text = ArrayWriter(folder / files[0], np.uint8, size=sizes.get(files[0]))
        self.offsets = OffsetsWriter(folder / files[1], sizes.get(files[1]))
        self.first = len(self)  # row of the first string that is appended
        self.older = {} if table is None else table.pieces
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
        start, (hashes, rows) = len(self), table.pieces[""]
        self.text.append(table.bytes)
        self.offsets.append(table.offsets[1:] + np.uint64(self.offsets.end))
        self.offsets.end += int(table.offsets[-1])
        if self.hashes is not None:
            by_row = np.empty(len(rows), np.uint64)
            by_row[rows] = hashes
            self.hashes.append(by_row)
        assert len(self) == start + len(table)

    def close(self) -> list[str]:
        """Write what is left; returns the pieces of the table, newest first, with the one written here."""
        self.text.close()
        self.offsets.close()
        if self.hashes is None:
            return []
        kept = list(self.older)
        if kept and len(self) == self.first:
            return kept
        hashes = np.concatenate(self.hashes) if self.hashes else np.zeros(0, np.uint64)
        order = np.argsort(hashes, kind="stable")
        merged, length = [(hashes[order], order + self.first)], len(hashes)
        while kept and len(self.older[kept[0]][0]) < 2 * length:
            merged.append(self.older[kept.pop(0)])
            length += len(merged[-1][0])
        self._merge(merged)
        return [self.piece, *kept]

    def _merge(self, pieces: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
        """Write sorted pieces, newest first, as one, a range of hashes by range; rows of equal hashes newest first."""
        hashes, rows = (
            ArrayWriter(self.folder / f"{self.name}.{part}{self.piece}.npy", dtype)
            for part, dtype in zip(PIECE, (np.uint64, np.uint32))
        )
        borders = np.arange(1, RANGES, dtype=np.uint64) * np.uint64(2**64 // RANGES)
        cuts = [[0, *np.searchsorted(piece, borders).tolist(), len(piece)] for piece, _ in pieces]
        for number in range(RANGES):
            parts = [slice(*cut[number : number + 2]) for cut in cuts]
            together = np.concatenate([piece[part] for (piece, _), part in zip(pieces, parts)])
            order = np.argsort(together, kind="stable")
            hashes.append(together[order])
            rows.append(np.concatenate([of[part] for (_, of), part in zip(pieces, parts)])[order])
        hashes.close()
        rows.close()


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
