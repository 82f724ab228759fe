"""The bodies of answers; FastAPI derives the OpenAPI document from them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class QueryText(BaseModel):
    """A query as the client sent it, with spaces for other white space."""

    text: str


class Highlight(BaseModel):
    """A word of a title or abstract that matches the query; offsets count code points."""

    field: str = Field(description="title or abstract")
    start: int = Field(description="First code point.")
    end: int = Field(description="Code point after the last one.")


class Candidate(BaseModel):
    """A document of a ranked list."""

    docid: str
    score: float
    rank: int
    doc: Any = Field(description="The stored document: an object, or with parse=false the stored string.")
    title: str
    first_stage_rank: int
    first_stage_score: float
    highlights: list[Highlight]


class Timings(BaseModel):
    """Milliseconds of the stages of a query."""

    first_stage_ms: float
    features_ms: float = Field(description="Feature extraction, for all queries of the batch.")
    model_ms: float = Field(description="The rest of scoring, for all queries of the batch.")
    total_ms: float = Field(description="From the request to the answer, including waiting.")


class IndexAnswer(BaseModel):
    """The first fields of all answers about an index."""

    api: str = "v1"
    index: str


class Shards(BaseModel):
    """The shards of an index that answered a search."""

    total: int
    successful: int
    failed: int = Field(description="Shards that did not answer: the ranking lacks their documents.")
    missing: list[int] = Field(description="Their numbers, from 0 on.")
    missing_documents: float = Field(description="The share of all documents that they hold, from 0 to 1.")


class SearchAnswer(IndexAnswer):
    """The ranked list of one query."""

    query: QueryText
    candidates: list[Candidate]
    reranker: str = Field(description="Name of the reranker, or none.")
    first_stage: str
    depth: int
    total: int = Field(description="Number of candidates, at most the depth.")
    read_as: str | None = Field(
        default=None, description="How query_syntax=pubmed read the query, in PubMed's language; null for plain words."
    )
    matches: int | None = Field(
        default=None, description="Exact number of documents that match what read_as says; null for plain words."
    )
    did_you_mean: str | None = Field(
        default=None, description="The query with words of the index for those that no document has, or null."
    )
    reranked: bool = Field(description="False without a reranker, or if the deadline passed before scoring.")
    timings: Timings
    notes: list[str] = Field(default=[], description="Warnings about the query, to show beside the ranking.")
    shards: Shards | None = Field(
        default=None, description="Of a ranking that lacks documents: what is missing. Without it, none are."
    )


class SearchAnswers(IndexAnswer):
    """The ranked lists of several queries."""

    results: list[SearchAnswer]


class DocumentAnswer(IndexAnswer):
    """A stored document."""

    docid: str
    doc: Any
    highlights: list[Highlight] = Field(default=[], description="The words that match the query, if one is given.")


class Recommended(BaseModel):
    """The first stage and the reranker to read an index by: those with the best measured rankings."""

    first_stage: str
    reranker: str


class IndexDescription(BaseModel):
    """An index with the first stages, rerankers and filter fields that requests can name."""

    name: str
    documents: int
    first_stages: list[str]
    rerankers: list[str]
    summaries: dict[str, str] = Field(default={}, description="A line on each reranker: its kind and its uses.")
    recommended: Recommended
    fields: list[str] = Field(description="Fields to filter by.")
    suggestions: list[str] = Field(description="Queries to try.")
    default: bool


class IndexesAnswer(BaseModel):
    """All indexes of the service."""

    indexes: list[IndexDescription]
    refused: dict[str, str] = Field(default={}, description="Indexes that could not be opened, and why.")
    reranker: str = Field(description="Default reranker of requests.")
    clicks: bool = Field(description="Whether the service logs clicks, sent to /v1/{index}/click.")
