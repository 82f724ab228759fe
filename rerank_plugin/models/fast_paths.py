"""What a fast path is: the scores of a model, computed another way. The base classes; needs no torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Sequence

import numpy as np

from rerank_plugin.files.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import IndexQuery
from rerank_plugin.kernels.parallel import split
from rerank_plugin.models.base import RerankerOptions

if TYPE_CHECKING:
    from rerank_plugin.features.inputs import InputBuilder, ModelQuery
    from rerank_plugin.models.ranking_model import RankingModel


@dataclass
class Task:
    """One query with its candidates, as the model reads it; ``scores`` float32 [C] once they are known."""

    query: Query
    candidates: Candidates
    terms: IndexQuery
    words: ModelQuery
    scores: np.ndarray | None = None


class FastPath(ABC):
    """Scores on the CPU what the module scores; made as ``Path(model, builder, threads)`` of a model in eval mode.

    Attributes:
        threads: over which documents, or queries, are split.
        gathers_words: whether it reads the candidates' words as
            :func:`~rerank_plugin.features.interactions.candidate_words` gathers them, which is then measured by itself.
    """

    gathers_words: ClassVar[bool] = True
    threads: int

    @abstractmethod
    def __init__(self, model: RankingModel, builder: InputBuilder, threads: int): ...

    @classmethod
    def open(cls, model: RankingModel, builder: InputBuilder, threads: int) -> FastPath | None:
        """The fast path; None where something that it needs beside the model is missing."""
        return cls(model, builder, threads)

    @abstractmethod
    def score(self, terms: IndexQuery, query: ModelQuery, candidates: Candidates) -> np.ndarray:
        """Scores, float32 [C]."""

    def score_many(self, tasks: Sequence[Task]) -> list[np.ndarray]:
        """Scores of each task, float32 [C]: of one its documents are split over the threads, of several the queries."""
        if len(tasks) == 1:
            return [self.score(tasks[0].terms, tasks[0].words, tasks[0].candidates)]
        scores = [np.zeros(0, np.float32)] * len(tasks)

        def score_part(start: int, stop: int) -> None:
            for place in range(start, stop):
                task = tasks[place]
                scores[place] = self.score(task.terms, task.words, task.candidates)

        split(score_part, len(tasks), self.threads, smallest=1)
        return scores


class DevicePath(ABC):
    """The same on a device; made as ``Path(model, builder, options)`` of a model in eval mode on that device."""

    gathers_words: ClassVar[bool] = False

    @abstractmethod
    def __init__(self, model: RankingModel, builder: InputBuilder, options: RerankerOptions): ...

    @classmethod
    def open(cls, model: RankingModel, builder: InputBuilder, options: RerankerOptions) -> DevicePath | None:
        """The device path; None where something that it needs beside the model is missing."""
        return cls(model, builder, options)

    @abstractmethod
    def score_many(self, tasks: Sequence[Task]) -> list[np.ndarray]:
        """Scores of each task's candidates, float32 [C]."""


class EncodingScorer(ABC):
    """Scores candidates from their encodings as the module does; made as ``Scorer(model, builder, threads)``."""

    @abstractmethod
    def __init__(self, model: RankingModel, builder: InputBuilder, threads: int): ...

    @abstractmethod
    def score(
        self, terms: IndexQuery, query: ModelQuery, candidates: Candidates, vectors: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        """Scores, float32 [C], from the candidates' ``rows`` int64 [C] of ``vectors`` float32 [any, E]."""


class InnerProductScorer(EncodingScorer):
    """Scores that are inner products of a query's and a document's encoding: with them an index is searched, too."""

    @property
    @abstractmethod
    def longest_encoding(self) -> float:
        """What no document's encoding is longer than, rounding included."""

    @property
    @abstractmethod
    def factors(self) -> np.ndarray:
        """What the numbers of a query's encoding were multiplied with after they were made, float32 [E]."""

    @abstractmethod
    def encode(self, terms: IndexQuery, query: ModelQuery) -> np.ndarray:
        """The encoding of a query, float32 [E]."""

    @abstractmethod
    def inner_products(self, query: np.ndarray, vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """``vectors[rows] @ query``, float32 [C], of vectors float32 [any, E] and rows int64 [C]."""

    def score(
        self, terms: IndexQuery, query: ModelQuery, candidates: Candidates, vectors: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        return self.inner_products(self.encode(terms, query), vectors, rows)
