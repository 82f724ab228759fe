"""The attribution of KNRM's scores: integrated gradients over the logarithms of the soft counts.

The score is tanh of a weighted sum of the logarithms, so that the integrals have a closed form: the terms of the sum
times one slope. The term of a soft count is divided among its cells in proportion to their counts. The base is a
document without a match.
"""

from __future__ import annotations

import torch

from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.inputs.interactions import cosine_matrix
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.integrated_gradients import in_double, known_words
from rerank_plugin.models.kernel_pooling import kernel_cells, tanh_attribution, without_matches
from rerank_plugin.models.knrm.model import Knrm


def explain(model: Knrm, inputs: Inputs) -> Attribution:
    """The attribution of one document's score; inputs with B = 1."""
    model, inputs = in_double(model, inputs)
    cosines, weights = cosine_matrix(model.vectors, inputs), model.layer.weight[0]  # [1, M, N], [K]
    with torch.no_grad():
        start = model.layer.bias[0] + without_matches(inputs.query_mask, weights)
        cells = kernel_cells(cosines, inputs.document_mask, inputs.query_mask, weights)  # [M, N]
    return tanh_attribution(float(start), cells, known=known_words(model, inputs), matrix=cosines[0].numpy())
