"""A reranker's scores, checked once: their number, and that all are finite."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.rerankers import CandidateScorer, as_scorer, score_many


def checked_scores(
    queries: Sequence[Query], candidates: Sequence[Candidates], reranker: CandidateScorer
) -> list[np.ndarray]:
    """A reranker's scores for the candidates of several queries, float32 [C] each, after `checked`.

    Empty lists are not passed to it.
    """
    scores = [np.zeros(0, np.float32)] * len(candidates)
    filled = [place for place, found in enumerate(candidates) if len(found)]
    given = score_many(reranker, [queries[place] for place in filled], [candidates[place] for place in filled])
    for place, one in zip(filled, given, strict=True):
        scores[place] = checked(one, queries[place], candidates[place], f"the reranker '{as_scorer(reranker).name}'")
    return scores


def checked(scores: np.ndarray, query: Query, candidates: Candidates, giver: str) -> np.ndarray:
    """Scores as float32 [C], after the only check of their number and values before a run is written."""
    scores = np.asarray(scores, dtype=np.float32)
    if scores.shape != (len(candidates),):
        raise InputError(
            f"{giver} gave scores of shape {scores.shape} for {len(candidates)} candidates of query {query.id}"
        )
    if len(bad := np.flatnonzero(~np.isfinite(scores))):
        document = candidates.index.ids[int(candidates.rows[bad[0]])]
        raise InputError(f"{giver} scores document {document} for query {query.id} as NaN or infinite")
    return scores
