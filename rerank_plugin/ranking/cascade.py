"""A cascade of rerankers: each re-ranks the top of the ranking before it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.files.runs import strictly_decreasing
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.ranking.scores import checked_scores
from rerank_plugin.rerankers import RerankerOptions, Scorer, as_scorer, load


@dataclass(frozen=True)
class Stage:
    """One reranker of a cascade.

    Attributes:
        reranker: a spec for :func:`rerank_plugin.rerankers.load`, or a reranker.
        keep: number of top documents that it scores; the rest follow in their order. None for all.
    """

    reranker: Any
    keep: int | None = None

    def __post_init__(self) -> None:
        if self.keep is not None and self.keep < 1:
            raise InputError(f"{self}: a reranker must score at least 1 document")

    @classmethod
    def parse(cls, spec: str) -> Stage:
        """``RERANKER`` or ``RERANKER@N``; N is the digits after the last ``@``."""
        match = re.fullmatch(r"(.+)@([0-9]{1,18})", spec, re.DOTALL)
        return cls(match[1], int(match[2])) if match else cls(spec)

    @classmethod
    def of(cls, reranker: Any) -> Stage:
        """The stage of a spec, a path, or a reranker; a stage stays the same."""
        if isinstance(reranker, str):
            return cls.parse(reranker)
        if isinstance(reranker, Stage):
            return reranker
        return cls(str(reranker) if isinstance(reranker, Path) else reranker)

    def __str__(self) -> str:
        return self.reranker if self.keep is None else f"{self.reranker}@{self.keep}"


def load_stages(stages: Sequence[Stage], index: ForwardIndex, running: RerankerOptions) -> Scorer:
    """The rerankers of one or more stages over an index, as one scorer.

    Raises:
        InputError: a reranker cannot be loaded, or has no method ``score``.
    """
    scorers = [
        load(stage.reranker, index, running) if isinstance(stage.reranker, str) else as_scorer(stage.reranker)
        for stage in stages
    ]
    if len(stages) == 1 and stages[0].keep is None:
        return scorers[0]
    return Cascade([(scorer, stage.keep) for scorer, stage in zip(scorers, stages)])


class Cascade(Scorer):
    """Several scorers as one: the top candidates of each ranking pass to the next scorer, the rest follow in order.

    A document keeps the score of the last stage that scored it. The scores of the documents that a stage leaves out are
    shifted below its lowest score, with their differences, but at least one step of float32 apart.
    """

    listwise = True  # a document's score depends on which documents are before it
    scores_together = True

    def __init__(self, stages: Sequence[tuple[Scorer, int | None]]):
        """Take scorers, each with the number of documents that it scores; None for all."""
        self.stages = list(stages)
        self.name = ",".join(str(Stage(scorer.name, keep)) for scorer, keep in self.stages)
        passage_words = [scorer.passage_words for scorer, _ in self.stages if scorer.passage_words is not None]
        self.passage_words = min(passage_words, default=None)
        self.trained_after = next((scorer.trained_after for scorer, _ in self.stages if scorer.trained_after), None)

    @property
    def feature_seconds(self) -> float:  # type: ignore[override]
        return sum(scorer.feature_seconds for scorer, _ in self.stages)

    def lacking_words(self, query: Query) -> list[str]:
        return [name for scorer, _ in self.stages for name in scorer.lacking_words(query)]

    def unread_words(self, query: Query) -> list[str]:
        return [note for scorer, _ in self.stages for note in scorer.unread_words(query)]

    def score(self, query: Query, candidates: Candidates) -> np.ndarray:
        return self.score_many([query], [candidates])[0]

    def score_many(self, queries: Sequence[Query], candidates: Sequence[Candidates]) -> list[np.ndarray]:
        """Scores, float32 [C] each; sorting by them, ties by decreasing document id, gives the cascade's order."""
        orders = [each.order(each.first_stage_scores) for each in candidates]  # int64 [C], from rank 1 on
        scores = [each.first_stage_scores.copy() for each in candidates]
        for scorer, keep in self.stages:
            tops = [np.sort(order[:keep]) for order in orders]  # in first-stage order, which features may read
            top_candidates = [each.take(top) for each, top in zip(candidates, tops)]
            for i, top_scores in enumerate(checked_scores(queries, top_candidates, scorer)):
                top, rest = tops[i][top_candidates[i].order(top_scores)], orders[i][len(tops[i]) :]
                scores[i][tops[i]] = top_scores
                orders[i] = np.append(top, rest)
                if len(rest) and len(top):
                    ranked_scores = np.append(scores[i][top], _below(scores[i][rest], scores[i][top[-1]]))
                    scores[i][orders[i]] = strictly_decreasing(ranked_scores)
        return scores

    def attribute(self, query: Query, candidates: Candidates, place: int) -> Attribution | None:
        """The attribution of the last stage that scored the document; None if no stage did."""
        candidates, last = candidates.take(np.arange(len(candidates))), None
        order = candidates.order(candidates.first_stage_scores)
        for number, (scorer, keep) in enumerate(self.stages):
            top = np.sort(order[:keep])
            if place in top:
                last = scorer, candidates.take(top), int(np.searchsorted(top, place))
            order = candidates.order(Cascade(self.stages[: number + 1]).score(query, candidates))
        return None if last is None else last[0].attribute(query, last[1], last[2])


def _below(scores: np.ndarray, lowest: np.float32) -> np.ndarray:
    """Decreasing scores shifted so that the first equals ``lowest``; float32 [n]."""
    shifted = scores.astype(np.float64) + (float(lowest) - float(scores[0]))
    return np.clip(shifted, -np.finfo(np.float32).max, None).astype(np.float32)
