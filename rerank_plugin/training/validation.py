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

ACCURACY = "accuracy"  # the name of `accuracy` among the measures


class HeldOut(NamedTuple):
    """Queries, judgments and candidates of a validation."""

    queries: Sequence[Query]
    judgments: Judgments
    candidates: Mapping[str, Candidates]  # by query id
    highest: float | None = None  # highest grade of ERR's scale; None for the highest in the judgments


class Validation:
    """Measures a model on the validation queries after each epoch, with the same reranker class as search.

    Args:
        measures: names of measures (:mod:`rerank_plugin.evaluation.measures`) or `ACCURACY`; the first decides.
    """

    def __init__(self, held_out: HeldOut, reranker: CandidateScorer, measures: Sequence[str]):
        self.queries, self.reranker = held_out.queries, as_scorer(reranker)
        # Made now: reports mistyped names before the first epoch.
        self.measures, ranked = measures, [name for name in measures if name != ACCURACY]
        self.evaluator = Evaluator(held_out.judgments, ranked, held_out.highest)
        # Rows and scores only: candidates keep their gathered words, which would fill the memory.
        by_query = {query.id: held_out.candidates[query.id] for query in self.queries}
        self.candidates = {id: (each.index, each.rows, each.first_stage_scores) for id, each in by_query.items()}
        self.relevance = Relevance()  # fitted to the scores of the last epoch
        self.rows = np.unique(np.concatenate([np.zeros(0, np.int64), *(each.rows for each in by_query.values())]))

    def __call__(self) -> dict[str, float]:
        """Means over all judged queries, by measure name, and the accuracy over all candidates."""
        self.reranker.encode_in_memory(self.rows)  # with the weights of the last epoch
        run, scores = {}, [np.zeros(0, np.float32)]
        for query in self.queries:
            ranking = rank(query, Candidates(*self.candidates[query.id]), self.reranker)
            run[query.id] = RankedList(ranking.doc_ids, ranking.ranked_scores)
            scores.append(ranking.scores)
        self.relevance = Relevance.fitted(np.concatenate(scores))
        found = self.evaluator.summary(self.evaluator.values(run))
        if ACCURACY in self.measures:
            found[ACCURACY] = accuracy(run, self.evaluator.judgments)
        return {name: found[name] for name in self.measures}


def accuracy(run: Mapping[str, RankedList], judgments: Judgments) -> float:
    """The share of documents that a classifier gets right, with as much weight for the relevant ones as for the others.

    That is its accuracy on as many relevant documents as others ([D17] 4.7). Documents with a score above 0, the input
    of a sigmoid, count as found relevant; documents without a judgment are not. NaN without documents of both kinds.
    """
    right: dict[bool, list[bool]] = {True: [], False: []}  # by relevance
    for query, ranked in run.items():
        judged = judgments.get(query, {})
        for id, score in zip(ranked.doc_ids, ranked.scores):
            relevant = judged.get(id, 0) > 0
            right[relevant].append((score > 0) == relevant)
    return sum(float(np.mean(of_kind)) for of_kind in right.values()) / 2 if all(right.values()) else float("nan")
