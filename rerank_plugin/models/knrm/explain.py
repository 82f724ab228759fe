"""What KNRM's score of a document is made of: integrated gradients over how much each cell of the matrix counts."""

from __future__ import annotations

from torch import Tensor

from rerank_plugin.features.inputs import Inputs
from rerank_plugin.features.interactions import cosine_matrix
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.integrated_gradients import in_double, of_interaction
from rerank_plugin.models.knrm.model import Knrm


def explain(model: Knrm, inputs: Inputs) -> Attribution:
    """The attribution of one document's score; inputs with B = 1."""
    model, inputs = in_double(model, inputs)
    cosines, mask = cosine_matrix(model.vectors, inputs), inputs.document_mask[:, None, :]  # [1, M, N], [1, 1, N]

    def score(cells: Tensor) -> Tensor:
        return model.score(cosines, cells * mask, inputs.query_mask)  # [S]

    return of_interaction(model, inputs, score, cosines)
