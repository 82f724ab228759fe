"""Delta ([D18] sections 3 and 4.2): differences between document words and their closest query words.

The Delta stage, which has no parameters, turns a query and a document into one row per document word: the difference to
the closest query word (Euclidean distance), and three features of the two: cosine, distance and proximity. Three
convolutions over the rows are max-pooled over the document; three feed-forward layers compute the score from the pooled
values and the lexical features. The word vectors are fixed.

Where the paper is silent:

* Widths of the hidden feed-forward layers: ``hidden``, by default (K + F, K).
* Equal distances: the first query word counts as the closest.
* Zero vectors: cosine 0; proximity 0 when both are zero.
* A document without words pools to zeros; its lexical features still count.
* Lexical features are brought to zero mean and unit variance with the training data's statistics, which are saved with
  the weights: BM25 and the shares differ by an order of magnitude, and L2 and Adagrad would see only BM25.
* 'Masked to ignore padding' in a convolution: padded rows are zero before every layer, so the end of a document looks
  the same with and without padding.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.delta.config import DELTA_FEATURES, DeltaConfig
from rerank_plugin.models.delta_stage import closest_words, delta_stage
from rerank_plugin.models.integrated_gradients import in_double, of_words
from rerank_plugin.models.ranking_model import StandardizedFeatures, convolution_layers, linear_layers


class Delta(StandardizedFeatures[DeltaConfig]):
    """Delta as a module over fixed word vectors ([D18] 3)."""

    name = "delta"
    any_width = True

    def __init__(self, config: DeltaConfig, vectors: Tensor):
        super().__init__(config, vectors)
        rows = vectors.shape[1] * config.differences + DELTA_FEATURES * config.delta_features
        self.convolutions = convolution_layers(rows, config, config.width // 2)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = linear_layers(*config.layer_widths)

    def kept_columns(self, matrix: Tensor) -> Tensor:
        """The Delta matrix [B, N, D + 3] without the columns that an ablation switches off."""
        if not self.config.differences:
            return matrix[..., -DELTA_FEATURES:]
        return matrix if self.config.delta_features else matrix[..., :-DELTA_FEATURES]

    def convolve(self, rows: Tensor, mask: Tensor) -> Tensor:
        """Convolutions and masked max-pooling ([D18] 3.3): float [B, N, rows] and bool [B, N] to float [B, K]."""
        return self.pool(self.convolutions[0](rows.transpose(1, 2)), mask)  # [B, K, N] to [B, K]

    def pool(self, sums: Tensor, mask: Tensor) -> Tensor:
        """Max-pooling from the sums of the first convolution on: float [B, K, N] and bool [B, N] to float [B, K]."""
        pooled = self.filter_values(sums, mask).amax(dim=2)  # [B, K]
        return torch.where(mask.any(dim=1, keepdim=True), pooled, 0.0)

    def filter_values(self, sums: Tensor, mask: Tensor) -> Tensor:
        """The values of the last convolution's filters before pooling, -infinity where padded; float [B, K, N]."""
        present = mask[:, None, :]  # [B, 1, N]
        features = functional.leaky_relu(sums, self.config.slope) * present  # [B, K, N]
        for convolution in self.convolutions[1:]:
            features = functional.leaky_relu(convolution(features), self.config.slope) * present  # [B, K, N]
        return self.dropout(features).masked_fill(~present, -torch.inf)

    def combine(self, pooled: Tensor, features: Tensor) -> Tensor:
        """The feed-forward layers ([D18] 3.4): float [B, K] and lexical features [B, F] to scores [B]."""
        features = self.standardized(features)  # [B, F]
        hidden = torch.cat([pooled, features], dim=1)  # [B, K + F]
        for layer in self.layers:
            hidden = functional.leaky_relu(layer(hidden), self.config.slope)  # [B, width of the layer]
        return hidden[:, 0]  # [B]

    def forward(self, inputs: Inputs) -> Tensor:
        documents, queries = self.vectors[inputs.documents], self.vectors[inputs.queries]  # [B, N, D], [B, M, D]
        matrix = delta_stage(documents, inputs.document_mask, queries, inputs.query_mask)  # [B, N, D + 3]
        pooled = self.convolve(self.kept_columns(matrix), inputs.document_mask)  # [B, K]
        return self.combine(pooled, inputs.features)  # [B]


ROW_PARTS = ("difference", "cosine", "distance", "proximity")


def explain(model: Delta, inputs: Inputs) -> Attribution:
    """The attribution of Delta's scores: integrated gradients over the Delta matrix and the lexical features.

    The row of a document word has four inputs: the difference to the closest query word, and the three Delta features.
    The baseline of a row is zeros; that of a lexical feature is its mean in the training data.

    Args:
        inputs: of one document; B is 1.
    """
    model, inputs = in_double(model, inputs)
    documents, queries = model.vectors[inputs.documents], model.vectors[inputs.queries]  # [1, N, D], [1, M, D]
    mask = inputs.document_mask  # [1, N]
    stage = delta_stage(documents, mask, queries, inputs.query_mask)  # [1, N, D + 3]
    rows = model.kept_columns(stage)  # [1, N, rows]
    parts = torch.arange(rows.shape[2]) - (rows.shape[2] - DELTA_FEATURES - 1)  # of each column of a row, [rows]
    parts = parts.clamp_min(0) if model.config.delta_features else torch.zeros_like(parts)

    def score(words: Tensor, features: Tensor) -> Tensor:
        """words [S, N, 4], features [S, F]."""
        pooled = model.convolve(rows * words[..., parts], mask.expand(len(words), -1))  # [S, K]
        return model.combine(pooled, features)  # [S]

    cosines = functional.normalize(queries[0], dim=1) @ functional.normalize(documents[0], dim=1).T  # [M, N]
    closest = closest_words(documents, queries, inputs.query_mask)[0].numpy()  # [N]
    attribution = of_words(model, inputs, score, (len(ROW_PARTS),), matrix=cosines.numpy(), closest=closest)
    words = attribution.words  # [N, 4]
    assert words is not None
    details = _details(model, inputs, rows, stage, words)
    return replace(attribution, words=words.sum(axis=1), details=details)


def _details(model: Delta, inputs: Inputs, rows: Tensor, stage: Tensor, words: np.ndarray) -> list[dict[str, Any]]:
    """The details of each document word: Delta features, contributions of the inputs, and filters with their maximum
    at this word."""
    values = model.filter_values(model.convolutions[0](rows.transpose(1, 2)), inputs.document_mask)[0]  # [K, N]
    maxima, positions = (tensor.tolist() for tensor in values.max(dim=1))  # [K] each
    filters = [
        {str(filter): maxima[filter] for filter, position in enumerate(positions) if position == word}
        for word in range(len(words))
    ]
    features = stage[0, :, -DELTA_FEATURES:].tolist()  # [N, 3]
    return [
        dict(zip(ROW_PARTS[1:], word_features))
        | {"added": dict(zip(ROW_PARTS, contributions)), "filters": word_filters}
        for word_features, contributions, word_filters in zip(features, words.tolist(), filters)
    ]
