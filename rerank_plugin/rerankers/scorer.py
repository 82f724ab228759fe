"""The interface of rerankers: they score the candidates of a query. Imports neither torch nor numpy."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.lazily import cached_property

if TYPE_CHECKING:
    import numpy as np

    from rerank_plugin.base.records import Query
    from rerank_plugin.indexes.candidates import Candidates
    from rerank_plugin.models.attribution import Attribution

log = logging.getLogger(__name__)

MOST_TOLD = 10_000  # queries remembered as logged: a service runs for months, and its query ids are whole queries


def shown(query: Query) -> str:
    """The id of a query for the log, shortened: it may be the text of a query."""
    return query.id if len(query.id) <= 60 else f"{query.id[:60]}..."


class CandidateScorer(Protocol):
    """Scores the candidates of one query. :class:`Scorer` extends it with optional capabilities."""

    name: str

    def score(self, query: Query, candidates: Candidates) -> np.ndarray:
        """Scores, float32 [C], higher is better, in the order of the candidates."""
        ...


class Scorer(ABC):
    """The base class of rerankers, with optional capabilities beyond :meth:`score`.

    Attributes:
        name: the reranker's name.
        listwise: whether a document's score depends on the other candidates or on first-stage scores.
        passage_words: number of a document's words that the reranker reads; None for all of them.
        scores_together: whether :meth:`score_many` is faster than one call of :meth:`score` for each query.
        feature_seconds: seconds spent on computing features so far; 0 if not measured.
        trained_after: the first stage whose scores the reranker was trained on; None if it reads none, or is untrained.
        adds_before: whether it adds the score before to its own, so that it may follow any first stage.
    """

    name: str
    listwise: bool = False
    trained_after: str | None = None
    adds_before: bool = False
    passage_words: int | None = None
    feature_seconds: float = 0.0
    scores_together: ClassVar[bool] = False

    @cached_property
    def unknown_queries(self) -> set[str]:
        """The ids of the queries that the reranker could not read, at most ``MOST_TOLD``."""
        return set()

    def first_stage_fallback(self, query: Query, candidates: Candidates, reason: str) -> np.ndarray:
        """The first-stage scores, float32 [C], for a query that the reranker cannot read; logs a warning once a query.

        Args:
            reason: why the query cannot be read, for the warning.
        """
        if query.id not in self.unknown_queries:
            if len(self.unknown_queries) == MOST_TOLD:
                self.unknown_queries.clear()
            self.unknown_queries.add(query.id)
            log.warning("query %s: %s; left in first-stage order", shown(query), reason)
        return candidates.first_stage_scores.copy()

    @abstractmethod
    def score(self, query: Query, candidates: Candidates) -> np.ndarray:
        """Scores, float32 [C], higher is better, in the order of the candidates."""

    def score_many(self, queries: Sequence[Query], candidates: Sequence[Candidates]) -> list[np.ndarray]:
        """Scores of the candidates of several queries, float32 [C] each, equal to those of :meth:`score`."""
        return [self.score(query, hits) for query, hits in zip(queries, candidates)]

    def attribute(self, query: Query, candidates: Candidates, place: int) -> Attribution | None:
        """The attribution of one candidate's score; None if the reranker does not support it."""
        return None

    def load_attribution(self) -> None:
        """Load what :meth:`attribute` needs beside `score`, in any thread; the first call may take seconds."""
        return

    def lacking_words(self, query: Query) -> list[str]:
        """The reranker's name, if it knows few of the query's words (`Vocabulary.knows_few_words`); otherwise empty."""
        return []

    def unread_words(self, query: Query) -> list[str]:
        """A sentence if the query has more words than the reranker reads; otherwise empty."""
        return []

    def encode_in_memory(self, rows: np.ndarray) -> None:
        """Prepare for scoring many queries over the same documents, rows int64 [n], after a training epoch."""
        return


def warn_first_stage_mismatch(scorer: CandidateScorer, first_stage: str) -> None:
    """Log a warning if a scorer reads first-stage scores and was trained on others; not of one that adds them."""
    if isinstance(scorer, Scorer) and not scorer.adds_before and scorer.trained_after not in (None, first_stage):
        log.warning(
            "%s reads the scores of the first stage and was trained on those of %s: evaluate it after %s",
            scorer.name, scorer.trained_after, first_stage,
        )  # fmt: skip


class ScorerAdapter(Scorer):
    """Adapts a :class:`CandidateScorer` to :class:`Scorer`.

    Raises:
        InputError: the object has no ``score``, or has ``listwise`` or ``score_many``, which only a Scorer may have.
    """

    def __init__(self, reranker: CandidateScorer):
        attributes = set(dir(reranker))
        if "score" not in attributes:
            raise InputError(f"{_class_name(reranker)} is not a reranker: it has no method score(query, candidates)")
        if reserved := sorted({"listwise", "score_many"} & attributes):
            raise InputError(
                f"{_class_name(reranker)} has {reserved[0]}, so it must be a subclass of {__name__}.Scorer"
            )
        self.reranker = reranker
        self.name = reranker.name if "name" in attributes else type(reranker).__name__

    def score(self, query: Query, candidates: Candidates) -> np.ndarray:
        return self.reranker.score(query, candidates)


def as_scorer(reranker: CandidateScorer | Scorer) -> Scorer:
    """Any reranker as a :class:`Scorer`; an `InputError` as in :class:`ScorerAdapter` for other objects."""
    return reranker if isinstance(reranker, Scorer) else ScorerAdapter(reranker)


def score_many(
    reranker: CandidateScorer, queries: Sequence[Query], candidates: Sequence[Candidates]
) -> list[np.ndarray]:
    """Scores of several queries' candidates, float32 [C] each."""
    return as_scorer(reranker).score_many(queries, candidates)


def _class_name(reranker: object) -> str:
    return f"{type(reranker).__module__}.{type(reranker).__qualname__}"
