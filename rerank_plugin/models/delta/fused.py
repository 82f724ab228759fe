"""The fast path of Delta ([D18] 3): the scores of :class:`~rerank_plugin.models.delta.model.Delta` without its stage.

The first convolution is linear in the rows of the Delta matrix, and a row is ``d - q*`` and three numbers. So what a
word adds to a convolution at each of its taps is ``W_t d - W_t q*`` plus the three numbers times their weights: the
first part is a table over the vocabulary, made once a checkpoint, and the rest is computed once for each distinct word
of the candidates. Difference vectors never exist, and the closest query word is looked for once a distinct word.

The distances are sums of squared differences and not ``|d|^2 + |q|^2 - 2 d.q``: that form is wrong in the fourth digit
where d is close to q, and those are the words that matter.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numba import njit

from rerank_plugin.features.inputs import InputBuilder, ModelQuery
from rerank_plugin.features.interactions import candidate_words
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import IndexQuery
from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.dense_layers import (
    LINEAR,
    ROWS,
    DenseLayers,
    dense,
    pack_convolution,
    pack_panels,
    pad_vector,
    round_up,
    tap_columns,
)
from rerank_plugin.kernels.intrinsics import AHEAD, LANES, prefetch_row
from rerank_plugin.kernels.parallel import alongside, split
from rerank_plugin.models.delta.config import DELTA_FEATURES, TINY, DeltaConfig
from rerank_plugin.models.fast_paths import FastPath
from rerank_plugin.models.reader import Reader


class FusedDelta(FastPath):
    """Scores candidates as the module does."""

    def __init__(self, model: Reader, builder: InputBuilder, threads: int):
        super().__init__(model, builder, threads)
        config, arrays = self.config, model.arrays()
        self.vectors = arrays["vectors"]  # [V, D]
        self.norms = np.sqrt(np.einsum("vd,vd->v", self.vectors, self.vectors))  # [V]
        convolutions = range(config.convolutions)
        first, *later = (arrays[f"convolutions.{at}.weight"] for at in convolutions)  # [filters, inward, width] each
        self.taps, self.feature_taps = self._first_taps(first)
        self.biases = np.stack([pad_vector(arrays[f"convolutions.{at}.bias"]) for at in convolutions])  # [layers, K]
        padded = round_up(config.filters)
        self.panels = np.zeros((len(later), padded // LANES, config.width * padded, LANES), np.float32)
        for place, weight in enumerate(later):
            self.panels[place] = pack_convolution(weight, padded)
        layers = [(arrays[f"layers.{at}.weight"], arrays[f"layers.{at}.bias"]) for at in range(len(config.hidden) + 1)]
        self.layers = DenseLayers(layers, config.slope, config.slope)
        self.feature_mean, self.feature_scale = arrays["feature_mean"].copy(), arrays["feature_scale"].copy()

    @classmethod
    def weight_shapes(cls, config: DeltaConfig, dimension: int) -> dict[str, tuple[int, ...]]:
        features, filters = len(config.lexical_features), config.filters
        rows = dimension * config.differences + DELTA_FEATURES * config.delta_features
        inward = [rows] + [filters] * config.convolutions
        widths = [filters + features, *config.hidden, 1]
        shapes: dict[str, tuple[int, ...]] = {"feature_mean": (features,), "feature_scale": (features,)}
        for at in range(config.convolutions):
            shapes[f"convolutions.{at}.weight"] = (filters, inward[at], config.width)
            shapes[f"convolutions.{at}.bias"] = (filters,)
        for at, width in enumerate(widths[1:]):
            shapes[f"layers.{at}.weight"], shapes[f"layers.{at}.bias"] = (width, widths[at]), (width,)
        return shapes

    def _first_taps(self, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Tables of the first convolution: of the vocabulary [V, width * K], and of the Delta features [3, width * K].

        What an ablation switches off adds nothing. The table does not depend on the number of threads, as a product by
        a library may.
        """
        taps = tap_columns(weight)  # [inward, width * K]
        dimension = self.vectors.shape[1] if self.config.differences else 0
        blocks = -(-len(self.vectors) // ROWS)
        vocabulary = np.zeros(((blocks + 1) * ROWS, taps.shape[1]), np.float32)
        if dimension:
            source = np.zeros((len(vocabulary), dimension), np.float32)
            source[: len(self.vectors)] = self.vectors
            panels, bias = pack_panels(taps[:dimension]), np.zeros(taps.shape[1], np.float32)

            def multiply(start: int, stop: int) -> None:
                first, count = start * ROWS, (stop - start) * ROWS
                dense(source[first:], panels, bias, LINEAR, vocabulary[first:], count)

            split(multiply, blocks, self.threads)
        vocabulary = vocabulary[: len(self.vectors)]
        features = taps[dimension:] if self.config.delta_features else np.zeros((DELTA_FEATURES, taps.shape[1]))
        return vocabulary, np.ascontiguousarray(features, np.float32)

    def score(self, terms: IndexQuery, query: ModelQuery, candidates: Candidates) -> np.ndarray:
        config, count = self.config, len(candidates)
        features = alongside(lambda: self.builder.features(terms, candidates), self.threads)  # [C, F]
        words = candidate_words(self.builder, candidates, self.workspace)
        ids = query.ids[query.mask].astype(np.int32)  # [m]
        query_vectors = self.vectors[ids]  # [m, D]
        taps = self.workspace.array("taps", (len(words.ids), self.taps.shape[1]), np.float32)  # [U, width * K]
        inward = config.filters + len(config.lexical_features)
        hidden = self.workspace.array("hidden", (count + ROWS, inward), np.float32)

        def documents(start: int, stop: int) -> None:
            rows = config.document_words + 2 * (config.width // 2) + 2 * ROWS
            buffers = self.workspace.array("rows", (2, rows, self.biases.shape[1]), np.float32)
            _pool_documents(
                taps, words.places, words.lengths, self.panels, self.biases, np.float32(config.slope),
                config.width, config.filters, buffers, hidden, start, stop,
            )  # fmt: skip

        tables = self.vectors, self.norms, self.taps, self.feature_taps
        split(partial(_word_taps, *tables, words.ids, ids, query_vectors, taps), len(words.ids), self.threads)
        split(documents, count, self.threads, smallest=16)
        hidden[:count, config.filters :] = (features() - self.feature_mean) * self.feature_scale
        return self.layers.outputs(hidden, count, self.workspace).copy()


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def _word_taps(vectors, norms, taps, feature_taps, ids, query_ids, query_vectors, found, start, stop):
    """What distinct words start..stop add to the first convolution at each tap: rows of ``found``, [U, width * K]."""
    dimension, columns = vectors.shape[1], found.shape[1]
    for word in range(start, stop):
        if word + AHEAD < stop:
            prefetch_row(vectors, ids[word + AHEAD])
            prefetch_row(taps, ids[word + AHEAD])
        id = ids[word]
        closest, smallest = 0, np.float32(np.inf)
        for place in range(len(query_ids)):
            total = np.float32(0.0)
            for i in range(dimension):
                difference = vectors[id, i] - query_vectors[place, i]
                total += difference * difference
            if total < smallest:
                closest, smallest = place, total
        product = np.float32(0.0)
        for i in range(dimension):
            product += vectors[id, i] * query_vectors[closest, i]
        norm, query_norm = norms[id], norms[query_ids[closest]]
        distance = np.sqrt(smallest)
        cosine = product / max(norm * query_norm, np.float32(TINY))
        lengths = norm + query_norm
        proximity = np.float32(1.0) - distance / lengths if lengths > 0 else np.float32(0.0)
        other = query_ids[closest]
        for i in range(columns):
            found[word, i] = (
                (taps[id, i] - taps[other, i])
                + cosine * feature_taps[0, i]
                + distance * feature_taps[1, i]
                + proximity * feature_taps[2, i]
            )


@njit(nogil=True, cache=True)
def _pool_documents(taps, places, lengths, panels, biases, slope, width, filters, buffers, pooled, start, stop):
    """Convolutions and max-pooling of candidates start..stop: the first ``filters`` columns of rows of ``pooled``.

    panels: float32 [layers - 1, K / LANES, width * K, LANES]. buffers: scratch, float32 [2, N + width - 1 + 2 ROWS, K].
    """
    border = width // 2
    buffers[:] = 0.0
    for candidate in range(start, stop):
        length = lengths[candidate]
        if length == 0:
            pooled[candidate, :filters] = 0.0
            continue
        # A layer reads rows [0, length + 2 border) and writes rows [border, border + length): the borders stay zero.
        source = buffers[0]
        first_layer(taps, places[candidate, :length], biases[0], slope, width, border, source)
        source[border + length : border + length + border + ROWS] = 0.0
        for layer in range(len(panels)):
            target = buffers[(layer + 1) % 2]
            dense(source, panels[layer], biases[layer + 1], slope, target[border:], length)
            target[border + length : border + length + border + ROWS] = 0.0
            source = target
        pool(source[border : border + length], pooled[candidate, :filters])


@njit(nogil=True, cache=True)
def first_layer(taps, words, bias, slope, width, border, target):
    """The first convolution of one document's words int32 [n], into the rows of ``target`` from ``border`` on.

    A window sees the words of ``width`` places in a row, of which ``border`` before and behind the text are empty.
    """
    columns = len(bias)
    for window in range(len(words) + 2 * border - width + 1):
        row, first = target[border + window], window - border
        if width == 3 and 0 <= first < len(words) - 2:  # the papers' width, in one pass
            before, here, after = words[first], words[first + 1], words[first + 2]
            for i in range(columns):
                value = bias[i] + taps[before, i] + taps[here, columns + i] + taps[after, 2 * columns + i]
                row[i] = value if value > 0 else value * slope
            continue
        for i in range(columns):
            row[i] = bias[i]
        for tap in range(max(0, -first), min(width, len(words) - first)):
            word, column = words[first + tap], tap * columns
            for i in range(columns):
                row[i] += taps[word, column + i]
        for i in range(columns):
            row[i] = row[i] if row[i] > 0 else row[i] * slope  # NaN stays NaN


@njit(nogil=True, cache=True)
def pool(rows, pooled):
    """The largest value of each of the columns of ``pooled``; NaN stays NaN."""
    for i in range(len(pooled)):
        pooled[i] = rows[0, i]
    for position in range(1, len(rows)):
        for i in range(len(pooled)):
            value, best = rows[position, i], pooled[i]
            pooled[i] = value if value > best or value != value else best
