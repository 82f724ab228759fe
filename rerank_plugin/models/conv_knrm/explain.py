"""The attribution of Conv-KNRM's scores, as in :mod:`rerank_plugin.models.knrm.explain`.

The contribution of a pair of n-grams is divided equally among the pairs of their words.
"""

from __future__ import annotations

import torch

from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.inputs.interactions import cosine_matrix
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.conv_knrm.model import ConvKnrm
from rerank_plugin.models.integrated_gradients import in_double, known_words
from rerank_plugin.models.kernel_pooling import kernel_cells, tanh_attribution, without_matches


def explain(model: ConvKnrm, inputs: Inputs) -> Attribution:
    """The attribution of one document's score; inputs with B = 1."""
    model, inputs = in_double(model, inputs)
    cosines = cosine_matrix(model.vectors, inputs)  # [1, M, N]
    (terms, words), cells = cosines.shape[1:], torch.zeros_like(cosines[0])  # [M, N]
    with torch.no_grad():
        start, matches = model.layer.bias[0], model.cross_matches(inputs)
        for match, weights in zip(matches, model.layer.weight[0].chunk(len(matches))):
            query_size, document_size = match.sizes
            start = start + without_matches(match.query_mask, weights)
            ngram_cells = kernel_cells(match.cosines, match.document_mask, match.query_mask, weights)  # [M, N]
            for term in range(min(query_size, terms)):
                for word in range(min(document_size, words)):
                    shares = ngram_cells[: terms - term, : words - word] / (query_size * document_size)
                    cells[term:, word:] += shares
    return tanh_attribution(float(start), cells, known=known_words(model, inputs), matrix=cosines[0].numpy())
