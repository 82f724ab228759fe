"""KTRel ([K]) from stored encodings: encodes the query, whose inner products with candidates are the scores.

A query has few words and concepts, so its layers take as long as reading their weights; the calls of a framework would
take longer than the arithmetic. In shapes m are the items of the query and E the numbers of an encoding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rerank_plugin.indexes.forward import IndexQuery
from rerank_plugin.inputs.builder import InputBuilder, ModelQuery
from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.compiling import njit
from rerank_plugin.kernels.dense_layers import LINEAR, RELU, ROWS, dense, pack_panels, pad_vector
from rerank_plugin.kernels.parallel import Workspace, split
from rerank_plugin.models.fast_paths import InnerProductScorer
from rerank_plugin.models.ktrel.config import KtrelConfig
from rerank_plugin.text.word_vectors import EmbeddingTable

SMALLEST_NORM = 1e-12  # torch.nn.functional.normalize's
EPSILON = 1e-5  # torch.nn.LayerNorm's


class KtrelScorer(InnerProductScorer[KtrelConfig]):
    """Scores candidates from their encodings as the module does from their words and concepts."""

    decodes = False

    def __init__(self, config: KtrelConfig, arrays: Mapping[str, Any], builder: InputBuilder, threads: int):
        super().__init__(config, arrays, builder, threads)
        self.encoders = [
            (float(arrays[factor]), FusedEncoder(config, arrays, part))
            for part, factor in (("words", "a"), ("concepts", "b"))
            if factor in arrays
        ]

    @property
    def widths(self) -> list[int]:
        return [encoder.dimension // len(encoder.lengths) for _, encoder in self.encoders for _ in encoder.lengths]

    @property
    def factors(self) -> np.ndarray:
        return np.concatenate([np.full(encoder.dimension, factor, np.float32) for factor, encoder in self.encoders])

    def encode(self, terms: IndexQuery, query: ModelQuery) -> np.ndarray:
        sequences = [query.ids[query.mask]] if self.config.reads_words else []  # int64 [m] each
        if query.concepts is not None:
            sequences.append(query.concepts[query.concept_mask])
        encoded = [np.zeros(0)] * len(self.encoders)

        def parts(start: int, stop: int) -> None:
            for place in range(start, stop):
                factor, encoder = self.encoders[place]
                encoded[place] = factor * encoder.encode(sequences[place])

        split(parts, len(encoded), self.threads, smallest=1)
        return np.concatenate(encoded).astype(np.float32)


class FusedEncoder:
    """One part of KTRel, ``words`` or ``concepts``, for one sequence: the same unit vector as the module's."""

    def __init__(self, config: KtrelConfig, arrays: Mapping[str, Any], part: str):
        self.embeddings = EmbeddingTable.of(arrays[f"{part}.embeddings"])  # [V, D]
        self.dimension = self.embeddings.numbers.shape[1]
        self.lengths = np.array(config.lengths)[:, None]  # [S, 1]
        self.has_layer, self.heads = config.layers > 0, config.heads
        if not self.has_layer:
            return
        layer = f"{part}.layer"
        self.layers = tuple(
            (pack_panels(arrays[f"{layer}.{name}weight"].T), pad_vector(arrays[f"{layer}.{name}bias"]))
            for name in ("self_attn.in_proj_", "self_attn.out_proj.", "linear1.", "linear2.")
        )
        norms = [[arrays[f"{layer}.{norm}.{one}"] for one in ("weight", "bias")] for norm in ("norm1", "norm2")]
        self.norms = np.array(norms)  # [2, 2, D]
        self.workspace = Workspace()

    def encode(self, ids: np.ndarray) -> np.ndarray:
        """The vector of a sequence of ids int64 [m], float64 [D]; zeros for no ids."""
        dimension, count = self.dimension, len(ids)
        if not count:
            return np.zeros(dimension)
        embeddings = self.embeddings.take(ids)  # [m, D]
        if not self.has_layer:
            return _scaled_to(self.lengths, embeddings.astype(np.float64).sum(axis=0))
        widths = [dimension, *(len(bias) for _, bias in self.layers)]
        total = (count + 2 * ROWS) * (sum(widths) + dimension) + count
        scratch = self.workspace.array("scratch", (total,), np.float32)
        found = np.zeros(dimension)
        _encode(embeddings, self.heads, self.layers, self.norms, EPSILON, scratch, found)
        return _scaled_to(self.lengths, found)


def _scaled_to(lengths: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """A vector float64 [D] scaled to the lengths [S, 1] in its equal spaces, like torch's ``normalize``."""
    parts = vector.reshape(len(lengths), -1)
    norms = np.sqrt(np.sum(parts * parts, axis=1, keepdims=True))  # [S, 1]
    return (lengths * (parts / np.maximum(norms, SMALLEST_NORM))).ravel()


@njit(nogil=True, cache=True)
def _rows(scratch, start, rows, width):
    """The next [rows, width] numbers of the scratch, and the start of the rest."""
    stop = start + rows * width
    return scratch[start:stop].reshape(rows, width), stop


@njit(nogil=True, cache=True)
def _encode(embeddings, heads, layers, norms, epsilon, scratch, total):
    """Add the sum over a sequence of the layer's outputs to ``total``, float64 [D].

    embeddings: of the sequence, float32 [m, D].
    layers: (panels, bias) of the attention's projections inward and outward, and of the feed-forward network's two.
    norms: float32 [2, 2, D], weight and bias of each normalization.
    """
    count, dimension = embeddings.shape
    rows = count + 2 * ROWS
    items, start = _rows(scratch, 0, rows, dimension)
    attended, start = _rows(scratch, start, rows, dimension)
    projected, start = _rows(scratch, start, rows, len(layers[0][1]))
    mixed, start = _rows(scratch, start, rows, len(layers[1][1]))
    inner, start = _rows(scratch, start, rows, len(layers[2][1]))
    outer, start = _rows(scratch, start, rows, len(layers[3][1]))
    for i in range(count):
        for j in range(dimension):
            items[i, j] = embeddings[i, j]
    dense(items, layers[0][0], layers[0][1], LINEAR, projected, count)
    _attend(projected, heads, dimension, attended, scratch[start : start + count], count)
    dense(attended, layers[1][0], layers[1][1], LINEAR, mixed, count)
    _add_and_normalize(items, mixed, norms[0], epsilon, count)
    dense(items, layers[2][0], layers[2][1], RELU, inner, count)
    dense(inner, layers[3][0], layers[3][1], LINEAR, outer, count)
    _add_and_normalize(items, outer, norms[1], epsilon, count)
    for i in range(count):
        for j in range(dimension):
            total[j] += items[i, j]


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def _attend(projected, heads, dimension, attended, weights, count):
    """Scaled dot-product attention of every head; ``projected`` is [m, D queries + D keys + D values + padding]."""
    width = dimension // heads
    scale = np.float32(1.0 / math.sqrt(width))
    for head in range(heads):
        query, key, value = head * width, dimension + head * width, 2 * dimension + head * width
        for i in range(count):
            largest = np.float32(-np.inf)
            for k in range(count):
                product = np.float32(0.0)
                for j in range(width):
                    product += projected[i, query + j] * projected[k, key + j]
                weights[k] = product * scale
                largest = max(largest, weights[k])
            mass = np.float32(0.0)
            for k in range(count):
                weights[k] = math.exp(weights[k] - largest)
                mass += weights[k]
            for j in range(width):
                attended[i, query + j] = 0.0
            for k in range(count):
                weight = weights[k] / mass
                for j in range(width):
                    attended[i, query + j] += weight * projected[k, value + j]


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def _add_and_normalize(items, addends, norm, epsilon, count):
    """``items = norm(items + addends)``, the layer normalization of each row; ``addends`` may be wider."""
    dimension = items.shape[1]
    for i in range(count):
        mean = np.float32(0.0)
        for j in range(dimension):
            items[i, j] += addends[i, j]
            mean += items[i, j]
        mean /= np.float32(dimension)
        variance = np.float32(0.0)
        for j in range(dimension):
            difference = items[i, j] - mean
            variance += difference * difference
        scale = np.float32(1.0 / math.sqrt(variance / np.float32(dimension) + epsilon))
        for j in range(dimension):
            items[i, j] = (items[i, j] - mean) * scale * norm[0, j] + norm[1, j]
