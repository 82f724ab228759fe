"""Numbers the pieces of texts, separated by white space: a compiled hash table (numba).

A piece of ASCII letters and digits with only brackets and marks around them has the tokens of its letters and digits in
lower case (``(Aspirin),`` those of ``aspirin``): such pieces share a number. Any other piece has its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from rerank_plugin.files.arrays import GrowingArray, ranges
from rerank_plugin.kernels.compiling import njit
from rerank_plugin.kernels.parallel import Workspace, split

OPENING, CLOSING = b'(["', b')]".,;:?!'  # marks that do not change the tokens of letters and digits between them


def _members(characters: bytes) -> np.ndarray:
    """Whether each byte is one of ``characters``, bool [256]."""
    members = np.zeros(256, bool)
    members[list(characters)] = True
    return members


_OPENING, _CLOSING = _members(OPENING), _members(CLOSING)
_BLANK = _members(bytes(byte for byte in range(128) if chr(byte).isspace()))
_LOWER = np.array([ord(chr(b).lower()) if b < 128 and chr(b).isalnum() else 0 for b in range(256)], np.uint8)
_PRIME, _BASIS = np.uint64(0x100000001B3), np.uint64(0xCBF29CE484222325)  # of the hash FNV-1a
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class _Table(NamedTuple):
    """Keys by hash: ``slots`` int32 [a power of 2], 0 or 1 + number; hashes uint64, starts int64, bytes uint8."""

    slots: np.ndarray
    shift: np.uint64
    hashes: np.ndarray
    starts: np.ndarray
    bytes: np.ndarray


class KnownPieces:
    """Numbers the distinct pieces of texts, from 0 on, in order of appearance."""

    def __init__(self) -> None:
        self.hashes, self.bytes = GrowingArray(np.uint64), GrowingArray(np.uint8)
        self.starts = GrowingArray(np.int64)  # offsets of the keys in ``bytes``, one more than keys
        self.starts.append([0])
        self.slots = np.zeros(1 << 12, np.int32)
        self.workspace = Workspace()

    def __len__(self) -> int:
        return len(self.hashes.values)

    def read(self, texts: Sequence[str], threads: int) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """The numbers of all pieces, int32 [P]; the number of pieces of each text, int64 [texts]; and new pieces.

        New pieces are returned as strings with the same tokens, in the order of their numbers, which follow the known
        ones. A lone surrogate is read as a question mark, as in an index.
        """
        encoded = [text.encode(errors="replace") for text in texts]
        ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)))
        joined = b"".join(encoded)
        text = np.frombuffer(joined, np.uint8)
        starts = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
        outputs = starts // 2 + np.arange(len(starts))  # a text of n bytes has at most (n + 1) / 2 pieces
        size = len(text) // 2 + len(starts)
        numbers = self.workspace.array("numbers", (size,), np.int32)
        spans = self.workspace.array("spans", (size, 2), np.int64)
        counts, table = np.zeros((len(starts), 2), np.int64), self._table()
        split(partial(_look_up, text, starts, ends, outputs, table, numbers, spans, counts), len(starts), threads)
        numbers, spans = numbers[ranges(outputs, counts[:, 0])], spans[ranges(outputs, counts[:, 1])]
        numbers[numbers < 0], keys = self._add(text, spans)
        return numbers, counts[:, 0], [joined[start:end].decode() for start, end in keys.tolist()]

    def _table(self) -> _Table:
        shift = np.uint64(64 - (len(self.slots).bit_length() - 1))
        return _Table(self.slots, shift, self.hashes.values, self.starts.values, self.bytes.values)

    def _add(self, text: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Number the pieces at ``spans``, int64 [n, 2]: their numbers, int32 [n], and the spans of new keys."""
        known = len(self)
        if 2 * (known + len(spans)) > len(self.slots):
            self.slots = np.zeros(1 << (4 * (known + len(spans))).bit_length(), np.int32)
            _fill(self._table())
        self.hashes.reserve(len(spans))
        self.starts.reserve(len(spans))
        self.bytes.reserve(int((spans[:, 1] - spans[:, 0]).sum()))
        shift = self._table().shift
        table = _Table(self.slots, shift, self.hashes.buffer, self.starts.buffer, self.bytes.buffer)
        numbers, keys = np.empty(len(spans), np.int32), np.empty((len(spans), 2), np.int64)
        new = _insert(text, spans, table, known, numbers, keys)
        self.hashes.length, self.starts.length = known + new, known + new + 1
        self.bytes.length = int(self.starts.values[-1])
        return numbers, keys[:new]


@njit(nogil=True, inline="always")
def _blank(text, position, end):
    """The number of bytes of the white space at a position, as in `str.split`; 0 without white space."""
    byte = text[position]
    return np.int64(_BLANK[byte]) if byte < 128 else _wide_blank(text, position, end)


@njit(nogil=True, cache=True)
def _wide_blank(text, position, end):
    """`_blank` of several bytes, which is rare: a separate function, as compiling it into its callers takes seconds."""
    byte = text[position]
    if byte == 0xC2 and position + 1 < end:
        return 2 if text[position + 1] == 0x85 or text[position + 1] == 0xA0 else 0
    if 0xE1 <= byte <= 0xE3 and position + 2 < end:
        second, third = text[position + 1], text[position + 2]
        if byte == 0xE1:
            return 3 if second == 0x9A and third == 0x80 else 0
        if byte == 0xE3:
            return 3 if second == 0x80 and third == 0x80 else 0
        if second == 0x81:
            return 3 if third == 0x9F else 0
        if second == 0x80:
            return 3 if third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF else 0
    return 0


@njit(nogil=True, inline="always")
def _next(text, start, end):
    """The piece that begins at ``start``: (its end, start and end of its key, whether the key is plain, its hash).

    A plain key consists of the letters and digits of a piece with only marks around them.
    """
    first, digest = start, _BASIS
    while first < end and _OPENING[text[first]]:
        first += 1
    last = first
    while last < end and _LOWER[text[last]]:
        digest = (digest ^ np.uint64(_LOWER[text[last]])) * _PRIME
        last += 1
    position = last
    while position < end and _CLOSING[text[position]]:
        position += 1
    if last > first and (position == end or _blank(text, position, end)):
        return position, first, last, True, digest
    while position < end and not _blank(text, position, end):
        position += 1
    digest = _BASIS
    for byte in range(start, position):
        digest = (digest ^ np.uint64(text[byte])) * _PRIME
    return position, start, position, False, digest


@njit(nogil=True, inline="always")
def _find(text, first, last, plain, digest, table):
    """The number of a key with the hash ``digest`` (-1 for an unknown key), and its slot."""
    slot = (digest * _SPREAD) >> table.shift
    while table.slots[slot]:
        number = table.slots[slot] - 1
        if table.hashes[number] == digest:
            begin = table.starts[number]
            same = table.starts[number + 1] - begin == last - first
            for position in range(first, last):
                byte = _LOWER[text[position]] if plain else text[position]
                same = same and table.bytes[begin + position - first] == byte
            if same:
                return number, slot
        slot = (slot + np.uint64(1)) & np.uint64(len(table.slots) - 1)
    return -1, slot


@njit(nogil=True, cache=True)
def _look_up(text, starts, ends, outputs, table, numbers, spans, counts, first_text, last_text):
    """Numbers of the pieces of texts first_text..last_text, -1 for unknown pieces, and the spans of unknown pieces.

    Args:
        text: uint8, all texts. starts, ends: of each text in it, int64.
        outputs: the first output position of each text, int64.
        counts: int64 [texts, 2], filled with the numbers of pieces and of unknown pieces of each text.
    """
    for number in range(first_text, last_text):
        position, end, out, unknown = starts[number], ends[number], outputs[number], outputs[number]
        while position < end:
            width = _blank(text, position, end)
            if width:
                position += width
                continue
            start = position
            position, first, last, plain, digest = _next(text, start, end)
            numbers[out] = _find(text, first, last, plain, digest, table)[0]
            if numbers[out] < 0:
                spans[unknown, 0], spans[unknown, 1] = start, position
                unknown += 1
            out += 1
        counts[number, 0], counts[number, 1] = out - outputs[number], unknown - outputs[number]


@njit(nogil=True, cache=True)
def _insert(text, spans, table, known, numbers, keys):
    """Look pieces up and add new ones; fills their ``numbers``, and ``keys`` for the new ones.

    Args:
        numbers: int32 [n]. keys: int64 [n, 2], start and end.
    """
    new = 0
    for piece in range(len(spans)):
        _, first, last, plain, digest = _next(text, spans[piece, 0], spans[piece, 1])
        number, slot = _find(text, first, last, plain, digest, table)
        if number < 0:
            number = known + new
            begin = table.starts[number]
            for position in range(first, last):
                table.bytes[begin + position - first] = _LOWER[text[position]] if plain else text[position]
            table.hashes[number], table.starts[number + 1] = digest, begin + last - first
            table.slots[slot] = number + 1
            keys[new, 0], keys[new, 1] = first, last
            new += 1
        numbers[piece] = number
    return new


@njit(nogil=True, cache=True)
def _fill(table):
    """Put all keys into empty slots."""
    for number in range(len(table.hashes)):
        slot = (table.hashes[number] * _SPREAD) >> table.shift
        while table.slots[slot]:
            slot = (slot + np.uint64(1)) & np.uint64(len(table.slots) - 1)
        table.slots[slot] = number + 1
