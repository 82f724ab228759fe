"""Encodings of documents as sums of word vectors: KTRel without a transformer layer, without padding or framework.

A document's vector is the sum of its words' vectors, brought to a given length in each space. Word vectors may be 8-bit
numbers with a scale each, as those of an adapted encoder are: they take a quarter of the memory, and reading them is
what takes the time. In shapes: V vocabulary, E numbers of a vector, S spaces, T tokens, R documents, n of them.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from rerank_plugin.kernels.compiling import njit
from rerank_plugin.kernels.intrinsics import AHEAD, prefetch_row
from rerank_plugin.kernels.parallel import split

BATCH = 16_384  # words that are compared at once
ROUNDING = 2.0**-22  # of a number and its scale, as a share of the largest number
LARGEST = 127  # of 8-bit numbers
SMALLEST_NORM = 1e-12  # torch.nn.functional.normalize's
TOGETHER = 4  # words that are added at once: the sums are read and written once for all


class VectorSums:
    """Encodes the documents of a forward index as :meth:`rerank_plugin.models.ktrel.model.Ktrel.encode_documents` does.

    Args:
        vectors: of the words, float32 [V, E]; row 0 is that of unknown words.
        ids: the word of each term of the index, int32 [terms].
        lengths: of an encoding in each of the equal spaces, float [S].
        most: words of a document that are read.
    """

    def __init__(self, vectors: np.ndarray, ids: np.ndarray, lengths, most: int):
        self.numbers, self.scales = as_bytes(vectors) or (
            np.ascontiguousarray(vectors, np.float32), np.ones(len(vectors), np.float32)
        )  # fmt: skip
        self.ids, self.lengths, self.most = ids, np.asarray(lengths, np.float64), most

    def encode(self, tokens: np.ndarray, starts: np.ndarray, lengths: np.ndarray, threads: int = 1) -> np.ndarray:
        """The encodings of documents, float32 [n, E]; 0 for one without words.

        Args:
            tokens: terms, uint32 [T]. starts, lengths: of each document's terms among them, int64 [n].
        """
        encodings = np.zeros((len(starts), self.numbers.shape[1]), np.float32)
        work = partial(
            _encode, self.numbers, self.scales, self.ids, self.lengths, self.most, tokens, starts, lengths, encodings
        )
        split(work, len(starts), threads)
        return encodings


def as_bytes(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Vectors float32 [V, E] as 8-bit numbers int8 [V, E] and scales float32 [V]; None if they are not such numbers.

    Those of :func:`rerank_plugin.text.word_vectors.compact` are.
    """
    numbers, scales = np.empty(vectors.shape, np.int8), np.empty(len(vectors), np.float32)
    for start in range(0, len(vectors), BATCH):
        batch = vectors[start : start + BATCH]
        largest = np.abs(batch).max(axis=1, initial=0)
        scale = np.where(largest > 0, largest / np.float32(LARGEST), 1).astype(np.float32)
        whole = np.rint(batch / scale[:, None])
        if not np.all(np.abs(whole * scale[:, None] - batch) <= ROUNDING * largest[:, None]):
            return None
        numbers[start : start + BATCH], scales[start : start + BATCH] = whole, scale
    return numbers, scales


@njit(nogil=True, cache=True)
def _encode(numbers, scales, ids, norms, most, tokens, starts, lengths, encodings, start, stop):
    """Fill ``encodings[start:stop]``, which are 0."""
    size, spaces = numbers.shape[1], len(norms)
    width = size // spaces
    words = np.empty(most + TOGETHER + AHEAD, np.int64)
    for place in range(start, stop):
        first, count = starts[place], min(lengths[place], most)
        for i in range(count):
            words[i] = ids[tokens[first + i]]
        sums = encodings[place]
        for i in range(0, count - TOGETHER + 1, TOGETHER):
            for ahead in range(i + TOGETHER, min(i + 2 * TOGETHER, count)):
                prefetch_row(numbers, words[ahead])
            _add_four(numbers, words[i], words[i + 1], words[i + 2], words[i + 3], scales, sums)
        for i in range(count - count % TOGETHER, count):
            scale = scales[words[i]]
            for j in range(size):
                sums[j] += scale * np.float32(numbers[words[i], j])
        for space in range(spaces):
            norm = 0.0
            for j in range(space * width, (space + 1) * width):
                norm += np.float64(sums[j]) * np.float64(sums[j])
            factor = norms[space] / max(np.sqrt(norm), SMALLEST_NORM)
            for j in range(space * width, (space + 1) * width):
                sums[j] = np.float32(factor * sums[j])


@njit(nogil=True, inline="always")
def _add_four(numbers, a, b, c, d, scales, sums):
    """Add the vectors of four words to float32 [E]."""
    one, two, three, four = numbers[a], numbers[b], numbers[c], numbers[d]
    first, second, third, fourth = scales[a], scales[b], scales[c], scales[d]
    for j in range(len(sums)):
        left = first * np.float32(one[j]) + second * np.float32(two[j])
        right = third * np.float32(three[j]) + fourth * np.float32(four[j])
        sums[j] += left + right
