"""What KTRel's score of a document is made of: exact, as a cosine of sums is the sum of all pairs' inner products.

Where there is a transformer layer, a word's or concept's vector is what the layer makes of it among its neighbours.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.models.attribution import Attribution, ScorePart, of_cells
from rerank_plugin.models.ktrel.model import Ktrel, SequenceEncoder

SMALLEST_NORM = 1e-12  # torch.nn.functional.normalize's


def explain(model: Ktrel, inputs: Inputs) -> Attribution:
    """The attribution of one document's score; inputs with B = 1.

    A concept is a part whose value is how often the document mentions it.
    """
    cells, more = np.zeros((inputs.queries.shape[1], inputs.documents.shape[1])), dict[str, Any]()
    with torch.inference_mode():
        if model.words is not None:
            documents = (inputs.documents, inputs.document_mask)
            cells, more["matrix"] = _cells(model.words, model.a, (inputs.queries, inputs.query_mask), documents)
        if model.concepts is not None:
            more["parts"] = _concepts(model, model.concepts, inputs)
    known = (inputs.queries[0] > 0).numpy() & model.config.reads_words
    return of_cells(0.0, cells, known=known, exact=True, **more)


def _concepts(model: Ktrel, encoder: SequenceEncoder, inputs: Inputs) -> tuple[ScorePart, ...]:
    assert inputs.document_concepts is not None and model.concept_vocabulary is not None, "the model reads concepts"
    documents = (inputs.document_concepts, inputs.document_concept_mask)
    queries = (inputs.query_concepts, inputs.query_concept_mask)
    cells, _ = _cells(encoder, model.b, queries, documents)
    ids = inputs.document_concepts[inputs.document_concept_mask].tolist()
    added: Counter[int] = Counter()
    for id, contribution in zip(ids, cells.sum(axis=0).tolist()):
        added[id] += contribution
    names = model.concept_vocabulary.ids
    return tuple(ScorePart(f"concept {names[id]}", float(count), added[id]) for id, count in Counter(ids).items())


def _cells(
    encoder: SequenceEncoder, factor: Tensor, query: tuple[Tensor, Tensor], document: tuple[Tensor, Tensor]
) -> tuple[np.ndarray, np.ndarray]:
    """What every pair of items adds to the score, and the pairs' cosines, over the spaces; float64 [M, N] each."""
    lengths = torch.tensor(encoder.lengths, dtype=torch.float64)[:, None]  # [S, 1]
    sides = [
        encoder.items(ids, mask)[0].double().cpu().unflatten(1, (len(lengths), -1)) for ids, mask in (query, document)
    ]  # [M, S, D / S], [N, S, D / S]
    sums = [items.sum(dim=0).norm(dim=1, keepdim=True).clamp_min(SMALLEST_NORM) for items in sides]  # [S, 1]
    shares = [(lengths * items / size).flatten(1) for items, size in zip(sides, sums)]
    units = [(lengths * functional.normalize(items, dim=2)).flatten(1) for items in sides]
    cells = factor.double().cpu() * (shares[0] @ shares[1].T)  # [M, N]
    return cells.numpy(), (units[0] @ units[1].T / (lengths**2).sum()).numpy()
