"""A cascade of rerankers: each re-ranks the top of the ranking before it, by its score alone or by a weighted sum.

In a sum (``delta+0.5``) the score before the reranker has that weight, and the reranker's the rest; both are normalized
to [0, 1] over the documents that the reranker scores, as in a fusion of first stages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.files.runs import strictly_decreasing
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.inputs.lexical_features import SCORE_BEFORE
from rerank_plugin.models.attribution import Attribution, ScorePart
from rerank_plugin.ranking.scores import checked_scores
from rerank_plugin.rerankers import RerankerOptions, Scorer, as_scorer, load
from rerank_plugin.retrieval.fusion import min_max


@dataclass(frozen=True)
class Stage:
    """One reranker of a cascade.

    Attributes:
        reranker: a spec for :func:`rerank_plugin.rerankers.load`, or a reranker.
        keep: number of top documents that it scores; the rest follow in their order. None for all.
        before: weight of the score before it, at least 0 and less than 1.
    """

    reranker: Any
    keep: int | None = None
    before: float = 0.0

    def __post_init__(self) -> None:
        if self.keep is not None and self.keep < 1:
            raise InputError(f"{self}: a reranker must score at least 1 document")
        if not 0 <= self.before < 1:
            raise InputError(f"{self}: the weight of the score before must be at least 0 and less than 1")

    @classmethod
    def parse(cls, spec: str) -> Stage:
        """``RERANKER``, ``RERANKER+W``, ``RERANKER@N`` or ``RERANKER+W@N``.

        N is the digits after the last ``@``, the weight W a number below 1 after the last ``+``.
        """
        match = re.fullmatch(r"(.+?)(?:\+(0?\.[0-9]{1,9}))?(?:@([0-9]{1,18}))?", spec, re.DOTALL)
        return cls(match[1], int(match[3]) if match[3] else None, float(match[2] or 0)) if match else cls(spec)

    @classmethod
    def of(cls, reranker: Any) -> Stage:
        """The stage of a spec, a path, or a reranker; a stage stays the same."""
        if isinstance(reranker, str):
            return cls.parse(reranker)
        if isinstance(reranker, Stage):
            return reranker
        return cls(str(reranker) if isinstance(reranker, Path) else reranker)

    @property
    def alone(self) -> bool:
        """Whether the reranker scores all documents, and nothing is added."""
        return self.keep is None and not self.before

    def __str__(self) -> str:
        weighted = f"{self.reranker}+{self.before:g}" if self.before else self.reranker
        return weighted if self.keep is None else f"{weighted}@{self.keep}"


class ScoringStage(NamedTuple):
    """A scorer, with the other fields of its `Stage`."""

    scorer: Scorer
    keep: int | None = None
    before: float = 0.0


def load_stages(stages: Sequence[Stage], index: ForwardIndex, running: RerankerOptions) -> Scorer:
    """The rerankers of one or more stages over an index, as one scorer.

    Raises:
        InputError: a reranker cannot be loaded, or has no method ``score``.
    """
    scorers = [
        load(stage.reranker, index, running) if isinstance(stage.reranker, str) else as_scorer(stage.reranker)
        for stage in stages
    ]
    if len(stages) == 1 and stages[0].alone:
        return scorers[0]
    return Cascade([ScoringStage(scorer, stage.keep, stage.before) for scorer, stage in zip(scorers, stages)])


class Cascade(Scorer):
    """Several scorers as one: the top candidates of each ranking pass to the next scorer, the rest follow in order.

    A document keeps the score of the last stage that scored it. The scores of the documents that a stage leaves out are
    shifted below its lowest score, with their differences, but at least one step of float32 apart.
    """

    listwise = True  # a document's score depends on which documents are before it
    scores_together = True

    def __init__(self, stages: Sequence[ScoringStage]):
        self.stages = list(stages)
        self.name = ",".join(str(Stage(stage.scorer.name, stage.keep, stage.before)) for stage in self.stages)
        self.scorers = [stage.scorer for stage in self.stages]
        passage_words = [scorer.passage_words for scorer in self.scorers if scorer.passage_words is not None]
        self.passage_words = min(passage_words, default=None)
        self.adds_before = any(stage.before for stage in self.stages)
        self.trained_after = next((scorer.trained_after for scorer in self.scorers if scorer.trained_after), None)

    @property
    def feature_seconds(self) -> float:  # type: ignore[override]
        return sum(scorer.feature_seconds for scorer in self.scorers)

    def load_attribution(self) -> None:
        for scorer in self.scorers:
            scorer.load_attribution()

    def lacking_words(self, query: Query) -> list[str]:
        return [name for scorer in self.scorers for name in scorer.lacking_words(query)]

    def unread_words(self, query: Query) -> list[str]:
        return [note for scorer in self.scorers for note in scorer.unread_words(query)]

    def score(self, query: Query, candidates: Candidates) -> np.ndarray:
        return self.score_many([query], [candidates])[0]

    def score_many(self, queries: Sequence[Query], candidates: Sequence[Candidates]) -> list[np.ndarray]:
        """Scores, float32 [C] each; sorting by them, ties by decreasing document id, gives the cascade's order."""
        orders = [each.order(each.first_stage_scores) for each in candidates]  # int64 [C], from rank 1 on
        scores = [each.first_stage_scores.copy() for each in candidates]
        for scorer, keep, before in self.stages:
            tops = [np.sort(order[:keep]) for order in orders]  # in first-stage order, which features may read
            top_candidates = [each.take(top) for each, top in zip(candidates, tops)]
            for i, top_scores in enumerate(checked_scores(queries, top_candidates, scorer)):
                if before:
                    top_scores = _interpolated(scores[i][tops[i]], top_scores, before)
                top, rest = tops[i][top_candidates[i].order(top_scores)], orders[i][len(tops[i]) :]
                scores[i][tops[i]] = top_scores
                orders[i] = np.append(top, rest)
                if len(rest) and len(top):
                    ranked_scores = np.append(scores[i][top], _below(scores[i][rest], scores[i][top[-1]]))
                    scores[i][orders[i]] = strictly_decreasing(ranked_scores)
        return scores

    def attribute(self, query: Query, candidates: Candidates, place: int) -> Attribution | None:
        """The attribution of the last stage that scored the document; None if no stage did.

        Of a sum, the score before the stage is one of its parts.
        """
        candidates, attribution = candidates.take(np.arange(len(candidates))), None
        scores = candidates.first_stage_scores
        for number, (scorer, keep, before) in enumerate(self.stages):
            top = np.sort(candidates.order(scores)[:keep])
            if place in top:
                among, at = candidates.take(top), int(np.searchsorted(top, place))
                attribution = scorer.attribute(query, among, at)
                if attribution is not None and before:
                    its_scores = checked_scores([query], [among], scorer)[0]
                    attribution = _with_score_before(attribution, float(min_max(scores[top])[at]), its_scores, before)
            scores = Cascade(self.stages[: number + 1]).score(query, candidates)
        return attribution


def _interpolated(before: np.ndarray, scores: np.ndarray, weight: float) -> np.ndarray:
    """The weighted sum of the scores before a reranker and of its own, both float32 [n]; float32 [n]."""
    return (weight * min_max(before) + (1 - weight) * min_max(scores)).astype(np.float32)


def _with_score_before(attribution: Attribution, before: float, scores: np.ndarray, weight: float) -> Attribution:
    """The attribution of a weighted sum, by that of a reranker's score.

    Args:
        before: the score before, normalized.
        scores: of the reranker, of all documents that it scored, float32 [n].
    """
    lowest, spread = float(scores.min()), float(scores.max()) - float(scores.min())
    factor = (1 - weight) / spread if spread else 0.0
    parts = [part._replace(contribution=factor * part.contribution) for part in attribution.parts]
    return replace(
        attribution,
        base=factor * (attribution.base - lowest) if spread else 1 - weight,
        words=None if attribution.words is None else factor * attribution.words,
        query_words=None if attribution.query_words is None else factor * attribution.query_words,
        parts=(*parts, ScorePart(SCORE_BEFORE, before, weight * before)),
        details=[],  # they are of the reranker's own score
    )


def _below(scores: np.ndarray, lowest: np.float32) -> np.ndarray:
    """Decreasing scores shifted so that the first equals ``lowest``; float32 [n]."""
    shifted = scores.astype(np.float64) + (float(lowest) - float(scores[0]))
    return np.clip(shifted, -np.finfo(np.float32).max, None).astype(np.float32)
