"""What KNRM's score of a document is made of: integrated gradients over the logarithms of the soft counts.

The score is tanh of a weighted sum of these, so that the integrals have a closed form: everything adds to the sum, and
is multiplied by one slope. What a count adds is shared by its cells in proportion to what they count. The base is a
document without a match.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.inputs.interactions import cosine_matrix
from rerank_plugin.models.attribution import Attribution, of_cells
from rerank_plugin.models.integrated_gradients import in_double, known_words
from rerank_plugin.models.knrm.model import LOG_SCALE, SMALLEST_COUNT, Knrm, soft_counts

SMALLEST_CHANGE = 1e-12  # below it the slope between two points is the derivative


def explain(model: Knrm, inputs: Inputs) -> Attribution:
    """The attribution of one document's score; inputs with B = 1."""
    model, inputs = in_double(model, inputs)
    cosines, weights = cosine_matrix(model.vectors, inputs), model.layer.weight[0]  # [1, M, N], [K]
    with torch.no_grad():
        start = model.layer.bias[0] + without_matches(inputs.query_mask, weights)
        cells = kernel_cells(cosines, inputs.document_mask, inputs.query_mask, weights)  # [M, N]
    return of_tanh(float(start), cells, known=known_words(model, inputs), matrix=cosines[0].numpy())


def without_matches(query_mask: Tensor, weights: Tensor) -> Tensor:
    """What kernels that count nothing add to the sum before tanh, a scalar; bool [1, M] and float [K]."""
    return query_mask.sum() * weights.sum() * np.log(SMALLEST_COUNT) * LOG_SCALE


def kernel_cells(similarities: Tensor, document_mask: Tensor, query_mask: Tensor, weights: Tensor) -> Tensor:
    """What each cell adds to the sum before tanh, float [M, N]; what `soft_counts` takes with B = 1, and float [K]."""
    counts = soft_counts(similarities, document_mask)[0].clamp_min(SMALLEST_COUNT)  # [M, K]
    gained = (counts.log() - np.log(SMALLEST_COUNT)) * LOG_SCALE * query_mask[0, :, None]  # [M, K]
    single = similarities.flatten(1)[:, :, None]  # [1, M * N, 1]: the count of each cell alone
    closeness = soft_counts(single, torch.ones_like(document_mask[:, :1])).view(
        *similarities.shape[1:], -1
    )  # [M, N, K]
    shares = closeness * document_mask[0, :, None] / counts[:, None, :]  # [M, N, K]
    return (shares * (gained * weights)[:, None, :]).sum(dim=2)


def of_tanh(start: float, cells: Tensor, **more) -> Attribution:
    """The attribution of tanh of ``start`` and all cells, float64 [M, N]; ``more`` are other attributes."""
    change = float(cells.sum())
    slope = (
        (np.tanh(start + change) - np.tanh(start)) / change
        if abs(change) > SMALLEST_CHANGE
        else 1 - np.tanh(start) ** 2
    )
    return of_cells(float(np.tanh(start)), cells.numpy() * slope, exact=True, **more)
