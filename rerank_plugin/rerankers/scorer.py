"""What a reranker is: scores for the candidates of a query. Imports neither torch nor numpy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Protocol, Sequence

from rerank_plugin.files.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from rerank_plugin.files.records import Query
    from rerank_plugin.indexes.candidates import Candidates


class Reranker(Protocol):
    """Scores the candidates of one query. One that can do more is a :class:`Scorer`."""

    name: str

    def score(self, query: Query, candidates: Candidates) -> np.ndarray:
        """Scores, float32 [C], higher is better, in the order of the candidates."""
        ...


class Scorer(ABC):
    """A reranker, with what it can do beyond :meth:`score`.

    Attributes:
        name: of the reranker.
        listwise: whether a document's score depends on the candidates it stands among; first-stage scores count as such.
        scores_together: whether :meth:`score_many` is faster than one query after the other.
    """

    name: str
    listwise: bool = False
    scores_together: ClassVar[bool] = False

    @abstractmethod
    def score(self, query: Query, candidates: Candidates) -> np.ndarray:
        """Scores, float32 [C], higher is better, in the order of the candidates."""

    def score_many(self, queries: Sequence[Query], candidates: Sequence[Candidates]) -> list[np.ndarray]:
        """Scores of several queries' candidates, float32 [C] each: the same as one query at a time gives."""
        return [self.score(query, found) for query, found in zip(queries, candidates)]

    def encode_for_now(self, rows: np.ndarray) -> None:
        """Prepare for many queries over the same documents, rows int64 [n] of the index; a model was trained."""


class Adopted(Scorer):
    """A :class:`Reranker` that is no :class:`Scorer`, as one.

    Raises:
        InputError: it has no ``score``, or declares what only a Scorer can.
    """

    def __init__(self, reranker: Reranker):
        known = set(dir(reranker))
        if "score" not in known:
            raise InputError(f"{_described(reranker)} is no reranker: it has no method score(query, candidates)")
        if more := sorted({"listwise", "score_many"} & known):
            raise InputError(f"{_described(reranker)} has {more[0]}, so it must be a subclass of {__name__}.Scorer")
        self.reranker = reranker
        self.name = reranker.name if "name" in known else type(reranker).__name__

    def score(self, query: Query, candidates: Candidates) -> np.ndarray:
        return self.reranker.score(query, candidates)


def as_scorer(reranker: Reranker | Scorer) -> Scorer:
    """Any reranker as a :class:`Scorer`.

    Raises:
        InputError: it is none.
    """
    return reranker if isinstance(reranker, Scorer) else Adopted(reranker)


def score_many(reranker: Reranker, queries: Sequence[Query], candidates: Sequence[Candidates]) -> list[np.ndarray]:
    """Scores of several queries' candidates, float32 [C] each."""
    return as_scorer(reranker).score_many(queries, candidates)


def _described(reranker: object) -> str:
    return f"{type(reranker).__module__}.{type(reranker).__qualname__}"
