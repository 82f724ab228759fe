"""KNRM (Xiong, Dai, Callan, Liu, Power: End-to-End Neural Ad-hoc Ranking with Kernel Pooling, SIGIR 2017, section 3).

Eleven Gaussian kernels count the cosines of query and document words softly: a kernel counts the document words that
are about as similar to a query word as the kernel's mean, and one kernel counts exact matches. The logarithms of these
counts ('soft-TF'), summed over the query, are 11 features; a linear layer and tanh compute the score. KNRM is a
baseline of [K] (table 1).

In shapes K are the kernels.

Where the paper is silent, or this model deviates:

* The paper trains the word vectors, on some 100,000 queries with clicks. Here ``trained_words`` does; without it 12
  weights are trained.
* The logarithm of a count: as in the authors' program, counts are at least 1e-10 and logarithms are multiplied by 0.01,
  so that a kernel without a match has the value -0.23 and does not dominate the others.
* Padding is not counted, and a padded query word is in no sum. (The kernels around 0 would count a cosine of 0 as a
  good match.)
* The similarity of a word to itself is 1, known or not, and that of an unknown word to any other is 0
  (:mod:`rerank_plugin.inputs.interactions`).
* A document without words has no match in any kernel; the score of a query without words is that of the bias.
* tanh is kept, although it does not change the order: beyond 9 it is 1 in float32, so large weights tie documents. The
  initial weights of torch's linear layer (up to 0.3) stay far below: a query word changes a feature by at most 0.3,
  from no match to 200.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.inputs.interactions import cosine_matrix
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.base import ModelConfig
from rerank_plugin.models.baselines.kernel_pooling import (
    KERNELS,
    kernel_cells,
    kernel_features,
    soft_counts,
    tanh_attribution,
    without_matches,
)
from rerank_plugin.models.integrated_gradients import in_double, known_words
from rerank_plugin.models.interaction import InteractionModel


@dataclass(frozen=True)
class KnrmConfig(ModelConfig):
    """Hyper-parameters."""

    document_words: int = 200
    query_words: int = 16
    lexical_features: tuple[str, ...] = ()
    trained_words: bool = False
    later = ("trained_words",)

    def __post_init__(self) -> None:
        self.check("KNRM")


class Knrm(InteractionModel[KnrmConfig]):
    """KNRM as a module over fixed word vectors."""

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


def explain(model: Knrm, inputs: Inputs) -> Attribution:
    """The attribution of KNRM's scores: integrated gradients over the logarithms of the soft counts.

    The score is tanh of a weighted sum of the logarithms, so that the integrals have a closed form: the terms of the
    sum times one slope. The term of a soft count is divided among its cells in proportion to their counts. The base is
    a document without a match.

    Args:
        inputs: of one document; B is 1.
    """
    model, inputs = in_double(model, inputs)
    cosines, weights = cosine_matrix(model.vectors, inputs), model.layer.weight[0]  # [1, M, N], [K]
    with torch.no_grad():
        start = model.layer.bias[0] + without_matches(inputs.query_mask, weights)
        cells = kernel_cells(cosines, inputs.document_mask, inputs.query_mask, weights)  # [M, N]
    return tanh_attribution(float(start), cells, known=known_words(model, inputs), matrix=cosines[0].numpy())
