"""The attribution of Delta's scores: integrated gradients over the Delta matrix and the lexical features.

The row of a document word has four inputs: the difference to the closest query word, and the three Delta features. The
baseline of a row is zeros; that of a lexical feature is its mean in the training data.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.delta.config import DELTA_FEATURES
from rerank_plugin.models.delta.model import Delta
from rerank_plugin.models.delta_stage import closest_words, delta_stage
from rerank_plugin.models.integrated_gradients import in_double, of_words

ROW_PARTS = ("difference", "cosine", "distance", "proximity")


def explain(model: Delta, inputs: Inputs) -> Attribution:
    """The attribution of one document's score; inputs with B = 1."""
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
