"""The attribution of PACRR's scores: integrated gradients over the cells of the similarity matrix.

The windows of kwindow are those of the full matrix. The contribution of the IDF weights belongs to the base.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.integrated_gradients import in_double, interaction_attribution
from rerank_plugin.models.pacrr.model import Distilled, Pacrr


def explain(model: Pacrr, inputs: Inputs) -> Attribution:
    """The attribution of one document's score; inputs with B = 1."""
    model, inputs = in_double(model, inputs)
    cosines = model.interaction(inputs)  # [1, M, N]
    distilled = model.distilled(cosines, inputs)
    last = cosines.shape[2] - 1
    places = [matrix.places[0].clamp_max(last) for matrix in distilled]  # [l_d] each; beyond the text the matrix is 0

    def score(cells: Tensor) -> Tensor:
        """cells [S, M, N]."""
        scaled = [size._replace(matrix=size.matrix * cells[:, :, columns]) for size, columns in zip(distilled, places)]
        return model.score_distilled(scaled, inputs.take(torch.zeros(len(cells), dtype=torch.int64)))  # [S]

    shape = cosines.shape[1:]
    pooled = {cell for words, size in enumerate(distilled, 1) for cell in _pooled_cells(model, words, size, shape)}
    return interaction_attribution(model, inputs, score, cosines, pooled=sorted(pooled))


def _pooled_cells(model: Pacrr, words: int, distilled: Distilled, shape: torch.Size) -> list[tuple[int, int]]:
    """The cells [M, N] that the pooled n-grams of ``words`` words cover."""
    with torch.no_grad():
        matches = model.convolve(words, distilled.matrix).masked_fill(~distilled.windows[:, None, :], -torch.inf)
    pooled = matches[0].topk(min(model.config.signals, matches.shape[2]), dim=1)  # [M, n_s] each
    firstk, before = model.config.distillation == "firstk", (words - 1) // 2
    cells = []
    for term, (values, windows) in enumerate(zip(pooled.values.tolist(), pooled.indices.tolist())):
        for window in (window for value, window in zip(values, windows) if value > -torch.inf):
            first = window - before if firstk else window * words
            columns = range(max(first, 0), min(first + words, distilled.matrix.shape[2]))
            rows = range(max(term - before, 0), min(term - before + words, shape[0]))
            cells += [(row, int(distilled.places[0, column])) for row in rows for column in columns]
    return [cell for cell in cells if cell[1] < shape[1]]
