"""SevMos ([D18] 4.3.3) as it is served from stored encodings: the query's convolutions once, then the joined layers.

What depends on the query alone is computed once a query: x_q, its product with M (after which the similarity is one
inner product), and what x_q adds to the first feed-forward layer, as a bias of it. A candidate's row is then
``[sim, x_d, lexical features]``. In shapes w is the width of a convolution and H the outputs of the first feed-forward
layer, padded; K is not padded here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import IndexQuery
from rerank_plugin.inputs.builder import InputBuilder, ModelQuery
from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.compiling import njit
from rerank_plugin.kernels.dense_layers import ROWS, DenseLayers, dense, pack_convolution, pad_vector, round_up
from rerank_plugin.kernels.parallel import split
from rerank_plugin.models.baselines.sevmos import SevMosConfig
from rerank_plugin.models.fast_paths import EncodingScorer

if TYPE_CHECKING:
    from rerank_plugin.indexes.vector_store import VectorStore


class SevMosScorer(EncodingScorer[SevMosConfig]):
    """Scores candidates from their encodings as the module does from their words."""

    def __init__(self, config: SevMosConfig, arrays: Mapping[str, np.ndarray], builder: InputBuilder, threads: int):
        super().__init__(config, arrays, builder, threads)
        self.slope = np.float32(config.slope)
        self.vectors = arrays["vectors"]  # [V, D]
        self.convolutions: list[tuple[np.ndarray, np.ndarray]] = []
        for at in range(config.convolutions):
            weight = arrays[f"query_convolutions.{at}.weight"]  # [filters, inward, w]
            inward = round_up(weight.shape[1]) if self.convolutions else weight.shape[1]
            packed = pack_convolution(weight, inward), pad_vector(arrays[f"query_convolutions.{at}.bias"])
            self.convolutions.append(packed)
        self._join_layers(arrays)
        self.feature_mean, self.feature_scale = arrays["feature_mean"].copy(), arrays["feature_scale"].copy()

    @property
    def widths(self) -> tuple[int]:
        return (self.config.filters,)

    def _join_layers(self, arrays: Mapping[str, np.ndarray]) -> None:
        """The feed-forward layers, the first one without its query columns, which go beside M: [K, K + H]."""
        assert self.config.hidden is not None, "the configuration sets it"
        filters, count = self.config.filters, len(self.config.hidden) + 1
        layers = [(arrays[f"layers.{at}.weight"], arrays[f"layers.{at}.bias"]) for at in range(count)]
        weight, bias = layers[0]  # [outward, inward], [outward]
        self.query_weights = np.zeros((filters, filters + round_up(len(bias))), np.float32)
        self.query_weights[:, :filters] = arrays["similarity"]
        self.query_weights[:, filters : filters + len(bias)] = weight[:, :filters].T
        self.query_bias = np.concatenate([np.zeros(filters, np.float32), pad_vector(bias)])
        self.joined = weight.shape[1] - filters  # numbers of a candidate's row
        self.layers = DenseLayers([(weight[:, filters:], bias), *layers[1:]], self.slope)

    def score(self, terms: IndexQuery, query: ModelQuery, candidates: Candidates, store: VectorStore) -> np.ndarray:
        filters, count = self.config.filters, len(candidates)
        folded = _fold(self.encode_query(query.ids[query.mask]), self.query_weights, self.query_bias)  # [K + H]
        compared, bias = folded[:filters], folded[filters:]
        vectors = store.decode(candidates.rows)  # [C, K]
        features = self.builder.features(terms, candidates)  # [C, F]
        scores = np.empty(count, np.float32)

        def documents(start: int, stop: int) -> None:
            source = self.workspace.array("joined", (stop - start + ROWS, self.joined), np.float32)
            _join(vectors, compared, features, self.feature_mean, self.feature_scale, source, start, stop)
            scores[start:stop] = self.layers.outputs(source, stop - start, self.workspace, bias)

        split(documents, count, self.threads)
        return scores

    def encode_query(self, ids: np.ndarray) -> np.ndarray:
        """x_q of a query's ids int64 [m], float32 [K]; zeros without words."""
        if not len(ids):
            return np.zeros(self.config.filters, np.float32)
        assert self.config.width is not None, "the configuration sets it"
        border, length = self.config.width - 1, len(ids)
        source = self.workspace.array("words", (length + 2 * border + 2 * ROWS, self.vectors.shape[1]), np.float32)
        source[:] = 0.0
        source[border : border + length] = self.vectors[ids]
        for place, (panels, bias) in enumerate(self.convolutions):
            length += border
            rows = length + 2 * border + 2 * ROWS
            target = self.workspace.array(f"convolution {place % 2}", (rows, len(bias)), np.float32)
            target[:border] = 0.0
            dense(source, panels, bias, self.slope, target[border:], length)
            target[border + length :] = 0.0
            source = target
        return source[border : border + length].max(axis=0)[: self.config.filters]


@njit(nogil=True, cache=True)
def _fold(encoded, weights, bias):
    """``bias + encoded @ weights``, float32 [K + H]."""
    sums = bias.copy()
    for i in range(len(encoded)):
        for j in range(len(sums)):
            sums[j] += encoded[i] * weights[i, j]
    return sums


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def _join(vectors, compared, features, mean, scale, joined, start, stop):
    """Rows ``[sim, x_d, normalized features]`` of candidates start..stop, float32 [stop - start or more, 1 + K + F]."""
    filters = len(compared)
    for candidate in range(start, stop):
        into = candidate - start
        similarity = np.float32(0.0)
        for i in range(filters):
            value = vectors[candidate, i]
            similarity += compared[i] * value
            joined[into, 1 + i] = value
        joined[into, 0] = similarity
        for i in range(len(mean)):
            joined[into, 1 + filters + i] = (features[candidate, i] - mean[i]) * scale[i]
