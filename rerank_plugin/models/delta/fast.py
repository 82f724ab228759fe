"""The fast path of Delta ([D18] 3): the scores of the module, without materializing the Delta matrix.

The first convolution is linear in the rows of the Delta matrix, and a row is ``d - q*`` and three features. So a word
contributes ``W_t d - W_t q*``, plus the three features times their weights, at tap t. ``W_t d`` is a table over the
vocabulary, computed once per checkpoint; the rest is computed once per distinct word of the candidates, like the
closest query word. Difference vectors are never computed.

Distances come from ``|d|^2 + |q|^2 - 2 d.q``, which in float32 is wrong in the fourth digit if d is close to q, and
close words matter most. So products of quantized vectors are integers, those of others float64, and so are the sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import IndexQuery
from rerank_plugin.inputs.builder import InputBuilder, ModelQuery
from rerank_plugin.inputs.interactions import ComparedVectors, candidate_words
from rerank_plugin.kernels.arithmetic import DROPPED_BITS, TINY
from rerank_plugin.kernels.compiling import njit
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
from rerank_plugin.kernels.intrinsics import (
    AHEAD,
    LANES,
    NUMBER,
    VECTOR,
    code,
    load_lanes,
    loop,
    prefetch_row,
    repeat,
    store_lanes,
)
from rerank_plugin.kernels.parallel import run_in_helper, split
from rerank_plugin.kernels.word_loops import inner_products
from rerank_plugin.models.delta.config import DELTA_FEATURES, DeltaConfig
from rerank_plugin.models.fast_paths import FastPath

BLOCK = 512 * ROWS  # words whose taps are computed at once


class FastDelta(FastPath[DeltaConfig]):
    """Scores candidates like :class:`~rerank_plugin.models.delta.model.Delta`."""

    decodes = False

    def __init__(self, config: DeltaConfig, arrays: Mapping[str, Any], builder: InputBuilder, threads: int):
        super().__init__(config, arrays, builder, threads)
        self.vectors = ComparedVectors(arrays["vectors"])  # [V, D]
        convolutions = range(config.convolutions)
        first, *later = (arrays[f"convolutions.{at}.weight"] for at in convolutions)  # [filters, inward, width] each
        self.taps, self.feature_taps = self._first_taps(first)
        self.biases = np.stack([pad_vector(arrays[f"convolutions.{at}.bias"]) for at in convolutions])  # [layers, K]
        padded = round_up(config.filters)
        self.panels = np.zeros((len(later), padded // LANES, config.width * padded, LANES), np.float32)
        for place, weight in enumerate(later):
            self.panels[place] = pack_convolution(weight, padded)
        count = len(config.layer_widths) - 1
        layers = [(arrays[f"layers.{at}.weight"], arrays[f"layers.{at}.bias"]) for at in range(count)]
        self.layers = DenseLayers(layers, config.slope, config.slope)
        self.feature_mean, self.feature_scale = arrays["feature_mean"].copy(), arrays["feature_scale"].copy()

    def _first_taps(self, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Tables of the first convolution: of the vocabulary [V, width * K], and of the Delta features [3, width * K].

        Parts that an ablation switches off are zeros. Unlike a product by a library, the table does not depend on the
        number of threads.
        """
        taps = tap_columns(weight)  # [inward, width * K]
        dimension = self.vectors.dimension if self.config.differences else 0
        words = len(self.vectors.numbers)
        vocabulary = np.zeros((words + ROWS, taps.shape[1]), np.float32)
        if dimension:
            panels, bias = pack_panels(taps[:dimension]), np.zeros(taps.shape[1], np.float32)

            def multiply(start: int, stop: int) -> None:
                source = np.zeros((BLOCK + ROWS, dimension), np.float32)
                for first in range(start * BLOCK, min(stop * BLOCK, words), BLOCK):
                    count = min(BLOCK, words - first)
                    source[:count] = self.vectors.take(np.arange(first, first + count))
                    dense(source, panels, bias, LINEAR, vocabulary[first:], count)

            split(multiply, -(-words // BLOCK), self.threads, smallest=1)
        vocabulary = vocabulary[:words]
        features = taps[dimension:] if self.config.delta_features else np.zeros((DELTA_FEATURES, taps.shape[1]))
        return vocabulary, np.ascontiguousarray(features, np.float32)

    def score(self, terms: IndexQuery, query: ModelQuery, candidates: Candidates) -> np.ndarray:
        config, count = self.config, len(candidates)
        features = run_in_helper(lambda: self.builder.features(terms, candidates), self.threads)  # [C, F]
        words = candidate_words(self.builder, candidates, self.workspace)
        ids = query.ids[query.mask].astype(np.int32)  # [m]
        sums = np.int32 if self.vectors.quantized else np.float64
        products = self.workspace.array("products", (len(words.ids), len(ids)), sums)  # [U, m]
        taps = self.workspace.array("taps", (len(words.ids), self.taps.shape[1]), np.float32)  # [U, width * K]
        inward = config.filters + len(config.lexical_features)
        hidden = self.workspace.array("hidden", (count + ROWS, inward), np.float32)

        def documents(start: int, stop: int) -> None:
            rows = config.document_words + 2 * (config.width // 2) + 2 * ROWS
            buffers = self.workspace.array("rows", (2, rows, self.biases.shape[1]), np.float32)
            buffers.fill(0)
            _pool_documents(
                taps, words.places, words.lengths, self.panels, self.biases, np.float32(config.slope),
                config.width, config.filters, buffers, hidden, start, stop,
            )  # fmt: skip

        vectors = self.vectors
        tables = vectors.numbers, vectors.scales, vectors.squares, self.taps, self.feature_taps
        query_words = ids, vectors.queries(ids)
        split(partial(_word_taps, *tables, words.ids, *query_words, products, taps), len(words.ids), self.threads)
        split(documents, count, self.threads, smallest=16)
        hidden[:count, config.filters :] = (features() - self.feature_mean) * self.feature_scale
        return self.layers.outputs(hidden, count, self.workspace).copy()


@njit(nogil=True, cache=True)
def _word_taps(numbers, scales, squares, taps, feature_taps, ids, query_ids, queries, products, word_taps, start, stop):
    """The contributions of distinct words start..stop at each tap of the first convolution, into ``word_taps``.

    products: int32 or float64 [U, m], overwritten. word_taps: float32 [U, width * K].
    """
    inner_products(numbers, ids, queries, products, start, stop)
    for word in range(start, stop):
        if word + AHEAD < stop:
            prefetch_row(taps, ids[word + AHEAD])
        id, scale = ids[word], np.float64(scales[ids[word]])
        square = scale * scale * squares[id]
        closest, smallest, product, norms = 0, np.inf, 0.0, 0.0
        for place in range(len(query_ids)):
            query_id, query_scale = query_ids[place], np.float64(scales[query_ids[place]])
            query_square = query_scale * query_scale * squares[query_id]
            tried = scale * query_scale * products[word, place]
            distance = 0.0 if query_id == id else max(square + query_square - 2 * tried, 0.0)
            if distance < smallest and _steps(distance) < _steps(smallest):
                closest, smallest, product, norms = query_id, distance, tried, query_square
        norm, query_norm, distance = np.sqrt(square), np.sqrt(norms), np.sqrt(smallest)
        cosine = np.float32(product / max(norm * query_norm, TINY))
        lengths = norm + query_norm
        proximity = np.float32(1.0 - distance / lengths if lengths > 0 else 0.0)
        distance = np.float32(distance)
        for i in range(word_taps.shape[1]):
            word_taps[word, i] = (
                (taps[id, i] - taps[closest, i])
                + cosine * feature_taps[0, i]
                + distance * feature_taps[1, i]
                + proximity * feature_taps[2, i]
            )


@njit(nogil=True, cache=True)
def _steps(square):
    """The root of a squared distance as :func:`rerank_plugin.models.delta_stage.steps_of` compares it."""
    return (np.float32(np.sqrt(square)).view(np.int32) + (1 << DROPPED_BITS - 1)) >> DROPPED_BITS


@njit(nogil=True, cache=True)
def _pool_documents(taps, places, lengths, panels, biases, slope, width, filters, buffers, pooled, start, stop):
    """Convolutions and max-pooling of candidates start..stop, into the first ``filters`` columns of ``pooled``.

    panels: float32 [layers - 1, K / LANES, width * K, LANES]. buffers: zeros, float32 [2, N + width - 1 + 2 ROWS, K].
    """
    border, columns = width // 2, biases.shape[1]
    rest = (border + ROWS) * columns
    for candidate in range(start, stop):
        length = np.int64(lengths[candidate])  # the type of its other calls; for another one dense is compiled again
        # A layer reads rows [0, length + 2 border) and writes rows [border, border + length): the borders stay zero.
        behind = (border + length) * columns * 4
        if length > 0:
            first_layer(taps, places[candidate], length, biases[0], slope, width, border, buffers[0])
            _clear(buffers.ctypes.data + behind, rest)
            for layer in range(len(panels)):
                target = buffers[(layer + 1) % 2]
                dense(buffers[layer % 2], panels[layer], biases[layer + 1], slope, target[border:], length)
                _clear(target.ctypes.data + behind, rest)
        pool(buffers[len(panels) % 2], border, length, pooled, candidate, filters)


@code(NUMBER, ir.IntType(32), NUMBER, NUMBER, *[types.intp] * 4, types.float32)
def _sum_taps(builder, taps, words, bias, target, columns, step, low, high, slope):
    """``target[:columns] = leaky(bias + the sum over taps t, low <= t < high, of taps[words[t], t * columns :])``.

    The first four arguments are addresses; ``columns`` is a multiple of LANES, ``step`` is the length of a row of
    ``taps``, and there is at least one tap. NaN stays NaN.
    """
    size, slopes, zero = columns.type, repeat(builder, slope), VECTOR(None)

    def add_lanes(group, _):
        column = builder.mul(group, size(LANES))

        def add_tap(place, sums):
            tap = builder.add(low, place)
            word = builder.sext(builder.load(builder.gep(words, [tap])), size)
            row = builder.gep(taps, [builder.add(builder.mul(word, step), builder.mul(tap, columns))])
            return [builder.fadd(sums[0], load_lanes(builder, builder.gep(row, [column])))]

        start = load_lanes(builder, builder.gep(bias, [column]))
        [total] = loop(builder, builder.sub(high, low), [start], add_tap)
        positive = builder.fcmp_ordered(">", total, zero)
        leaky = builder.select(positive, total, builder.fmul(total, slopes))
        store_lanes(builder, leaky, builder.gep(target, [column]))
        return []

    loop(builder, builder.udiv(columns, size(LANES)), [], add_lanes)


@njit(nogil=True, inline="always")
def first_layer(taps, words, length, bias, slope, width, border, target):
    """The first convolution of a document's first words int32 [length], into the rows of ``target`` from ``border`` on.

    A window covers ``width`` positions; the text has ``border`` empty positions before and behind it.
    """
    columns = len(bias)
    for window in range(length + 2 * border - width + 1):
        first, behind = window - border, length - window + border
        _sum_taps(
            taps.ctypes.data, words.ctypes.data + first * 4, bias.ctypes.data,
            target.ctypes.data + (border + window) * columns * 4, columns, taps.shape[1],
            -first if first < 0 else 0, width if width < behind else behind, slope,
        )  # fmt: skip


@code(NUMBER, types.intp)
def _clear(builder, target, count):
    """Set ``count`` float32 numbers from an address on to zero; ``count`` is a positive multiple of LANES."""

    def clear_lanes(place, _):
        size = place.type
        store_lanes(builder, VECTOR(None), builder.gep(target, [builder.mul(place, size(LANES))]))
        return []

    loop(builder, builder.udiv(count, count.type(LANES)), [], clear_lanes)


@njit(nogil=True, inline="always")
def pool(rows, first, count, pooled, candidate, filters):
    """The maximum over ``count`` rows in each of the first ``filters`` columns; 0 without rows; NaN stays NaN."""
    for i in range(filters):
        pooled[candidate, i] = rows[first, i] if count else 0.0
    for row in range(first + 1, first + count):
        for i in range(filters):
            value, largest = rows[row, i], pooled[candidate, i]
            pooled[candidate, i] = value if value > largest or value != value else largest
