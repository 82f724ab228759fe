"""Vectors as whole numbers: 8-bit codes for documents and 16-bit numbers for queries.

A vector is divided into the spaces that its model declares. In each space it is whole numbers times one scale. No sum
of products overflows in 32 bits: :meth:`Spaces.quantize_queries` keeps the sum of a space's absolute numbers below
2**24, and a code is at most 128 in size, so every partial sum is below 2**31.

Letters in shapes: E numbers of a vector, P codes of a vector, S spaces, Q queries, n vectors given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LARGEST_CODE = 127
LARGEST_NUMBER = 32_767  # of a query
LARGEST_SUM = 2**24 - 1  # of the absolute numbers of a query in one space
LEFT_OUT = -1  # as the row of a document that no search finds
STEP = 32  # codes that are multiplied at once: a space takes a multiple of them
LINE = 64  # bytes of a cache line: numbers that begin with one are read once


class Codes(NamedTuple):
    """Vectors as 8-bit numbers: ``codes`` int8 [n, P] times ``scales`` float32 [n, S] in each space."""

    codes: np.ndarray
    scales: np.ndarray

    def take(self, places) -> Codes:
        """Some of the vectors, by a slice or their places int [n]."""
        return Codes(self.codes[places], self.scales[places])


class QuantizedQueries(NamedTuple):
    """Queries as 16-bit numbers: ``numbers`` int16 [Q, P] times ``scales`` float64 [Q, S] in each space; ``starts`` as
    those of `Spaces`. Of the first spaces alone S and ``starts`` are theirs, and the other numbers are 0.
    """

    numbers: np.ndarray
    scales: np.ndarray
    starts: np.ndarray

    def take(self, places) -> QuantizedQueries:
        """Some of the queries, by their places, int [n]."""
        return QuantizedQueries(self.numbers[places], self.scales[places], self.starts)


class Spaces:
    """How vectors are divided into spaces, and where their numbers are among the codes.

    Args:
        widths: numbers of each space, at least 1.

    Attributes:
        starts: where spaces start among the codes, and where the last one ends, int64 [S + 1].
        columns: the place of each number of a vector among the codes, int64 [E]; the other places hold 0.
        size: E. padded: P.
    """

    def __init__(self, widths: Sequence[int]):
        self.widths = tuple(map(int, widths))
        padded = [-(-width // STEP) * STEP for width in self.widths]
        self.starts = np.concatenate([[0], np.cumsum(padded)]).astype(np.int64)
        self.columns = np.concatenate([start + np.arange(width) for start, width in zip(self.starts, self.widths)])
        self.size, self.padded = len(self.columns), int(self.starts[-1])

    def parts(self, vectors: np.ndarray) -> list[np.ndarray]:
        """The numbers of vectors [n, E] in each space, views [n, width]."""
        return np.split(vectors, np.cumsum(self.widths)[:-1], axis=1)

    def quantize(self, vectors: np.ndarray) -> Codes:
        """Vectors float32 [n, E] of finite numbers as codes; the largest of each space becomes 127 or -127."""
        codes = np.zeros((len(vectors), self.padded), np.int8)
        scales = np.empty((len(vectors), len(self.widths)), np.float32)
        for space, (start, part) in enumerate(zip(self.starts, self.parts(vectors))):
            scales[:, space] = np.abs(part).max(axis=1) / np.float32(LARGEST_CODE)
            numbers = part / np.where(scales[:, space] > 0, scales[:, space], np.float32(np.inf))[:, None]
            np.clip(np.rint(numbers), -LARGEST_CODE, LARGEST_CODE, numbers)  # the division rounds
            codes[:, start : start + part.shape[1]] = numbers
        return Codes(codes, scales)

    def empty(self, count: int) -> Codes:
        """Codes of ``count`` vectors, to be filled."""
        return Codes(np.zeros((count, self.padded), np.int8), np.zeros((count, len(self.widths)), np.float32))

    def decode(self, quantized: Codes) -> np.ndarray:
        """The vectors that codes stand for, float32 [n, E]."""
        return quantized.codes[:, self.columns] * np.repeat(quantized.scales, self.widths, axis=1)

    def quantize_queries(self, vectors: np.ndarray) -> QuantizedQueries:
        """Queries float32 [Q, E] of finite numbers, or their numbers in the first spaces, with about 15 bits each."""
        spaces = int(np.searchsorted(np.cumsum(self.widths), vectors.shape[1])) + 1
        numbers = aligned_zeros((len(vectors), self.padded), np.int16)
        scales = np.empty((len(vectors), spaces), np.float64)
        for space, (start, part) in enumerate(zip(self.starts, self.parts(vectors)[:spaces])):
            sizes, width = np.abs(part.astype(np.float64)), part.shape[1]
            most = LARGEST_SUM - width  # rounding adds a half to each number at most
            scale = np.maximum(sizes.max(axis=1) / LARGEST_NUMBER, sizes.sum(axis=1) / most)
            scales[:, space] = scale
            numbers[:, start : start + width] = np.rint(part / np.where(scale > 0, scale, np.inf)[:, None])
        return QuantizedQueries(numbers, scales, self.starts[: spaces + 1])


def aligned_zeros(shape: tuple[int, int], dtype) -> np.ndarray:
    """Zeros that begin with a cache line."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    return memory[start : start + size].view(dtype).reshape(shape)
