"""The attribution of DUET's scores: integrated gradients over exact matches and over the word vectors."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.models.attribution import Attribution, of_cells
from rerank_plugin.models.duet.model import Duet
from rerank_plugin.models.integrated_gradients import in_double, integrated_gradients, known_words


def explain(model: Duet, inputs: Inputs) -> Attribution:
    """The attribution of one document's score; inputs with B = 1. Only matches divide by query words."""
    model, inputs = in_double(model, inputs)
    matches = model.interaction(inputs)  # [1, M, N]
    documents = model.vectors[inputs.documents]  # [1, N, D]

    def score(cells: Tensor, words: Tensor) -> Tensor:
        """cells [S, M, N], words [S, N]."""
        return model.score(matches * cells, inputs, documents * words[:, :, None])  # [S]

    base, (cells, words) = integrated_gradients(score, [matches.shape[1:], documents.shape[1:2]])
    known, matrix = known_words(model, inputs), matches[0].numpy()
    attribution = of_cells(base, cells, known=known, matrix=matrix, matrix_name=model.matrix_name)
    if model.config.parts == "local":
        return attribution
    return replace(attribution, words=attribution.words + words, query_words=None)
