"""Checks the scores of a reranker once: their number, and that all are finite."""

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
    """A reranker's scores for the candidates of several queries, float32 [C] each, checked as in `checked`.

    The reranker does not get empty lists.
    """
    scores = [np.zeros(0, np.float32)] * len(candidates)
    nonempty = [i for i, each in enumerate(candidates) if len(each)]
    unchecked = score_many(reranker, [queries[i] for i in nonempty], [candidates[i] for i in nonempty])
    for i, its_scores in zip(nonempty, unchecked, strict=True):
        scores[i] = checked(its_scores, queries[i], candidates[i], f"the reranker '{as_scorer(reranker).name}'")
    return scores


def checked(scores: np.ndarray, query: Query, candidates: Candidates, scorer: str) -> np.ndarray:
    """Scores as float32 [C], after the only check of their number and values before a run is written.

    Args:
        scorer: description of the scorer, for messages.

    Raises:
        InputError: the number of scores differs from that of candidates, or a score is NaN or infinite.
    """
    scores = np.asarray(scores, dtype=np.float32)
    if scores.shape != (len(candidates),):
        raise InputError(
            f"{scorer} gave scores of shape {scores.shape} for {len(candidates)} candidates of query {query.id}"
        )
    if len(bad := np.flatnonzero(~np.isfinite(scores))):
        document = candidates.index.ids[int(candidates.rows[bad[0]])]
        raise InputError(f"{scorer} scores document {document} for query {query.id} as NaN or infinite")
    return scores
