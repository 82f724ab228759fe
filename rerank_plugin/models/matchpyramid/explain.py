"""What MatchPyramid's score of a document is made of: integrated gradients over the cells of the picture."""

from __future__ import annotations

from torch import Tensor

from rerank_plugin.features.inputs import Inputs
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.integrated_gradients import in_double, of_interaction
from rerank_plugin.models.matchpyramid.model import MatchPyramid


def explain(model: MatchPyramid, inputs: Inputs) -> Attribution:
    """The attribution of one document's score; inputs with B = 1."""
    model, inputs = in_double(model, inputs)
    picture = model.similarities(inputs)  # [1, M, N]

    def score(cells: Tensor) -> Tensor:
        return model.score(picture * cells, inputs)  # [S]

    name = "cosine" if model.config.similarity == "cosine" else "same word"
    return of_interaction(model, inputs, score, picture, matrix_name=name)
