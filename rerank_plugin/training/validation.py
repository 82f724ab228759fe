"""Validation: the measures of a model that re-ranks the validation queries' candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.records import Judgments, Query
from rerank_plugin.evaluation.values import Evaluator
from rerank_plugin.files.runs import RankedList
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.models.relevance import Relevance
from rerank_plugin.ranking.pipeline import rank
from rerank_plugin.rerankers import CandidateScorer, as_scorer


class HeldOut(NamedTuple):
    """Queries, judgments and candidates of a validation."""

    queries: Sequence[Query]
    judgments: Judgments
    candidates: Mapping[str, Candidates]  # by query id
    highest: float | None = None  # highest grade of ERR's scale; None for the highest in the judgments


class Validation:
    """Measures a model on the validation queries after each epoch, with the same reranker class as search.

    Args:
        measures: names of measures (:mod:`rerank_plugin.evaluation.measures`), of which the first decides.
    """

    def __init__(self, held_out: HeldOut, reranker: CandidateScorer, measures: Sequence[str]):
        self.queries, self.reranker = held_out.queries, as_scorer(reranker)
        # Made now: reports mistyped names before the first epoch.
        self.evaluator = Evaluator(held_out.judgments, measures, held_out.highest)
        # Rows and scores only: candidates keep their gathered words, which would fill the memory.
        by_query = {query.id: held_out.candidates[query.id] for query in self.queries}
        self.candidates = {id: (each.index, each.rows, each.first_stage_scores) for id, each in by_query.items()}
        self.relevance = Relevance()  # fitted to the scores of the last epoch
        self.rows = np.unique(np.concatenate([np.zeros(0, np.int64), *(each.rows for each in by_query.values())]))

    def __call__(self) -> dict[str, float]:
        """Means over all judged queries, by measure name."""
        self.reranker.encode_in_memory(self.rows)  # with the weights of the last epoch
        run, scores = {}, [np.zeros(0, np.float32)]
        for query in self.queries:
            ranking = rank(query, Candidates(*self.candidates[query.id]), self.reranker)
            run[query.id] = RankedList(ranking.doc_ids, ranking.ranked_scores)
            scores.append(ranking.scores)
        self.relevance = Relevance.fitted(np.concatenate(scores))
        return self.evaluator.summary(self.evaluator.values(run))
