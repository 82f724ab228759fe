"""Scores of an encoder of texts: the inner product of a query's vector with stored ones."""

import math

import numpy as np

from rerank_plugin.features.inputs import InputBuilder, ModelQuery
from rerank_plugin.indexes.forward import IndexQuery
from rerank_plugin.models.encoder.model import Encoder
from rerank_plugin.models.fast_paths import InnerProductScorer


class EncoderScorer(InnerProductScorer):
    """Encodes queries with the module, and scores candidates by their vectors."""

    def __init__(self, model: Encoder, builder: InputBuilder, threads: int):
        super().__init__(model, builder, threads)
        self.model = model

    @property
    def longest_encoding(self) -> float:
        """1 up to rounding, or infinity where the encoder does not normalize."""
        return 1.001 if self.model.normalizes else math.inf

    @property
    def factors(self) -> np.ndarray:
        return np.ones(self.model.encoding_size, np.float32)

    def encode(self, terms: IndexQuery, query: ModelQuery) -> np.ndarray:
        return self.model.encode_query(terms.text)
