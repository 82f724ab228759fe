"""Base classes of fast paths: faster implementations of a model's scores. Imports no torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rerank_plugin.base.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import IndexQuery
from rerank_plugin.kernels.parallel import Workspace, split
from rerank_plugin.models.base import ModelConfig, RerankerOptions

if TYPE_CHECKING:
    from rerank_plugin.inputs.builder import InputBuilder, ModelQuery
    from rerank_plugin.models.ranking_model import RankingModel


@dataclass
class Task:
    """One query and its candidates as model input; ``scores`` is float32 [C], None until they are computed."""

    query: Query
    candidates: Candidates
    terms: IndexQuery
    words: ModelQuery
    scores: np.ndarray | None = None


class _OnCpu:
    """What the paths on the CPU are made of.

    Args:
        model: in eval mode, on the CPU.
        builder: the input builder of the candidates' index.
        threads: how many threads share the words, documents or queries.
    """

    def __init__(self, model: RankingModel, builder: InputBuilder, threads: int):
        self.config, self.builder, self.threads = model.config, builder, threads
        self.workspace = Workspace()


class FastPath(_OnCpu, ABC):
    """Computes the module's scores on the CPU. Constructor: ``Path(model, builder, threads)``, the model in eval mode.

    Attributes:
        threads: how many threads share the documents or queries.
        gathers_words: whether it uses :func:`~rerank_plugin.inputs.interactions.candidate_words`, whose time
            benchmarks then measure separately.
        of_index: whether it is made of the index's words or documents: made anew when an index of texts gets others.
        of_torch: whether it computes in torch's threads; ours would be in their way.
    """

    gathers_words: ClassVar[bool] = True
    of_index: ClassVar[bool] = False
    of_torch: ClassVar[bool] = False

    @classmethod
    def weight_shapes(cls, config: ModelConfig, dimension: int) -> dict[str, tuple[int, ...]]:
        """The shapes of a checkpoint's weights by name; of an entry that is ``stored``.

        Args:
            dimension: of the word vectors, D.
        """
        raise NotImplementedError

    @classmethod
    def open(cls, model: RankingModel, builder: InputBuilder, threads: int) -> FastPath | None:
        """The fast path; None if something else that it needs, such as stored encodings, is missing."""
        return cls(model, builder, threads)

    @abstractmethod
    def score(self, terms: IndexQuery, query: ModelQuery, candidates: Candidates) -> np.ndarray:
        """Scores, float32 [C]."""

    def score_many(self, tasks: Sequence[Task]) -> list[np.ndarray]:
        """Scores of each task, float32 [C]. Threads share the tasks, or the documents if there is only one task."""
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
    """Computes the module's scores on a device. Constructor: ``Path(model, builder, options)``, in eval mode there."""

    gathers_words: ClassVar[bool] = False
    of_index: ClassVar[bool] = True
    of_torch: ClassVar[bool] = True

    @abstractmethod
    def __init__(self, model: RankingModel, builder: InputBuilder, options: RerankerOptions): ...

    @classmethod
    def open(cls, model: RankingModel, builder: InputBuilder, options: RerankerOptions) -> DevicePath | None:
        """The device path; None if something else that it needs is missing."""
        return cls(model, builder, options)

    @abstractmethod
    def score_many(self, tasks: Sequence[Task]) -> list[np.ndarray]:
        """Scores of each task's candidates, float32 [C]."""


class EncodingScorer(_OnCpu, ABC):
    """Computes the module's scores from document encodings. Constructor: ``Scorer(model, builder, threads)``."""

    @abstractmethod
    def score(
        self, terms: IndexQuery, query: ModelQuery, candidates: Candidates, vectors: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        """Scores, float32 [C], from the candidates' ``rows`` int64 [C] of ``vectors`` float32 [any, E]."""


class InnerProductScorer(EncodingScorer):
    """Scores by the inner product of a query's and a document's encoding, which dense retrieval can search by."""

    @property
    @abstractmethod
    def longest_encoding(self) -> float:
        """An upper bound of the Euclidean norm of a document's encoding, rounding included; infinite if unknown."""

    @property
    @abstractmethod
    def factors(self) -> np.ndarray:
        """The factors that the model multiplies the components of a query's encoding with, float32 [E]."""

    @abstractmethod
    def encode(self, terms: IndexQuery, query: ModelQuery) -> np.ndarray:
        """The encoding of a query, float32 [E]."""

    def inner_products(self, query: np.ndarray, vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """``vectors[rows] @ query``, float32 [C], of vectors float32 [any, E] and rows int64 [C]."""
        from rerank_plugin.kernels.inner_products import inner_products  # numba is slow to import

        return inner_products(query, vectors, rows, self.threads)

    def score(
        self, terms: IndexQuery, query: ModelQuery, candidates: Candidates, vectors: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        return self.inner_products(self.encode(terms, query), vectors, rows)
