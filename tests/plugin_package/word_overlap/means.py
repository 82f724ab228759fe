"""The inner product of the weighted means of two texts' word vectors: a model that encodes documents."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from rerank_plugin.models.base import ModelConfig
from rerank_plugin.models.fast_paths import InnerProductScorer
from rerank_plugin.models.ranking_model import EncodingModel


@dataclass(frozen=True)
class MeansConfig(ModelConfig):
    document_words: int = 50
    query_words: int = 7
    lexical_features: tuple[str, ...] = ()


class Means(EncodingModel):
    name = "mean-vectors"
    any_width = True
    largest_score = torch.ones(())

    def __init__(self, config, vectors):
        super().__init__()
        self.config = config
        self.register_buffer("vectors", vectors, persistent=False)
        self.weights = nn.Parameter(torch.ones(vectors.shape[1]))

    @property
    def encoding_size(self):
        return len(self.weights)

    def encode_documents(self, ids, mask, concept_ids=None, concept_mask=None):
        return functional.normalize((self.vectors[ids] * mask[..., None]).sum(dim=1) * self.weights, dim=1)  # [B, D]

    encode_queries = encode_documents

    def forward(self, inputs):
        queries = self.encode_queries(inputs.queries, inputs.query_mask)  # [B, D]
        return (queries * self.encode_documents(inputs.documents, inputs.document_mask)).sum(dim=1)  # [B]


class MeansScorer(InnerProductScorer):
    def __init__(self, config, arrays, builder, threads):
        super().__init__(config, arrays, builder, threads)
        self.vectors, self.weights = arrays["vectors"], arrays["weights"]

    @property
    def factors(self):
        return np.ones(len(self.weights), np.float32)

    def encode(self, terms, query):
        total = self.vectors[query.ids[query.mask]].sum(axis=0) * self.weights
        return total / max(np.linalg.norm(total), np.float32(1e-12))
