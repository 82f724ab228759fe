"""KNRM (Xiong, Dai, Callan, Liu, Power: End-to-End Neural Ad-hoc Ranking with Kernel Pooling, SIGIR 2017, section 3).

The cosines of all query and document words are counted softly: each of 11 Gaussian kernels says how many words of a
document are about as similar to a query word as the kernel's mean, one of them how many are the word itself. The
logarithms of these counts ('soft-TF'), added up over the query, are 11 features; a linear layer and tanh make the score
of them. It is a baseline of [K] (table 1).

In shapes K are the kernels.

Where the paper is silent, or we depart from it:

* The paper trains the word vectors, on some 100,000 queries with clicks. Ours are fixed: what is learned is 12 numbers.
* The logarithm of a count: as the authors' program has it, counts are at least 1e-10 and logarithms are multiplied by
  0.01, so that a kernel without any match weighs -0.23 and does not drown the others.
* Padding is no word: it is in no count, and a padded query word in no sum. (A cosine of 0 that passes through the
  kernels would be a good match for those around 0.)
* A word is similar to itself with 1, known or not, and an unknown word to any other with 0
  (:mod:`rerank_plugin.inputs.interactions`).
* A document without words has no matches in any kernel, a query without words the score of the bias alone.
* tanh is kept, although it orders nothing: beyond 9 it is 1 in float32, so weights that are trained far enough put
  documents on a tie. A linear layer as torch begins it (up to 0.3) stays far from there: one query word moves a feature
  by 0.3 at most, from no match to 200.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.inputs.interactions import cosine_matrix
from rerank_plugin.models.base import ModelConfig
from rerank_plugin.models.interaction import InteractionModel
from rerank_plugin.models.kernel_pooling import KERNELS, kernel_features, soft_counts


@dataclass(frozen=True)
class KnrmConfig(ModelConfig):
    """Hyper-parameters."""

    document_words: int = 200
    query_words: int = 16
    lexical_features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.check("KNRM")


class Knrm(InteractionModel[KnrmConfig]):
    """KNRM as a module over word vectors that are not trained."""

    name = "knrm"
    by_length = True
    matches_unknown_words = True

    def __init__(self, config: KnrmConfig, vectors: Tensor):
        super().__init__(config, vectors)
        self.layer = nn.Linear(KERNELS, 1)

    def interaction(self, inputs: Inputs) -> Tensor:
        return cosine_matrix(self.vectors, inputs)  # [B, M, N]

    def score(self, matrix: Tensor, inputs: Inputs) -> Tensor:
        counts = soft_counts(matrix, inputs.document_mask)  # [B, M, K]
        features = kernel_features(counts, inputs.query_mask)  # [B, K]
        return torch.tanh(self.layer(features)[:, 0])  # [B]
