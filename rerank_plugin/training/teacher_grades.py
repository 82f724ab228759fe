"""Grades of candidates by a sentence encoder, from which rerankers are distilled as if from judgments.

The grade of a candidate is ``w t + (1 - w) s``, where t is the cosine of the teacher's vectors of query and document
and s the score of the first stage or of a reranker, both min-max normalized to [0, 1] over the query's candidates. A
student learns the differences of grades by the loss ``margin`` (Hofstätter et al., Improving efficient neural ranking
models with cross-architecture knowledge distillation, arXiv:2010.02666).

Letters in shapes: R documents of the index, E dimension of the teacher.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Judgments, Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.inputs.text_builder import TextBuilder
from rerank_plugin.ranking.scores import checked_scores
from rerank_plugin.rerankers import load
from rerank_plugin.retrieval.fusion import min_max
from rerank_plugin.training.distillation import Teacher

# Default hyper-parameters and training settings of the students; chosen on two collections' validation queries.
STUDENTS: Mapping[str, Mapping[str, Any]] = {
    "delta": {
        "query_words": 16,
        "dropout": 0.5,
        "lexical_features": ["first_stage_share", "vector_cosine", "vector_matches"],
    },
    "pacrr": {},
}
TRAINING = {"loss": "margin", "weights": "none", "sampling": "balanced", "pairs_per_query": 4, "patience": 2}


@dataclass(frozen=True)
class TeacherGrades:
    """Grades candidates; every document of their index is encoded once and kept in the teacher's cache.

    Attributes:
        weight: w, the teacher's share of a grade.
        reranker: name of the reranker that gives s; None for the first stage.

    Raises:
        InputError: the weight is not between 0 and 1.
    """

    teacher: Teacher
    weight: float = 0.5
    reranker: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 1:
            raise InputError(f"the teacher's weight {self.weight:g} must be between 0 and 1")

    @property
    def description(self) -> dict:
        """The settings of the grades, as JSON values."""
        return {"teacher": self.teacher.checksum, "teacher_weight": self.weight, "fused_with": self.reranker}

    def __call__(
        self, index: ForwardIndex, queries: Sequence[Query], candidates: Mapping[str, Candidates]
    ) -> Judgments:
        """The grades of the candidates of each query, by query and document id."""
        stored = TextBuilder(index, 0).stored(np.arange(len(index)))
        texts = [" ".join(filter(None, (document.title, document.abstract))) for document in stored]
        documents = self.teacher.encode(texts, "encoding documents")  # [R, E]
        query_vectors = self.teacher.encode([query.text for query in queries], "queries")
        scorer = None if self.reranker is None else load(self.reranker, index)
        grades: Judgments = {}
        for query, vector in zip(queries, query_vectors):
            graded = candidates[query.id]
            scores = checked_scores([query], [graded], scorer)[0] if scorer else graded.first_stage_scores
            fused = self.weight * min_max(documents[graded.rows] @ vector) + (1 - self.weight) * min_max(scores)
            grades[query.id] = dict(zip(graded.ids, fused.tolist()))
        return grades
