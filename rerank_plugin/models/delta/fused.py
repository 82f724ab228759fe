"""Delta ([D18] 3) as it is served: the same scores as :class:`~rerank_plugin.models.delta.model.Delta`, without its stage.

The first convolution is linear in the rows of the Delta matrix, and a row is ``d - q*`` and three numbers. So what a
word adds to a convolution at each of its taps is ``W_t d - W_t q*`` plus the three numbers times their weights: the
first part is a table over the vocabulary, made once a checkpoint, and the rest is computed once for each distinct word
of the candidates. Difference vectors never exist, and the closest query word is looked for once a distinct word.

The distances are sums of squared differences and not ``|d|^2 + |q|^2 - 2 d.q``: that form is wrong in the fourth digit
where d is close to q, and those are the words that matter.

Letters in shapes: C candidates, N document words, m words of the query, U distinct words, V vocabulary, D dimension,
K filters (padded to a multiple of 16).
"""

from __future__ import annotations

import numpy as np
import torch
from numba import njit

from rerank_plugin.features.inputs import InputBuilder, ModelQuery
from rerank_plugin.features.interactions import candidate_words
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import IndexQuery
from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.convolution import ROWS, leaky_convolution, pad_columns, round_up
from rerank_plugin.kernels.parallel import Workspace, alongside, split
from rerank_plugin.kernels.prefetch import AHEAD, prefetch_row
from rerank_plugin.models.delta.model import DELTA_FEATURES, TINY, Delta
from rerank_plugin.models.fast_paths import FastPath


class FusedDelta(FastPath):
    """Scores candidates as the module does.

    Args:
        model: in eval mode, on the CPU.
        builder: the input builder of the candidates' index.
        threads: how many threads share the words and documents.
    """

    def __init__(self, model: Delta, builder: InputBuilder, threads: int):
        config = model.config
        self.model, self.builder, self.threads, self.config = model, builder, threads, config
        self.workspace = Workspace()
        self.vectors = model.vectors.detach().float().contiguous().numpy()  # [V, D]
        self.norms = model.vectors.detach().float().norm(dim=1).numpy()  # [V]
        convolutions = [
            (layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in model.convolutions
        ]  # weights [filters, inward, width]
        self.taps, self.feature_taps = self._first_taps(convolutions[0][0])
        self.biases = np.stack([pad_columns(bias[None])[0] for _, bias in convolutions])  # [layers, K]
        filters, width, padded = config.filters, config.width, round_up(config.filters)
        self.weights = np.zeros((len(convolutions) - 1, width, padded, padded), np.float32)
        for place, (weight, _) in enumerate(convolutions[1:]):
            self.weights[place, :, :filters, :filters] = weight.transpose(2, 1, 0)
        self.layers = self._dense_layers()
        self.feature_mean, self.feature_scale = model.feature_mean.numpy().copy(), model.feature_scale.numpy().copy()
        self.weights = self.weights.reshape(-1, width * padded, padded)  # [layers - 1, width * K, K]

    def _first_taps(self, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Tables of the first convolution: of the vocabulary [V, width * K], and of the Delta features [3, width * K].

        What an ablation switches off adds nothing.
        """
        taps = weight.transpose(1, 2, 0)  # [rows, width, filters]
        padded = np.zeros((*taps.shape[:2], round_up(taps.shape[2])), np.float32)
        padded[:, :, : taps.shape[2]] = taps
        padded = padded.reshape(len(taps), -1)  # [rows, width * K]
        dimension = self.vectors.shape[1] if self.config.differences else 0
        vocabulary = np.zeros((len(self.vectors), padded.shape[1]), np.float32)
        if dimension:
            vocabulary = (torch.from_numpy(self.vectors) @ torch.from_numpy(padded[:dimension])).numpy()
        features = padded[dimension:] if self.config.delta_features else np.zeros((DELTA_FEATURES, padded.shape[1]))
        return vocabulary, np.ascontiguousarray(features, np.float32)

    def _dense_layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The feed-forward layers as (weights [inward, outward], bias [outward]), outward padded to multiples of 16."""
        layers = []
        for layer in self.model.layers:
            weight = layer.weight.detach().float().numpy().T
            rows = np.zeros((layers[-1][0].shape[1] if layers else len(weight), weight.shape[1]), np.float32)
            rows[: len(weight)] = weight
            layers.append((pad_columns(rows), pad_columns(layer.bias.detach().float().numpy()[None])[0]))
        return layers

    def score(self, terms: IndexQuery, query: ModelQuery, candidates: Candidates) -> np.ndarray:
        """Scores, float32 [C]."""
        config, count = self.config, len(candidates)
        features = alongside(lambda: self.builder.features(terms, candidates), self.threads)  # [C, F]
        words = candidate_words(self.builder, candidates, self.workspace)
        ids = query.ids[query.mask].astype(np.int32)  # [m]
        query_vectors = self.vectors[ids]  # [m, D]
        taps = self.workspace.array("taps", (len(words.ids), self.taps.shape[1]), np.float32)  # [U, width * K]
        inward = config.filters + len(config.lexical_features)
        hidden = self.workspace.array("hidden", (count + ROWS, inward), np.float32)

        def word_taps(start: int, stop: int) -> None:
            _word_taps(
                self.vectors, self.norms, self.taps, self.feature_taps,
                words.ids, ids, query_vectors, taps, start, stop,
            )  # fmt: skip

        def documents(start: int, stop: int) -> None:
            rows = config.document_words + 2 * (config.width // 2) + 2 * ROWS
            buffers = self.workspace.array("rows", (2, rows, self.biases.shape[1]), np.float32)
            _pool_documents(
                taps, words.places, words.lengths, self.weights, self.biases, np.float32(config.slope),
                config.width, config.filters, buffers, hidden, start, stop,
            )  # fmt: skip

        split(word_taps, len(words.ids), self.threads)
        split(documents, count, self.threads, smallest=16)
        hidden[:count, config.filters :] = (features() - self.feature_mean) * self.feature_scale
        return self._feed_forward(hidden, count)

    def _feed_forward(self, hidden: np.ndarray, count: int) -> np.ndarray:
        """The feed-forward layers ([D18] 3.4): float32 [C + ROWS, filters + F] to scores [C]."""
        for place, (weights, bias) in enumerate(self.layers):
            target = self.workspace.array(f"layer {place}", (len(hidden), len(bias)), np.float32)
            leaky_convolution(hidden, weights, bias, np.float32(self.config.slope), target, count, 1)
            hidden = target
        return hidden[:count, 0].copy()


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
def _pool_documents(taps, places, lengths, weights, biases, slope, width, filters, buffers, pooled, start, stop):
    """Convolutions and max-pooling of candidates start..stop: the first ``filters`` columns of rows of ``pooled``.

    Args:
        taps: float32 [U, width * K]. places: int32 [C, N]. lengths: int32 [C].
        weights: float32 [layers - 1, width * K, K]. biases: float32 [layers, K].
        buffers: scratch, float32 [2, N + width - 1 + 2 ROWS, K].
    """
    columns, border = biases.shape[1], width // 2
    buffers[:] = 0.0
    for candidate in range(start, stop):
        length = lengths[candidate]
        if length == 0:
            pooled[candidate, :filters] = 0.0
            continue
        # A layer reads rows [0, length + 2 border) and writes rows [border, border + length): the borders stay zero.
        _first_layer(taps, places, candidate, length, biases, slope, width, buffers)
        source = buffers[0]
        source[border + length : border + length + border + ROWS] = 0.0
        for layer in range(len(weights)):
            target = buffers[(layer + 1) % 2]
            leaky_convolution(source, weights[layer], biases[layer + 1], slope, target[border:], length, width)
            target[border + length : border + length + border + ROWS] = 0.0
            source = target
        for i in range(filters):
            pooled[candidate, i] = source[border, i]
        for position in range(border + 1, border + length):
            for i in range(filters):
                value, best = source[position, i], pooled[candidate, i]
                pooled[candidate, i] = value if value > best or value != value else best  # NaN stays NaN


@njit(nogil=True, inline="always")
def _first_layer(taps, places, candidate, length, biases, slope, width, buffers):
    """The first convolution of one document, into rows [border, border + length) of ``buffers[0]``."""
    columns, border = biases.shape[1], width // 2
    for position in range(length):
        row = border + position
        if width == 3 and 0 < position < length - 1:  # the paper's width, in one pass
            before, after = places[candidate, position - 1], places[candidate, position + 1]
            here = places[candidate, position]
            for i in range(columns):
                value = biases[0, i] + taps[before, i] + taps[here, columns + i] + taps[after, 2 * columns + i]
                buffers[0, row, i] = value if value > 0 else value * slope
            continue
        for i in range(columns):
            buffers[0, row, i] = biases[0, i]
        for tap in range(max(0, border - position), min(width, length + border - position)):
            word, column = places[candidate, position + tap - border], tap * columns
            for i in range(columns):
                buffers[0, row, i] += taps[word, column + i]
        for i in range(columns):
            value = buffers[0, row, i]
            buffers[0, row, i] = value if value > 0 else value * slope
