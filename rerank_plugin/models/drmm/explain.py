"""The attribution of DRMM's scores: integrated gradients over the count of each word in the histograms."""

from __future__ import annotations

from torch import Tensor

from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.inputs.interactions import cosine_matrix
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.drmm.model import Drmm
from rerank_plugin.models.integrated_gradients import in_double, interaction_attribution


def explain(model: Drmm, inputs: Inputs) -> Attribution:
    """The attribution of one document's score; inputs with B = 1."""
    bins, gates = model.interaction(inputs), model.gates(inputs).double()  # [1, M, N], [1, M]
    model, inputs = in_double(model, inputs)
    mask = inputs.document_mask[:, None, :]  # [1, 1, N]

    def score(cells: Tensor) -> Tensor:
        return model.score_bins(bins.expand(cells.shape), cells * mask, gates)  # [S]

    return interaction_attribution(model, inputs, score, cosine_matrix(model.vectors, inputs))
