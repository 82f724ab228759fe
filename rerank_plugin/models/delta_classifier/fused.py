"""The Delta Relevance Classifier ([D17] 4) as it is served: the module's scores, from each distinct word once.

The closest query word, the row of difference features, and what the row adds to the first convolution at each of its
taps are the same wherever a word stands, so they are computed once for each distinct word of the candidates; the first
convolution of a document is then a sum of w rows. The other convolutions are dense, and nearly all of the work: they
are products of rows with panels of weights (:mod:`~rerank_plugin.kernels.dense_layers`), of the words there are and no
padding. Those of width 3 are computed in pairs of windows, with two thirds of the multiplications.

Delta's table of taps over the whole vocabulary would be eight times as large here, and would save a tenth of the time:
without it there is nothing to make before the first query.

In shapes m are the known words of the query and w is the width of a convolution.
"""

from __future__ import annotations

import numpy as np

from rerank_plugin.features.inputs import InputBuilder, ModelQuery
from rerank_plugin.features.interactions import CandidateWords, candidate_words
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import IndexQuery
from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.compiling import njit
from rerank_plugin.kernels.dense_layers import (
    LINEAR,
    RELU,
    ROWS,
    DenseLayers,
    dense,
    numbers,
    pack_convolution,
    pack_panels,
    pad_vector,
    tap_columns,
)
from rerank_plugin.kernels.intrinsics import AHEAD, LANES, prefetch_row
from rerank_plugin.kernels.parallel import alongside, split
from rerank_plugin.models.delta.fused import first_layer, pool
from rerank_plugin.models.delta.model import TINY
from rerank_plugin.models.delta_classifier.model import DeltaClassifier
from rerank_plugin.models.fast_paths import FastPath

BLOCK = 12 * ROWS  # words whose taps are made at once: a thread's rows stay in its second-level cache
PAIRED = 3  # the width of convolutions that are computed in pairs of windows


class FusedDeltaClassifier(FastPath):
    """Scores candidates as the module does."""

    def __init__(self, model: DeltaClassifier, builder: InputBuilder, threads: int):
        super().__init__(model, builder, threads)
        self.vectors = numbers(model.vectors)  # [V, D]
        self.norms = numbers(model.vectors.norm(dim=1))  # [V]
        first, *later = (numbers(layer.weight) for layer in model.convolutions)  # [filters, inward, w] each
        self.taps = pack_panels(tap_columns(first))  # [w * K / LANES, D + 2, LANES]
        self.biases = np.stack([pad_vector(numbers(layer.bias)) for layer in model.convolutions])  # [layers, K]
        self.panels = self._later_panels(later)
        self.layers = DenseLayers(((numbers(layer.weight), numbers(layer.bias)) for layer in model.layers), RELU)
        self.feature_mean, self.feature_scale = numbers(model.feature_mean).copy(), numbers(model.feature_scale).copy()

    def _later_panels(self, weights: list[np.ndarray]) -> np.ndarray:
        """The convolutions after the first, float32 [layers - 1, P, K / LANES, inward, LANES].

        P is 4 and inward K for pairs of windows; else P is 1 and inward w * K.
        """
        width, filters, padded = self.config.width, self.config.filters, self.biases.shape[1]
        parts, inward = (4, padded) if width == PAIRED else (1, width * padded)
        panels = np.zeros((len(weights), parts, padded // LANES, inward, LANES), np.float32)
        for place, weight in enumerate(weights):
            if width == PAIRED:
                rows = np.pad(weight.transpose(2, 1, 0), ((0, 0), (0, padded - filters), (0, 0)))  # [3, K, filters]
                panels[place] = [pack_panels(matrix) for matrix in _paired(rows)]
            else:
                panels[place] = pack_convolution(weight, padded)
        return panels

    def score(self, terms: IndexQuery, query: ModelQuery, candidates: Candidates) -> np.ndarray:
        filters, count = self.config.filters, len(candidates)
        features = alongside(lambda: self.builder.features(terms, candidates), self.threads)  # [C, F]
        words = candidate_words(self.builder, candidates, self.workspace)
        joined = self.workspace.array("joined", (count + ROWS, self.config.joined), np.float32)
        self._scan(query.ids[query.ids > 0], words, joined)
        joined[:count, filters:] = (features() - self.feature_mean) * self.feature_scale
        scores = np.empty(count, np.float32)

        def classify(start: int, stop: int) -> None:
            scores[start:stop] = self.layers.outputs(joined[start:], stop - start, self.workspace)

        split(classify, count, self.threads)
        return scores

    def _scan(self, ids: np.ndarray, words: CandidateWords, joined: np.ndarray) -> None:
        """The Delta Scanner: the first ``filters`` columns of ``joined``, for known query words int64 [m]."""
        config, count, filters = self.config, len(words.lengths), self.config.filters
        if not len(ids):
            joined[:count, :filters] = 0.0
            return
        taps = self.workspace.array("taps", (len(words.ids), len(self.taps) * LANES), np.float32)  # [U, w * K]

        def word_taps(start: int, stop: int) -> None:
            rows = self.workspace.array("rows", (BLOCK + ROWS, self.taps.shape[1]), np.float32)
            made = self.workspace.array("made", (BLOCK + ROWS, taps.shape[1]), np.float32)
            _word_taps(self.vectors, self.norms, self.taps, words.ids, ids, rows, made, taps, start, stop)

        def documents(start: int, stop: int) -> None:
            # A document grows by a border with every layer, and has one before and behind it.
            longest = config.document_words + (len(self.biases) + 2) * (config.width - 1)
            buffers = self.workspace.array("features", (2, longest + 2 * ROWS, self.biases.shape[1]), np.float32)
            pairs = self.workspace.array("pairs", (2, 4, longest // 2 + 2 * ROWS, self.biases.shape[1]), np.float32)
            known = self.workspace.array("known", (config.document_words,), np.int32)
            _scan_documents(
                taps, words.ids, words.places, words.lengths, self.panels, self.biases, config.width, filters,
                known, buffers, pairs, joined, start, stop,
            )  # fmt: skip

        split(word_taps, len(words.ids), self.threads)
        split(documents, count, self.threads, smallest=4)


def _paired(weight: np.ndarray) -> list[np.ndarray]:
    """A weight [3, K, filters] as the four matrices that two windows side by side share (Winograd's F(2, 3)).

    With rows a, b, c, d of the windows abc and bcd, and p, q, r, s the products of a - c, b + c, c - b and b - d with
    the four, ``p + q + r`` is the sum of abc and ``q - r - s`` that of bcd.
    """
    first, middle, last = weight
    return [first, (first + middle + last) / 2, (first - middle + last) / 2, last]


@njit(nogil=True, cache=True)
def _word_taps(vectors, norms, panels, ids, query_ids, rows, made, taps, start, stop):
    """What distinct words start..stop add to the first convolution at each tap: rows of ``taps``, [U, w * K].

    rows, made: scratch, float32 [BLOCK + ROWS, D + 2] and [BLOCK + ROWS, w * K].
    """
    nothing = np.zeros(taps.shape[1], np.float32)
    for first in range(start, stop, BLOCK):
        size = min(BLOCK, stop - first)
        _difference_rows(vectors, norms, ids[first : first + size], query_ids, rows)
        dense(rows, panels, nothing, LINEAR, made, size)
        taps[first : first + size] = made[:size]


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def _difference_rows(vectors, norms, ids, query_ids, rows):
    """Rows ``[d - q*, cosine, distance]`` of words ([D17] algorithm 1), float32 [len(ids) or more, D + 2]."""
    dimension = vectors.shape[1]
    for word in range(len(ids)):
        if word + AHEAD < len(ids):
            prefetch_row(vectors, ids[word + AHEAD])
        id, closest, smallest = ids[word], query_ids[0], np.float32(np.inf)
        for other in query_ids:
            total = np.float32(0.0)
            for i in range(dimension):
                difference = vectors[id, i] - vectors[other, i]
                total += difference * difference
            if total < smallest:
                closest, smallest = other, total
        product = np.float32(0.0)
        for i in range(dimension):
            product += vectors[id, i] * vectors[closest, i]
            rows[word, i] = vectors[id, i] - vectors[closest, i]
        rows[word, dimension] = product / max(norms[id] * norms[closest], np.float32(TINY))
        rows[word, dimension + 1] = np.sqrt(smallest)


@njit(nogil=True, cache=True)
def _scan_documents(
    taps, ids, places, lengths, panels, biases, width, filters, known, buffers, pairs, joined, start, stop
):  # fmt: skip
    """The Delta Scanner for candidates start..stop: the first ``filters`` columns of rows of ``joined``.

    Scratch: known int32 [N]; buffers float32 [2, L + 2 ROWS, K] and pairs [2, 4, L / 2 + 2 ROWS, K] for
    L = N + (layers + 2) (w - 1).
    """
    border = width - 1
    buffers[:, :border] = 0.0
    for candidate in range(start, stop):
        length = 0
        for position in range(lengths[candidate]):
            if ids[places[candidate, position]] > 0:  # UNK gives no row
                known[length] = places[candidate, position]
                length += 1
        if length == 0:
            joined[candidate, :filters] = 0.0
            continue
        # A layer reads rows [0, length + 2 border) and writes rows [border, length + 2 border).
        first_layer(taps, known, length, biases[0], RELU, width, border, buffers[0])
        length += border
        for layer in range(len(panels)):
            source, target = buffers[layer % 2], buffers[(layer + 1) % 2]
            source[border + length : length + 2 * border] = 0.0
            length += border
            if width == PAIRED:
                _paired_convolution(source, panels[layer], biases[layer + 1], pairs, target[border:], length)
            else:
                dense(source, panels[layer, 0], biases[layer + 1], RELU, target[border:], length)
        pool(buffers[len(panels) % 2], border, length, joined, candidate, filters)


@njit(nogil=True, cache=True)
def _paired_convolution(source, panels, bias, pairs, target, rows):
    """``target[i] = relu(bias + source[i : i + 3] . weight)`` for i < rows, in pairs of windows.

    source: float32 [at least rows + 3, K], of which row rows + 2 may hold anything. panels: of :func:`_paired`.
    pairs: scratch, float32 [2, 4, at least rows / 2 + 2 ROWS, K]. Row ``rows`` of ``target`` is overwritten.
    """
    mixed, products, filters, count = pairs[0], pairs[1], len(bias), (rows + 1) // 2
    for pair in range(count):
        first = 2 * pair
        for i in range(filters):
            mixed[0, pair, i] = source[first, i] - source[first + 2, i]
            mixed[1, pair, i] = source[first + 1, i] + source[first + 2, i]
            mixed[2, pair, i] = source[first + 2, i] - source[first + 1, i]
            mixed[3, pair, i] = source[first + 1, i] - source[first + 3, i]
    nothing = np.zeros(filters, np.float32)
    for part in range(4):
        dense(mixed[part], panels[part], bias if part == 1 else nothing, LINEAR, products[part], count)
    for pair in range(count):
        for i in range(filters):
            even = products[0, pair, i] + products[1, pair, i] + products[2, pair, i]
            odd = products[1, pair, i] - products[2, pair, i] - products[3, pair, i]
            target[2 * pair, i] = even if even > 0 else even * RELU
            target[2 * pair + 1, i] = odd if odd > 0 else odd * RELU
