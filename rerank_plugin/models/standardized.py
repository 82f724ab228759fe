"""The base class of models with lexical features, which standardizes them to zero mean and unit variance."""

from __future__ import annotations

import torch
from torch import Tensor

from rerank_plugin.models.ranking_model import RankingModel

SMALLEST_DEVIATION = 1e-6  # a feature that hardly varies is not blown up


class StandardizedFeatures(RankingModel):
    """A model that standardizes its lexical features by statistics of the training data, saved with its weights.

    Args:
        count: number of features, F.
    """

    def __init__(self, count: int):
        super().__init__()
        self.register_buffer("feature_mean", torch.zeros(count))
        self.register_buffer("feature_scale", torch.ones(count))

    def set_feature_statistics(self, mean: Tensor, deviation: Tensor) -> None:
        """Set mean and standard deviation of the lexical features over the training data, float [F] each."""
        self.feature_mean.copy_(mean)
        self.feature_scale.copy_(torch.where(deviation > 0, 1 / deviation.clamp_min(SMALLEST_DEVIATION), 1.0))

    def standardized(self, features: Tensor) -> Tensor:
        """Raw features, float [B, F], at zero mean and unit variance."""
        return (features - self.feature_mean) * self.feature_scale
