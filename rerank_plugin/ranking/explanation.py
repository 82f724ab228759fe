"""The records of an explanation: the parts of one document's score, and the reasons for its rank."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rerank_plugin.models.attribution import ScorePart

READABLE = 4  # decimals of a similarity in JSON


@dataclass(frozen=True)
class QueryWord:
    """A word of the query that the reranker reads.

    Attributes:
        text: as written. start, end: its characters in the query.
        known: whether the reranker can compare it, for example by a word vector.
        contribution: its part of the sum of the document words' contributions; None if the sum cannot be divided so.
    """

    text: str
    start: int
    end: int
    known: bool
    contribution: float | None


@dataclass(frozen=True)
class DocumentWord:
    """A word of the document that the reranker reads.

    Attributes:
        text: as written.
        field: ``title`` or ``abstract``. start, end: its characters in the field.
        contribution: its part of the score; None if unknown.
        closest: the place of the query word that it is compared with; None if it is similar to none.
        similarity: of the two words; None without a matrix.
        details: further values of the model for this word, by name.
    """

    text: str
    field: str
    start: int
    end: int
    contribution: float | None
    closest: int | None
    similarity: float | None
    details: dict[str, Any]


@dataclass(frozen=True)
class Explanation:
    """The reasons for a document's score and rank.

    ``base`` and the contributions of ``document_words`` and ``features`` add up to ``score``.

    Attributes:
        query: text of the query.
        docid: the document's external id; its place in the list for texts without an index.
        reranker: name of the reranker; None for the first stage alone.
        title: of the document, as stored, or else the words of the index.
        abstract: the same.
        metadata: of the document (:mod:`rerank_plugin.base.filters`); may be empty.
        rank: after re-ranking, from 1 on.
        score: after re-ranking.
        first_stage_rank: before re-ranking.
        first_stage_score: before re-ranking.
        sentence: the reasons for the change of rank, in words.
        base: the score without the document's words and with average features.
        exact: whether the sum equals the score up to rounding; otherwise contributions are integrated gradients.
        error: absolute difference of the sum and the score.
        adds_up: ``document_words``; None for a reranker without attributions.
        unread: number of the document's words that the reranker does not read.
        query_words: the words that the reranker reads, with their contributions.
        document_words: the same for the document.
        features: lexical features, and concepts.
        matrix: similarities, query words by document words; empty if there are none.
        matrix_name: name of the similarity.
        pooled: (query word, document word) of the cells that the model kept.
    """

    query: str
    docid: str
    reranker: str | None
    title: str
    abstract: str
    metadata: dict[str, Any]
    rank: int
    score: float
    first_stage_rank: int
    first_stage_score: float
    sentence: str
    base: float
    exact: bool
    error: float
    adds_up: str | None
    unread: int
    query_words: list[QueryWord]
    document_words: list[DocumentWord]
    features: list[ScorePart]
    matrix: list[list[float]]
    matrix_name: str | None
    pooled: list[tuple[int, int]]

    def as_json(self) -> dict[str, Any]:
        """The explanation as JSON values."""
        features = [part._asdict() for part in self.features]
        matrix = [[round(value, READABLE) for value in row] for row in self.matrix]
        pooled = [list(cell) for cell in self.pooled]
        return asdict(self) | {"query": {"text": self.query}, "features": features, "matrix": matrix, "pooled": pooled}
