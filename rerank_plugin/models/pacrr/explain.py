"""What PACRR's score of a document is made of: integrated gradients over the cells of the similarity matrix.

The windows of kwindow are those of the whole matrix. What the shares of the IDF add belongs to the base.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.inputs.interactions import cosine_matrix
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.integrated_gradients import in_double, of_interaction
from rerank_plugin.models.pacrr.model import Distilled, Pacrr


def explain(model: Pacrr, inputs: Inputs) -> Attribution:
    """The attribution of one document's score; inputs with B = 1."""
    model, inputs = in_double(model, inputs)
    cosines, distilled = cosine_matrix(model.vectors, inputs), model.distilled(inputs)  # [1, M, N]
    last = cosines.shape[2] - 1
    places = [one.places[0].clamp_max(last) for one in distilled]  # [l_d] each; beyond the text the matrix is 0

    def score(cells: Tensor) -> Tensor:
        """cells [S, M, N]."""
        found = [one._replace(matrix=one.matrix * cells[:, :, at]) for one, at in zip(distilled, places)]
        return model.score(found, inputs.take(torch.zeros(len(cells), dtype=torch.int64)))  # [S]

    pooled = {cell for words, one in enumerate(distilled, 1) for cell in _pooled(model, words, one, cosines.shape[1:])}
    return of_interaction(model, inputs, score, cosines, pooled=sorted(pooled))


def _pooled(model: Pacrr, words: int, distilled: Distilled, shape: torch.Size) -> list[tuple[int, int]]:
    """The cells [M, N] that the pooled n-grams of ``words`` words cover."""
    with torch.no_grad():
        cells = model.convolve(words, distilled.matrix).masked_fill(~distilled.windows[:, None, :], -torch.inf)
    found = cells[0].topk(min(model.config.signals, cells.shape[2]), dim=1)  # [M, n_s] each
    firstk, before = model.config.distillation == "firstk", (words - 1) // 2
    covered = []
    for term, (values, windows) in enumerate(zip(found.values.tolist(), found.indices.tolist())):
        for window in (at for value, at in zip(values, windows) if value > -torch.inf):
            column = window - before if firstk else window * words
            columns = range(max(column, 0), min(column + words, distilled.matrix.shape[2]))
            rows = range(max(term - before, 0), min(term - before + words, shape[0]))
            covered += [(row, int(distilled.places[0, at])) for row in rows for at in columns]
    return [cell for cell in covered if cell[1] < shape[1]]
