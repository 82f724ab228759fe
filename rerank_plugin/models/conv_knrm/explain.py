"""What Conv-KNRM's score of a document is made of, as :mod:`rerank_plugin.models.knrm.explain` has it for KNRM.

What a pair of n-grams adds is shared equally by the pairs of their words.
"""

from __future__ import annotations

import torch

from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.inputs.interactions import cosine_matrix
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.conv_knrm.model import ConvKnrm
from rerank_plugin.models.integrated_gradients import in_double, known_words
from rerank_plugin.models.kernel_pooling import kernel_cells, of_tanh, without_matches


def explain(model: ConvKnrm, inputs: Inputs) -> Attribution:
    """The attribution of one document's score; inputs with B = 1."""
    model, inputs = in_double(model, inputs)
    cosines = cosine_matrix(model.vectors, inputs)  # [1, M, N]
    (terms, words), cells = cosines.shape[1:], torch.zeros_like(cosines[0])  # [M, N]
    with torch.no_grad():
        start, matches = model.layer.bias[0], model.cross_matches(inputs)
        for one, weights in zip(matches, model.layer.weight[0].chunk(len(matches))):
            start = start + without_matches(one.query_mask, weights)
            added = kernel_cells(one.cosines, one.document_mask, one.query_mask, weights)  # [M, N]
            for term in range(min(one.sizes[0], terms)):
                for word in range(min(one.sizes[1], words)):
                    cells[term:, word:] += added[: terms - term, : words - word] / (one.sizes[0] * one.sizes[1])
    return of_tanh(float(start), cells, known=known_words(model, inputs), matrix=cosines[0].numpy())
