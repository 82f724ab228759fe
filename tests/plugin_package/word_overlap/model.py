"""Each query word's largest cosine with a word of the document, summed by a weight of the place in the query."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.inputs.interactions import cosine_matrix
from rerank_plugin.models.base import ModelConfig
from rerank_plugin.models.ranking_model import RankingModel


@dataclass(frozen=True)
class OverlapConfig(ModelConfig):
    document_words: int = 50
    query_words: int = 7
    lexical_features: tuple[str, ...] = ()


class Overlap(RankingModel):
    name = "word-overlap"
    any_width = True

    def __init__(self, config: OverlapConfig, vectors: Tensor):
        super().__init__()
        self.config = config
        self.register_buffer("vectors", vectors, persistent=False)
        self.weights = nn.Parameter(torch.ones(config.query_words))

    def forward(self, inputs: Inputs) -> Tensor:
        cosines = cosine_matrix(self.vectors, inputs)  # [B, M, N]
        best = cosines.masked_fill(~inputs.document_mask[:, None, :], -1.0).amax(dim=2)  # [B, M]
        return (best.masked_fill(~inputs.query_mask, 0.0) * self.weights).sum(dim=1)  # [B]
