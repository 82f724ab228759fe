"""The fast path of Conv-KNRM: the scores of :class:`~rerank_plugin.models.baselines.conv_knrm.ConvKnrm`.

* A convolution is linear in the word vectors before its ReLU. The contributions of a word to an n-gram at each position
  in it (a tap) are a table over the words of the index, computed once per checkpoint, and an n-gram is a sum of n rows.
  If the table would take too much memory, the rows of the candidates' distinct words are computed for each query.
* A document's single words are compared with the query's n-grams, and passed through the kernels, once per distinct
  word of the candidates; the soft-TF of a document's words is a sum of rows.
* The ten wide kernels lie 0.2 apart around 0, and ``exp(-50 (x - mu)^2) = exp(-50 x^2) exp(100 mu x) exp(-50 mu^2)``.
  The first factor is common to all kernels, the second factors are powers of ``exp(10 x)``, and the third does not
  depend on x and multiplies the finished sum: two exponentials per cosine, and one multiplication per kernel. The
  narrow kernel is computed only if a cosine is near 1.

In shapes Q are the query's n-grams of all sizes and F the filters, both padded to a multiple of LANES, T the taps of
all sizes and K the kernels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch

from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import IndexQuery
from rerank_plugin.inputs.builder import InputBuilder, ModelQuery
from rerank_plugin.inputs.interactions import candidate_words
from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.compiling import njit
from rerank_plugin.kernels.dense_layers import (
    LINEAR,
    ROWS,
    dense,
    pack_panels,
    pad_vector,
    round_up,
    tap_columns,
)
from rerank_plugin.kernels.exponential import exponential
from rerank_plugin.kernels.intrinsics import AHEAD, LANES, prefetch_row
from rerank_plugin.kernels.parallel import split
from rerank_plugin.models.baselines.conv_knrm import ConvKnrmConfig
from rerank_plugin.models.baselines.kernel_pooling import DEVIATIONS, KERNELS, LOG_SCALE, MEANS, SMALLEST_COUNT
from rerank_plugin.models.fast_paths import FastPath

BLOCK = 8 * ROWS  # n-grams whose vectors fit into the fastest cache
POSITIONS = 8  # cosines of a document are padded to a multiple of this
PADDED_COSINE = np.float32(-3.0)  # all kernels of this cosine are exactly 0 in float32
NEAR_ONE = np.float32(0.98)  # below this cosine the narrow kernel is 0 in float32
TINY = np.float32(1e-12)  # the smallest norm, as in the module
WIDE = np.float32(-50.0)  # -0.5 / 0.1^2
NARROW = np.float32(-0.5e6)  # -0.5 / 0.001^2
STEP = np.float32(10.0)  # neighbouring means are 0.2 apart: exp(100 * 0.2 x) is the square of exp(10 x)
CONSTANTS = np.exp(-50 * np.square(MEANS)).astype(np.float32)  # the third factors of the wide kernels
ONE, ZERO = np.float32(1.0), np.float32(0.0)
KERNEL_LANES = 16  # kernels with padding: two vectors of 8
FACTORS = 16  # counts that are multiplied before a logarithm is taken: at least 1e-160, well within float64
_MEANS = np.array([*MEANS, *[0.0] * (KERNEL_LANES - KERNELS)], np.float32)
_SHARPNESS = np.array([-0.5 / deviation**2 for deviation in DEVIATIONS] + [0.0] * (KERNEL_LANES - KERNELS), np.float32)
_SMALLEST_COUNT = np.float32(SMALLEST_COUNT)


class QueryNgrams(NamedTuple):
    """The n-grams of one query, by size."""

    panels: np.ndarray  # float32 [Q / LANES, F, LANES]: columns of length 1, or 0 if all words are unknown
    sizes: np.ndarray  # words per n-gram, int32 [n-grams]
    starts: np.ndarray  # position of each n-gram in the query, int32 [n-grams]
    terms: np.ndarray  # term ids of the query's words, int32 [m], -1 for a word that no document holds


class Scratch(NamedTuple):
    """Memory of one thread."""

    block: np.ndarray  # vectors of n-grams, float32 [BLOCK, F]
    scales: np.ndarray  # 1 / length of these vectors, float32 [BLOCK]
    products: np.ndarray  # float32 [BLOCK, Q]
    zeros: np.ndarray  # float32 [Q]
    rows: np.ndarray  # rows of a document's words in the table of taps, int32 [N]
    cosines: np.ndarray  # float32 [Q, N with padding]
    counts: np.ndarray  # float32 [document sizes, width of the table of kernels]


class FastConvKnrm(FastPath[ConvKnrmConfig]):
    """Scores candidates like :class:`~rerank_plugin.models.baselines.conv_knrm.ConvKnrm`."""

    of_index = True
    table_bytes = 2**30  # the largest table of taps

    def __init__(self, config: ConvKnrmConfig, arrays: Mapping[str, np.ndarray], builder: InputBuilder, threads: int):
        super().__init__(config, arrays, builder, threads)
        self.longest, self.vectors = config.longest_ngram, arrays["vectors"]  # [V, D]
        sizes = range(self.longest)
        self.biases = np.stack([pad_vector(arrays[f"convolutions.{at}.bias"]) for at in sizes])  # [sizes, F]
        taps = [tap_columns(arrays[f"convolutions.{at}.weight"]) for at in sizes]
        weights = np.concatenate(taps, axis=1)  # [D, T * F]
        self.tap_panels = pack_panels(weights)  # [T * F / LANES, D, LANES]
        self.taps_of_word = weights.shape[1] // self.biases.shape[1]  # T
        self.table, self.rows = self._table(weights)
        layer = arrays["layer.weight"][0].astype(np.float64) * LOG_SCALE
        self.layer = layer.reshape(self.longest, self.longest, KERNELS)  # query size, document size, kernel
        self.bias = arrays["layer.bias"].item()

    def _table(self, weights: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
        """The table of taps, float32 [words * T, F], of the model's words in the index.

        Returns the table, or None if it would be too large, and the first row of each word's taps, int32 [V].
        """
        present = np.unique(self.builder.model_ids)
        rows = np.zeros(len(self.vectors), np.int32)
        if len(present) * weights.shape[1] * 4 > self.table_bytes:
            return None, rows
        rows[present] = np.arange(len(present)) * self.taps_of_word
        table = np.empty((len(present), weights.shape[1]), np.float32)  # numpy allocates large pages of memory
        torch.mm(torch.from_numpy(self.vectors[present]), torch.from_numpy(weights), out=torch.from_numpy(table))
        return table.reshape(-1, self.biases.shape[1]), rows

    def _make_taps(self, name: str, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The table of taps of words ``ids`` [n], float32 [n * T, F], and the first row of each word, int32 [n]."""
        columns = len(self.tap_panels) * LANES
        taps = self.workspace.array(name, (len(ids), columns), np.float32)

        def word_taps(start: int, stop: int) -> None:
            block = self.workspace.array("word vectors", (BLOCK, self.vectors.shape[1]), np.float32)
            block_taps = self.workspace.array("block taps", (BLOCK, columns), np.float32)
            _word_taps(self.vectors, ids, self.tap_panels, block, block_taps, taps, start, stop)

        split(word_taps, len(ids), self.threads)
        rows = np.arange(0, len(ids) * self.taps_of_word, self.taps_of_word, dtype=np.int32)
        return taps.reshape(-1, self.biases.shape[1]), rows

    def _query_ngrams(self, query: ModelQuery) -> QueryNgrams:
        ids = query.ids[query.mask].astype(np.int32)  # [m]
        ngrams = [(size, start) for size in range(1, self.longest + 1) for start in range(len(ids) - size + 1)]
        sizes, starts = np.array(ngrams, np.int32).reshape(-1, 2).T.copy()
        unknown = np.array([not ids[start : start + size].any() for size, start in ngrams], bool)
        taps, rows = self._make_taps("query taps", ids)
        panels = np.zeros((round_up(len(ngrams)) // LANES, self.biases.shape[1], LANES), np.float32)
        _fill_query(taps, rows, self.biases, sizes, starts, unknown, panels)
        return QueryNgrams(panels, sizes, starts, query.terms[query.mask].astype(np.int32))

    def _scratch(self, columns: int, width: int) -> Scratch:
        words, filters, array = self.builder.document_words, self.biases.shape[1], self.workspace.array
        return Scratch(
            array("block", (BLOCK, filters), np.float32),
            array("scales", (BLOCK,), np.float32),
            array("products", (BLOCK, columns), np.float32),
            self.workspace.zeros("zeros", columns, np.float32),
            array("rows", (words,), np.int32),
            array("cosines", (columns, -(-words // POSITIONS) * POSITIONS), np.float32),
            array("counts", (self.longest, width), np.float32),
        )

    def score(self, terms: IndexQuery, query: ModelQuery, candidates: Candidates) -> np.ndarray:
        ngrams = self._query_ngrams(query)
        words = candidate_words(self.builder, candidates, self.workspace)
        if self.table is None:
            taps, rows = self._make_taps("taps", words.ids)
        else:
            taps, rows = self.table, self.rows[words.ids]
        columns, width = len(ngrams.panels) * LANES, _table_width(len(ngrams.sizes))
        table = self.workspace.array("kernels", (len(words.ids), width), np.float32)
        scores = np.empty(len(candidates), np.float32)

        def word_kernels(start: int, stop: int) -> None:
            _word_kernels(taps, rows, self.biases, words, ngrams, self._scratch(columns, width), table, start, stop)

        def documents(start: int, stop: int) -> None:
            scratch = self._scratch(columns, width)
            _score_documents(
                taps, rows, self.biases, words, ngrams, table, self.layer, self.bias, scratch, scores, start, stop
            )

        split(word_kernels, len(words.ids), self.threads)
        split(documents, len(candidates), self.threads, smallest=8)
        return scores


def _table_width(columns: int) -> int:
    """Columns of a table of kernels [U, width]: K per n-gram of the query, and the lanes written beyond the last."""
    return -(-(columns * KERNELS + KERNEL_LANES - KERNELS) // 8) * 8


@njit(nogil=True, cache=True, forceinline=True)
def _write_kernels(similarity, row, start):
    """Write the kernels of one similarity from ``row[start]`` on: KERNEL_LANES numbers, of which K are kernels."""
    for kernel in range(KERNEL_LANES):
        distance = similarity - _MEANS[kernel]
        row[start + kernel] = exponential(distance * distance * _SHARPNESS[kernel])


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def _add_rows(table, places, count, sums):
    """``sums = table[places[:count]].sum(axis=0)``, four rows at a time; table float32 [U, width]."""
    width = len(sums)
    sums[:] = 0.0
    for position in range(0, count - 3, 4):
        first, second = table[places[position]], table[places[position + 1]]
        third, fourth = table[places[position + 2]], table[places[position + 3]]
        for i in range(width):
            sums[i] += (first[i] + second[i]) + (third[i] + fourth[i])
    for position in range(count - count % 4, count):
        row = table[places[position]]
        for i in range(width):
            sums[i] += row[i]


@njit(nogil=True, cache=True)
def _weighted_logarithms(counts, first, last, weights):
    """``sum_k weights[k] sum_j ln(max(counts[j, k], 1e-10))`` over the query words j of first..last.

    counts: float32 [m * K or more], K numbers per query word. weights: float64 [K].
    """
    total = 0.0
    for kernel in range(KERNELS):
        for begin in range(first, last, FACTORS):
            product = 1.0
            for column in range(begin, min(begin + FACTORS, last)):
                count = counts[column * KERNELS + kernel]
                product *= _SMALLEST_COUNT if count < _SMALLEST_COUNT else count  # NaN stays NaN
            total += weights[kernel] * math.log(product)
    return total


@njit(nogil=True, cache=True)
def _word_taps(vectors, ids, panels, block, block_taps, taps, start, stop):
    """The taps of words start..stop: rows of ``taps``, float32 [U, T * F]; ``block`` and ``block_taps`` are scratch."""
    zeros = np.zeros(block_taps.shape[1], np.float32)
    for first in range(start, stop, BLOCK):
        count = min(BLOCK, stop - first)
        for row in range(count):
            for i in range(block.shape[1]):  # numba takes seconds to compile the assignment of a row
                block[row, i] = vectors[ids[first + row], i]
        dense(block, panels, zeros, LINEAR, block_taps, count)
        for row in range(count):
            for i in range(block_taps.shape[1]):
                taps[first + row, i] = block_taps[row, i]


@njit(nogil=True, cache=True, fastmath=REASSOCIATE, error_model="numpy")
def _ngram_vectors(taps, rows, biases, size, first, count, block, scales):
    """Vectors of the n-grams at first..first + count, float32 [count, F], and 1 / length of each, into ``scales``."""
    filters = block.shape[1]
    tap = size * (size - 1) // 2  # taps of size 1 come first, then those of size 2, ..
    for row in range(count):
        place, total = first + row, ZERO
        if place + size - 1 + AHEAD < len(rows):
            for ahead in range(tap, tap + size):
                prefetch_row(taps, rows[place + size - 1 + AHEAD] + ahead)
        if size == 2:  # the paper's sizes in one pass
            row1, row2 = rows[place] + tap, rows[place + 1] + tap + 1
            for i in range(filters):
                value = biases[1, i] + taps[row1, i] + taps[row2, i]
                value = ZERO if value < 0 else value  # NaN stays NaN
                block[row, i] = value
                total += value * value
        elif size == 3:
            row1, row2, row3 = rows[place] + tap, rows[place + 1] + tap + 1, rows[place + 2] + tap + 2
            for i in range(filters):
                value = biases[2, i] + taps[row1, i] + taps[row2, i] + taps[row3, i]
                value = ZERO if value < 0 else value
                block[row, i] = value
                total += value * value
        else:
            for i in range(filters):
                block[row, i] = biases[size - 1, i]
            for word in range(size):
                tap_row = rows[place + word] + tap + word
                for i in range(filters):
                    block[row, i] += taps[tap_row, i]
            for i in range(filters):
                value = ZERO if block[row, i] < 0 else block[row, i]
                block[row, i] = value
                total += value * value
        scales[row] = total
    for row in range(count):
        norm = np.sqrt(scales[row])
        scales[row] = ONE / (TINY if norm < TINY else norm)


@njit(nogil=True, cache=True)
def _fill_query(taps, rows, biases, sizes, starts, unknown, panels):
    """Fill the columns of :class:`QueryNgrams`; zeros for n-grams of unknown words only."""
    filters = panels.shape[1]
    block, scales = np.empty((1, filters), np.float32), np.empty(1, np.float32)
    for column in range(len(sizes)):
        if not unknown[column]:
            _ngram_vectors(taps, rows, biases, np.int64(sizes[column]), np.int64(starts[column]), 1, block, scales)
            for i in range(filters):
                panels[column // LANES, i, column % LANES] = block[0, i] * scales[0]


@njit(nogil=True, cache=True)
def _match_unknown(terms, ngrams, cosines):
    """Cosines float32 [Q] of an n-gram of unknown words, int32 [n]: 1 for the same words, 0 for any others."""
    for column in range(len(ngrams.sizes)):
        same = ngrams.sizes[column] == len(terms)
        for word in range(len(terms)):
            same = same and ngrams.terms[ngrams.starts[column] + word] == terms[word]
        cosines[column] = 1.0 if same else 0.0


@njit(nogil=True, cache=True)
def _word_kernels(taps, rows, biases, words, ngrams, scratch, table, start, stop):
    """Rows start..stop of the table of kernels of single words, float32 [U, _table_width(n-grams)]."""
    columns = len(ngrams.sizes)
    scratch.block[:] = 0.0
    for first in range(start, stop, BLOCK):
        count = min(BLOCK, stop - first)
        _ngram_vectors(taps, rows, biases, 1, first, count, scratch.block, scratch.scales)
        dense(scratch.block, ngrams.panels, scratch.zeros, LINEAR, scratch.products, count)
        for row in range(count):
            word, cosines = first + row, scratch.products[row]
            for column in range(columns):
                cosines[column] *= scratch.scales[row]
            if words.ids[word] == 0:
                _match_unknown(words.terms[word : word + 1], ngrams, cosines)
            for column in range(columns):
                _write_kernels(cosines[column], table[word], column * KERNELS)
            table[word, columns * KERNELS :] = 0.0


@njit(nogil=True, cache=True)
def _document_cosines(taps, biases, words, ngrams, places, size, count, scratch):
    """Cosines of a document's ``count`` n-grams of one size with the query's: ``scratch.cosines[:, :count]``.

    They are padded to the next multiple of POSITIONS with PADDED_COSINE.
    """
    cosines = scratch.cosines
    for first in range(0, count, BLOCK):
        present = min(BLOCK, count - first)
        _ngram_vectors(taps, scratch.rows, biases, size, first, present, scratch.block, scratch.scales)
        dense(scratch.block, ngrams.panels, scratch.zeros, LINEAR, scratch.products, present)
        for column in range(len(ngrams.sizes)):
            for row in range(present):
                cosines[column, first + row] = scratch.products[row, column] * scratch.scales[row]
    terms = np.empty(size, np.int32)
    for position in range(count):
        unknown = True
        for word in range(size):
            terms[word] = words.terms[places[position + word]]
            unknown = unknown and words.ids[places[position + word]] == 0
        if unknown:
            _match_unknown(terms, ngrams, cosines[:, position])
    for position in range(count, -(-count // POSITIONS) * POSITIONS):
        cosines[:, position] = PADDED_COSINE


@njit(nogil=True, cache=True, fastmath=REASSOCIATE, error_model="numpy")
def _count_softly(cosines, positions, counts, first):
    """Soft-TF of a query n-gram from ``positions`` cosines, a multiple of POSITIONS: K ``counts`` from ``first`` on."""
    a5 = a4 = a3 = a2 = a1 = b1 = b2 = b3 = b4 = b5 = near = ZERO
    for position in range(positions):
        cosine = cosines[position]
        near += ONE if cosine > NEAR_ONE else ZERO
        middle = exponential(cosine * cosine * WIDE)
        up = exponential(cosine * STEP)
        down = ONE / up
        up2, down2 = up * up, down * down
        value = middle * up
        a1 += value
        value *= up2
        a2 += value
        value *= up2
        a3 += value
        value *= up2
        a4 += value
        a5 += value * up2
        value = middle * down
        b1 += value
        value *= down2
        b2 += value
        value *= down2
        b3 += value
        value *= down2
        b4 += value
        b5 += value * down2
    exact = ZERO
    if near > 0:
        for position in range(positions):
            distance = cosines[position] - ONE
            exact += exponential(distance * distance * NARROW)
    counts[first] = exact
    for kernel, total in enumerate((a5, a4, a3, a2, a1, b1, b2, b3, b4, b5)):
        counts[first + 1 + kernel] = total * CONSTANTS[1 + kernel]


@njit(nogil=True, cache=True)
def _score_documents(taps, rows, biases, words, ngrams, table, layer, bias, scratch, scores, start, stop):
    """Scores of candidates start..stop.

    rows: first row of a distinct word's taps, int32 [U]. table: from :func:`_word_kernels`. layer: float64 [query
    sizes, document sizes, K].
    """
    scratch.block[:] = 0.0
    counts = scratch.counts
    for candidate in range(start, stop):
        places, length = words.places[candidate], words.lengths[candidate]
        for position in range(length):
            scratch.rows[position] = rows[places[position]]
        _add_rows(table, places, length, counts[0])
        for size in range(2, len(counts) + 1):
            count = max(0, length - size + 1)
            _document_cosines(taps, biases, words, ngrams, places, size, count, scratch)
            positions = -(-count // POSITIONS) * POSITIONS
            for column in range(len(ngrams.sizes)):
                _count_softly(scratch.cosines[column], positions, counts[size - 1], column * KERNELS)
        scores[candidate] = math.tanh(bias + _weighted_features(counts, ngrams.sizes, layer))


@njit(nogil=True, cache=True)
def _weighted_features(counts, sizes, layer):
    """The linear layer without its bias; ``counts`` are float32 [document sizes, width]."""
    total, first = 0.0, 0
    for size in range(1, len(layer) + 1):
        last = first
        while last < len(sizes) and sizes[last] == size:
            last += 1
        for document_size in range(len(counts)):
            total += _weighted_logarithms(counts[document_size], first, last, layer[size - 1, document_size])
        first = last
    return total
