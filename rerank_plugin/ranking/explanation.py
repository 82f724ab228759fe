"""The records of an explanation: what the score of one document is made of, and why it stands where it does."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rerank_plugin.models.attribution import Part

READABLE = 4  # decimals of a similarity in JSON


@dataclass(frozen=True)
class QueryWord:
    """A word of the query that the reranker reads.

    Attributes:
        text: as it was written. start, end: its characters in the query.
        known: whether the reranker has something to compare with it, such as a word vector.
        contribution: its share of what the document's words add; None where the sum cannot be divided so.
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
        text: as it was written.
        field: ``title`` or ``abstract``. start, end: its characters in the field.
        contribution: what it adds to the score; None where that is not known.
        closest: the place of the query word that it is compared with; None if it is like none.
        similarity: of the two; None where there is no matrix.
        details: what else the model knows of it.
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
    """Why a document has its score and its rank.

    ``base``, the contributions of ``document_words`` and those of ``features`` add up to ``score``.

    Attributes:
        query: its text.
        docid: the document's external id; of texts without an index, their place in the list.
        reranker: its name; None for the first stage alone.
        title: of the document, as it was indexed, or where it is not stored as the index's words.
        abstract: the same.
        metadata: what else is known of the document (:mod:`rerank_plugin.base.filters`); empty for nothing.
        rank: the reranker's, from 1 on.
        score: the reranker's.
        first_stage_rank: before re-ranking.
        first_stage_score: before re-ranking.
        sentence: why it moved, in words.
        base: the score without the document's words and with average features.
        exact: whether only rounding separates the sum from the score; otherwise integrated gradients were summed up.
        error: by how much the sum misses the score.
        adds_up: ``document_words``; None of a reranker that does not say what its scores are made of.
        unread: how many words of the document the reranker does not read.
        query_words: those that the reranker reads, each with its contribution.
        document_words: the same of the document.
        features: lexical features, and concepts.
        matrix: similarities, query words by document words; empty where there are none.
        matrix_name: what these are.
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
    features: list[Part]
    matrix: list[list[float]]
    matrix_name: str | None
    pooled: list[tuple[int, int]]

    def as_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        features = [part._asdict() for part in self.features]
        matrix = [[round(value, READABLE) for value in row] for row in self.matrix]
        pooled = [list(cell) for cell in self.pooled]
        return asdict(self) | {"query": {"text": self.query}, "features": features, "matrix": matrix, "pooled": pooled}
