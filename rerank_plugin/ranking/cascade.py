"""A cascade: rerankers one after another, each over the best of what the one before it ranked."""

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
        reranker: what :func:`rerank_plugin.rerankers.load` takes, or a reranker.
        keep: how many of the best so far it scores, the rest staying behind in its order; None for all.
    """

    reranker: Any
    keep: int | None = None

    def __post_init__(self) -> None:
        if self.keep is not None and self.keep < 1:
            raise InputError(f"{self}: a reranker scores at least 1 document")

    @classmethod
    def parse(cls, spec: str) -> Stage:
        """``RERANKER`` or ``RERANKER@N``; N is what follows the last ``@`` if that is digits only."""
        found = re.fullmatch(r"(.+)@([0-9]+)", spec, re.DOTALL)
        return cls(found[1], int(found[2])) if found else cls(spec)

    @classmethod
    def of(cls, given: Any) -> Stage:
        """A stage that is given by its name, or as a path, a reranker, or a stage."""
        if isinstance(given, str):
            return cls.parse(given)
        return given if isinstance(given, Stage) else cls(str(given) if isinstance(given, Path) else given)

    def __str__(self) -> str:
        return self.reranker if self.keep is None else f"{self.reranker}@{self.keep}"


def load_stages(stages: Sequence[Stage], index: ForwardIndex, running: RerankerOptions) -> Scorer:
    """The rerankers of one stage or more over an index, as one scorer.

    Raises:
        InputError: one cannot be loaded, or is no reranker.
    """
    scorers = [
        load(one.reranker, index, running) if isinstance(one.reranker, str) else as_scorer(one.reranker)
        for one in stages
    ]
    if len(stages) == 1 and stages[0].keep is None:
        return scorers[0]
    return Cascade([(scorer, stage.keep) for scorer, stage in zip(scorers, stages)])


class Cascade(Scorer):
    """Several scorers as one. The best of the candidates so far go on to the next; the rest stays behind in its order.

    A document keeps the score of the last stage that scored it. Those that stay behind a stage are moved down together
    so that all are below its lowest score, at their distances from one another, in the steps of float32 at least.
    """

    listwise = True  # a document's score depends on which documents are before it
    scores_together = True

    def __init__(self, stages: Sequence[tuple[Scorer, int | None]]):
        """Take scorers with the number of documents that each one scores; None for all that come to it."""
        self.stages = list(stages)
        self.name = ",".join(str(Stage(scorer.name, keep)) for scorer, keep in self.stages)
        read = [scorer.passage_words for scorer, _ in self.stages if scorer.passage_words is not None]
        self.passage_words = min(read, default=None)
        self.trained_after = next((one.trained_after for one, _ in self.stages if one.trained_after), None)

    @property
    def feature_seconds(self) -> float:  # type: ignore[override]
        return sum(scorer.feature_seconds for scorer, _ in self.stages)

    def lacking_words(self, query: Query) -> list[str]:
        return [name for scorer, _ in self.stages for name in scorer.lacking_words(query)]

    def score(self, query: Query, candidates: Candidates) -> np.ndarray:
        return self.score_many([query], [candidates])[0]

    def score_many(self, queries: Sequence[Query], candidates: Sequence[Candidates]) -> list[np.ndarray]:
        """Scores, float32 [C] each, whose order by decreasing document id on ties is that of the cascade."""
        orders = [found.order(found.first_stage_scores) for found in candidates]  # int64 [C], the best first
        scores = [found.first_stage_scores.copy() for found in candidates]
        for scorer, keep in self.stages:
            heads = [np.sort(order[:keep]) for order in orders]  # in first-stage order, which features may read
            parts = [found.take(head) for found, head in zip(candidates, heads)]
            for at, given in enumerate(checked_scores(queries, parts, scorer)):
                head, rest = heads[at][parts[at].order(given)], orders[at][len(heads[at]) :]
                scores[at][heads[at]] = given
                if len(rest) and len(head):
                    ranked = np.append(scores[at][head], _below(scores[at][rest], scores[at][head[-1]]))
                    scores[at][np.append(head, rest)] = strictly_decreasing(ranked)
                orders[at] = np.append(head, rest)
        return scores

    def attribute(self, query: Query, candidates: Candidates, place: int) -> Attribution | None:
        """What the last stage that scored the document says; None where none did."""
        found, last = candidates.take(np.arange(len(candidates))), None
        order = found.order(found.first_stage_scores)
        for number, (scorer, keep) in enumerate(self.stages):
            head = np.sort(order[:keep])
            if place in head:
                last = scorer, found.take(head), int(np.searchsorted(head, place))
            order = found.order(Cascade(self.stages[: number + 1]).score(query, found))
        return None if last is None else last[0].attribute(query, last[1], last[2])


def _below(scores: np.ndarray, lowest: np.float32) -> np.ndarray:
    """Decreasing scores moved so that the first equals ``lowest``; float32 [n]."""
    moved = scores.astype(np.float64) + (float(lowest) - float(scores[0]))
    return np.clip(moved, -np.finfo(np.float32).max, None).astype(np.float32)
