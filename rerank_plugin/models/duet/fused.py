"""The fast path of DUET: the scores of :class:`~rerank_plugin.models.duet.model.Duet` with a fraction of its work.

Local model. A row of exact matches is all zeros but for a place or two, so the affine map of a row is the sum of those
places' columns. A query word that a document lacks adds the same numbers to the first fully connected layer in every
such document: they are known beforehand, and only rows with a match are multiplied.

Distributed model. tanh rises everywhere, so it waits until the maxima of the windows are taken, which
:mod:`~rerank_plugin.kernels.window_maxima` does. A maximum over 100 positions seldom changes from one window to the
next, so the layer behind it, which is linear in the maxima, is carried on from window to window by what changed. What
remains are the P * K * hidden products of the first fully connected layer: the query stands before it, and a tanh
before that. All documents of a part go through the weights of one window before those of the next.

The table of :mod:`~rerank_plugin.kernels.window_maxima` takes 4 * width * K bytes for each word of the index that the
model knows: 91 MB for 25,000 words and 300 filters.

In shapes C are the candidates of a part, H the outputs of the first hidden layer, padded as K is, and P the windows.
"""

from __future__ import annotations

import numpy as np

from rerank_plugin.features.inputs import InputBuilder, ModelQuery
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import IndexQuery
from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.compiling import njit
from rerank_plugin.kernels.dense_layers import (
    LINEAR,
    ROWS,
    add_products,
    dense,
    numbers,
    pack_convolution,
    pack_layer,
    pack_panels,
    pad_columns,
    pad_vector,
)
from rerank_plugin.kernels.hyperbolic import tanh, tanh_rows
from rerank_plugin.kernels.parallel import Workspace, split
from rerank_plugin.kernels.window_maxima import WindowMaxima, count_windows
from rerank_plugin.models.duet.model import Duet, DuetConfig, FullyConnected, LocalModel
from rerank_plugin.models.fast_paths import FastPath

SMALLEST_PART = 32  # documents of a part, at least: weights that fit no cache are read once for all of them


class FusedDuet(FastPath):
    """Scores candidates as the module does."""

    of_index = True

    def __init__(self, model: Duet, builder: InputBuilder, threads: int):
        super().__init__(model, builder, threads)
        parts = self.config.parts
        self.local = FusedLocal(model.local, self.config, self.workspace) if parts != "distributed" else None
        self.distributed = FusedDistributed(model, builder, self.workspace) if parts != "local" else None

    def score(self, terms: IndexQuery, query: ModelQuery, candidates: Candidates) -> np.ndarray:
        tokens = self.builder.index.tokens
        lengths = np.minimum(candidates.lengths, self.config.document_words)
        # Longest first: the documents that have a certain window are then the first ones of their part.
        order = np.argsort(-lengths, kind="stable")
        starts, lengths = candidates.starts[order], lengths[order]
        query_terms = query.terms[query.mask]
        represented = self.distributed.represent(query.ids[query.mask]) if self.distributed else None
        found = np.zeros(len(order), np.float32)

        def documents(start: int, stop: int) -> None:
            part = slice(start, stop)
            if self.local:
                self.local.add_scores(tokens, starts[part], lengths[part], query_terms, found[part])
            if self.distributed:
                self.distributed.add_scores(tokens, starts[part], lengths[part], represented, found[part])

        split(documents, len(order), self.threads, SMALLEST_PART)
        scores = np.empty_like(found)
        scores[order] = found
        return scores


class FusedLayers:
    """The fully connected layers from the first tanh on."""

    def __init__(self, layers: FullyConnected, workspace: Workspace):
        self.workspace = workspace
        self.first_bias = pad_vector(numbers(layers.layers[0].bias))
        self.others = [pack_layer(layer) for layer in layers.layers[1:]]
        self.last = pad_vector(numbers(layers.last.weight)[0])
        # The module multiplies even what is zero with a weight that is not a number, and so finds it.
        poison = float((numbers(layers.layers[0].weight) * np.float32(0)).sum())
        self.last_bias = np.float32(layers.last.bias.item() + poison)

    def start(self, count: int) -> np.ndarray:
        """What goes into the first tanh of some documents, to be added to: the bias, float32 [count + ROWS, H]."""
        hidden = self.workspace.array("hidden", (count + ROWS, len(self.first_bias)), np.float32)
        hidden[:] = self.first_bias
        return hidden

    def add_scores(self, hidden: np.ndarray, scores: np.ndarray) -> None:
        """Add what comes out to scores, float32 [C], for what goes into the first tanh."""
        tanh_rows(hidden, len(scores))
        for place, (panels, bias) in enumerate(self.others):
            target = self.workspace.array(f"layer {place}", (len(hidden), len(bias)), np.float32)
            dense(hidden, panels, bias, LINEAR, target, len(scores))
            tanh_rows(target, len(scores))
            hidden = target
        _add_outputs(hidden, self.last, self.last_bias, scores)


class FusedLocal:
    """The local model."""

    def __init__(self, model: LocalModel, config: DuetConfig, workspace: Workspace):
        self.workspace = workspace
        self.columns = pad_columns(numbers(model.row.weight).T)  # [N, K]
        self.bias = pad_vector(numbers(model.row.bias))  # [K]
        self.panels = _panels_by_place(model.output, config.query_words)  # [M, H / LANES, filters, LANES]
        self.output = FusedLayers(model.output, workspace)
        weight = numbers(model.output.layers[0].weight).reshape(-1, config.query_words, config.filters)
        without_match = np.einsum("hmk,k->mh", weight, np.tanh(numbers(model.row.bias).astype(np.float64)))
        self.without_match = pad_columns(without_match.astype(np.float32))  # [M, H]

    def add_scores(self, tokens, starts, lengths, terms, scores) -> None:
        """Add to scores float32 [C], for query terms int64 [m], of documents that begin at ``starts`` in ``tokens``."""
        count = len(scores)
        hidden = self.output.start(count)
        rows = self.workspace.array("rows", (count + ROWS, len(self.bias)), np.float32)
        products = self.workspace.array("products", hidden.shape, np.float32)
        matched = self.workspace.array("matched", (count,), np.bool_)
        _add_matches(
            tokens, starts, lengths, terms, self.columns, self.bias, self.panels, self.without_match,
            rows, products, matched, hidden,
        )  # fmt: skip
        self.output.add_scores(hidden, scores)


class FusedDistributed:
    """The distributed model."""

    def __init__(self, model: Duet, builder: InputBuilder, workspace: Workspace):
        part, config = model.distributed, model.config
        self.workspace, self.config = workspace, config
        self.vectors = numbers(model.vectors)  # [V, D]
        self.query_convolution = pack_convolution(numbers(part.query_convolution.weight))
        self.query_bias = pad_vector(numbers(part.query_convolution.bias))
        self.query_layer = pack_layer(part.query_layer)
        present, rows = np.unique(builder.model_ids, return_inverse=True)
        self.rows = np.append(rows, len(present)).astype(np.int32)  # of the table: for each term, then for no word
        weight, windows = numbers(part.document_convolution.weight), (config.pool_width, config.pool_stride)
        self.maxima = WindowMaxima(self.vectors[present], weight, *windows)
        self.bias = pad_vector(numbers(part.document_convolution.bias))  # [K]
        self.window_weights = pad_columns(numbers(part.window_layer.weight).T)  # [filters, K]
        self.window_bias = pad_vector(numbers(part.window_layer.bias))  # [K]
        self.panels = _panels_by_place(part.output, config.windows)  # [P, H / LANES, filters, LANES]
        self.output = FusedLayers(part.output, workspace)

    def represent(self, ids: np.ndarray) -> np.ndarray:
        """What the query is: int64 [m] to float32 [K]."""
        width, filters = self.config.width, len(self.bias)
        words = np.zeros((len(ids) + width + ROWS, self.vectors.shape[1]), np.float32)
        words[: len(ids)] = self.vectors[ids]
        positions = max(1, len(ids) - width + 1)
        convolved = np.empty((positions + ROWS, filters), np.float32)
        dense(words, self.query_convolution, self.query_bias, LINEAR, convolved, positions)
        pooled, represented = np.zeros((2, 1 + ROWS, filters), np.float32)
        pooled[0] = convolved[:positions].max(axis=0)
        tanh_rows(pooled, 1)
        dense(pooled, *self.query_layer, LINEAR, represented, 1)
        tanh_rows(represented, 1)
        return represented[0]

    def add_scores(self, tokens, starts, lengths, query, scores) -> None:
        """Add to scores float32 [C], for a query float32 [K], of documents in ``tokens``, the longest first."""
        config, count, filters = self.config, len(scores), len(self.bias)
        places = self.workspace.array("places", (count, config.document_words + config.width), np.int32)
        _place_words(tokens, starts, lengths, self.rows, places)
        positions = np.where(lengths > 0, np.maximum(lengths - config.width + 1, 1), 0)  # [C]
        windows = self.workspace.array("windows", (config.windows, count + ROWS, filters), np.float32)
        self.maxima.fill(places, positions, windows, self.workspace)
        scratch = self.workspace.array("scratch", (4, filters), np.float32)
        changed = self.workspace.array("changed", (filters,), np.int64)
        _represent_windows(
            positions, config.pool_width, config.pool_stride, self.bias, self.window_weights, self.window_bias, query,
            scratch, changed, windows,
        )  # fmt: skip
        hidden = self.output.start(count)
        _add_windows(windows, self.panels, positions, config.pool_width, config.pool_stride, hidden)
        self.output.add_scores(hidden, scores)


def _panels_by_place(layers: FullyConnected, places: int) -> np.ndarray:
    """The first layer's weights as panels for each place (query word, window): [places, H / LANES, filters, LANES]."""
    weight = numbers(layers.layers[0].weight)  # [H, places * filters]
    return np.stack([pack_panels(part.T) for part in np.split(weight, places, axis=1)])


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def _add_outputs(rows, weights, bias, scores):
    """``scores[i] += tanh(bias + rows[i] @ weights)``."""
    for row in range(len(scores)):
        total = np.float32(0.0)
        for i in range(len(weights)):
            total += rows[row, i] * weights[i]
        scores[row] += tanh(total + bias)


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def _add_matches(tokens, starts, lengths, terms, columns, bias, panels, without_match, rows, products, matched, hidden):
    """Add what the query's words give the first fully connected layer of the local model to ``hidden`` [C + ROWS, H].

    Arguments as in :class:`FusedLocal`; rows [C + ROWS, K], products [C + ROWS, H] and matched [C] are scratch.
    """
    for slot in range(len(terms)):
        found = 0
        for document in range(len(starts)):
            start = starts[document]
            matches = 0
            for position in range(lengths[document]):
                matches += tokens[start + position] == terms[slot]
            matched[document] = matches > 0
            if matches:
                for i in range(len(bias)):
                    rows[found, i] = bias[i]
                for position in range(lengths[document]):
                    if tokens[start + position] == terms[slot]:
                        for i in range(len(bias)):
                            rows[found, i] += columns[position, i]
                found += 1
        tanh_rows(rows, found)
        products[: found + ROWS] = 0.0
        add_products(rows, panels[slot], products, found)
        found = 0
        for document in range(len(starts)):
            if matched[document]:
                for i in range(hidden.shape[1]):
                    hidden[document, i] += products[found, i]
                found += 1
            else:
                for i in range(hidden.shape[1]):
                    hidden[document, i] += without_match[slot, i]


@njit(nogil=True, cache=True)
def _place_words(tokens, starts, lengths, rows, places):
    """The words of documents as rows of the table, and the row of no word behind them: int32 [C, N + width]."""
    for document in range(len(starts)):
        for position in range(lengths[document]):
            places[document, position] = rows[tokens[starts[document] + position]]
        places[document, lengths[document] :] = rows[len(rows) - 1]


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def _represent_windows(positions, width, stride, bias, weights, layer_bias, query, scratch, changed, windows):
    """Turn the maxima of windows, float32 [P, C + ROWS, K], into their representations times the query's, in place.

    scratch float32 [4, K] and changed int64 [K]; positions int64 [C].
    """
    filters = len(weights)
    largest, pooled, here, state = scratch[0], scratch[1], scratch[2], scratch[3]
    for document in range(len(positions)):
        largest[:] = np.nan  # unlike every number: all filters change in the first window
        pooled[:] = 0.0
        state[:] = layer_bias
        for window in range(count_windows(positions[document], width, stride)):
            found = 0
            for i in range(filters):  # written first, counted then: there is no branch to be guessed wrongly
                value = windows[window, document, i]
                here[found] = value + bias[i]
                changed[found] = i
                found += value != largest[i]
                largest[i] = value
            for i in range(found):
                here[i] = tanh(here[i])
            for i in range(found):
                value = here[i]
                here[i] = value - pooled[changed[i]]
                pooled[changed[i]] = value
            _add_rows(here, changed, found, weights, state)
            for i in range(len(query)):
                windows[window, document, i] = tanh(state[i]) * query[i]


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def _add_rows(factors, numbers, count, matrix, target):
    """``target += factors[i] * matrix[numbers[i]]`` for i < count, four rows at a time."""
    whole = count - count % 4
    for i in range(0, whole, 4):
        a, b, c, d = factors[i], factors[i + 1], factors[i + 2], factors[i + 3]
        first, second, third, fourth = numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3]
        for j in range(len(target)):
            target[j] += a * matrix[first, j] + b * matrix[second, j] + c * matrix[third, j] + d * matrix[fourth, j]
    for i in range(whole, count):
        for j in range(len(target)):
            target[j] += factors[i] * matrix[numbers[i], j]


@njit(nogil=True, cache=True)
def _add_windows(windows, panels, positions, width, stride, hidden):
    """Add the first fully connected layer of the distributed model, window by window, to ``hidden`` [C + ROWS, H].

    positions: int64 [C], the most first, so that the documents that have a window are the first ones.
    """
    count = len(positions)
    for window in range(len(panels)):
        while count and count_windows(positions[count - 1], width, stride) <= window:
            count -= 1
        windows[window, count : count + ROWS] = 0.0  # rows are multiplied ROWS at a time: these add nothing
        add_products(windows[window], panels[window], hidden, count)
