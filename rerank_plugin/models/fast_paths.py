"""Base classes of fast paths: faster implementations of a model's scores. Imports no torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from rerank_plugin.base.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import IndexQuery
from rerank_plugin.kernels.parallel import Workspace, split
from rerank_plugin.kernels.quantization import Spaces
from rerank_plugin.models.base import C, RerankerOptions

if TYPE_CHECKING:
    from rerank_plugin.indexes.vector_store import VectorStore
    from rerank_plugin.inputs.builder import InputBuilder, ModelQuery
    from rerank_plugin.models.ranking_model import RankingModel, TextEncodingModel
    from rerank_plugin.models.reader import Reader

T = TypeVar("T", bound="_ArrayScorer")


@dataclass
class ScoringTask:
    """One query and its candidates as model input; ``scores`` is float32 [C], None until the scores are computed."""

    query: Query
    candidates: Candidates
    terms: IndexQuery
    words: ModelQuery
    scores: np.ndarray | None = None


class _ArrayScorer(ABC, Generic[C]):
    """The base of classes that score on the CPU from a model's configuration and weights, without its module.

    Args:
        config: the model's configuration.
        arrays: the weights by name, and the word vectors, as in :meth:`~rerank_plugin.models.reader.Reader.arrays`.
        builder: the input builder of the candidates' index.
        threads: number of threads that share the words, documents or queries.

    Attributes:
        decodes: whether quantized word vectors are decoded for the class; otherwise ``arrays`` may hold an
            :class:`~rerank_plugin.text.word_vectors.EmbeddingTable`, as in
            :meth:`~rerank_plugin.models.reader.Reader.stored_arrays`.
    """

    decodes: ClassVar[bool] = True

    def __init__(self, config: C, arrays: Mapping[str, Any], builder: InputBuilder, threads: int):
        self.config, self.builder, self.threads = config, builder, threads
        self.workspace = Workspace()

    @classmethod
    def open(cls: type[T], model: Reader, builder: InputBuilder, threads: int) -> T | None:
        """The scorer of a model in eval mode on the CPU; None if another requirement is missing."""
        return cls(model.config, model.arrays() if cls.decodes else model.stored_arrays(), builder, threads)


class FastPath(_ArrayScorer[C]):
    """Computes a model's scores on the CPU, in the package's threads.

    Constructor: ``Path(config, arrays, builder, threads)``.

    Attributes:
        threads: number of threads that share the documents or queries.
        gathers_words: whether the path calls :func:`~rerank_plugin.inputs.interactions.candidate_words`; benchmarks
            measure its time separately.
        of_index: whether the path holds data of the index's words or documents; it is rebuilt when the texts of an
            in-memory index change.
    """

    gathers_words: ClassVar[bool] = True
    of_index: ClassVar[bool] = False

    @abstractmethod
    def score(self, terms: IndexQuery, query: ModelQuery, candidates: Candidates) -> np.ndarray:
        """Scores, float32 [C]."""

    def score_many(self, tasks: Sequence[ScoringTask]) -> list[np.ndarray]:
        """Scores of each task, float32 [C]. Threads share the tasks, or the documents of a single task."""
        if len(tasks) == 1:
            return [self.score(tasks[0].terms, tasks[0].words, tasks[0].candidates)]
        scores = [np.zeros(0, np.float32)] * len(tasks)

        def score_part(start: int, stop: int) -> None:
            for place in range(start, stop):
                task = tasks[place]
                scores[place] = self.score(task.terms, task.words, task.candidates)

        split(score_part, len(tasks), self.threads, smallest=1)
        return scores


class ModulePath(ABC):
    """Computes a module's scores with torch, in torch's threads. Constructor: ``Path(model, builder, options)``.

    The module is in eval mode, on the device of the options. The attributes are those of a :class:`FastPath`.
    """

    gathers_words: ClassVar[bool] = False
    of_index: ClassVar[bool] = True

    @abstractmethod
    def __init__(self, model: RankingModel, builder: InputBuilder, options: RerankerOptions): ...

    @classmethod
    def open(cls, model: RankingModel, builder: InputBuilder, options: RerankerOptions) -> FastPath | ModulePath | None:
        """The path; that on the CPU where a device gains nothing; None if another requirement is missing."""
        return cls(model, builder, options)

    @abstractmethod
    def score_many(self, tasks: Sequence[ScoringTask]) -> list[np.ndarray]:
        """Scores of each task's candidates, float32 [C]; under ``torch.inference_mode``."""


class EncodingScorer(_ArrayScorer[C]):
    """Computes a model's scores from document encodings. Constructor: ``Scorer(config, arrays, builder, threads)``."""

    is_inner_product: ClassVar[bool] = False

    @property
    @abstractmethod
    def widths(self) -> Sequence[int]:
        """Numbers of an encoding in each space; the 8-bit codes that are stored have a scale for each."""

    @property
    def spaces(self) -> Spaces:
        return Spaces(self.widths)

    @abstractmethod
    def score(self, terms: IndexQuery, query: ModelQuery, candidates: Candidates, store: VectorStore) -> np.ndarray:
        """Scores, float32 [C], from the stored encodings of the candidates."""


class InnerProductScorer(EncodingScorer[C]):
    """Scores by the inner product of the encodings of query and document; dense retrieval can search with it."""

    is_inner_product = True

    @property
    def widths(self) -> Sequence[int]:
        return (len(self.factors),)

    @property
    @abstractmethod
    def factors(self) -> np.ndarray:
        """The factors by which the model multiplies the components of a query's encoding, float32 [E]."""

    @abstractmethod
    def encode(self, terms: IndexQuery, query: ModelQuery) -> np.ndarray:
        """The encoding of a query, float32 [E]."""

    def score(self, terms: IndexQuery, query: ModelQuery, candidates: Candidates, store: VectorStore) -> np.ndarray:
        return store.scores(self.encode(terms, query), candidates.rows, self.threads)


class TextScorer(InnerProductScorer[C]):
    """Scores of a model that reads texts; its module encodes the queries. Constructor: ``Scorer(model, ..)``."""

    def __init__(self, model: TextEncodingModel[C], builder: InputBuilder, threads: int):
        super().__init__(model.config, {}, builder, threads)
        self.model = model

    @classmethod
    def open(cls, model, builder, threads):
        return cls(model, builder, threads)
