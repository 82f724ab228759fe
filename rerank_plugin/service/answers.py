"""The bodies of the answers, from which the OpenAPI document is made."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class QueryText(BaseModel):
    """A query as it was asked."""

    text: str


class Highlight(BaseModel):
    """A place in a title or abstract that matches the query."""

    field: str = Field(description="title or abstract")
    start: int = Field(description="First code point.")
    end: int = Field(description="Code point after the last one.")


class Candidate(BaseModel):
    """A document of a ranked list."""

    docid: str
    score: float
    rank: int
    doc: Any = Field(description="The stored document: an object, or with parse=false the string that is stored.")
    title: str
    first_stage_rank: int
    first_stage_score: float
    highlights: list[Highlight]


class Timings(BaseModel):
    """Milliseconds of the stages of a query."""

    first_stage_ms: float
    features_ms: float = Field(description="Computing what the reranker reads, of all queries scored together.")
    model_ms: float = Field(description="The rest of scoring, of all queries scored together.")
    total_ms: float = Field(description="From the request to the answer, waiting included.")


class IndexAnswer(BaseModel):
    """What begins the answers about one index."""

    api: str = "v1"
    index: str


class SearchAnswer(IndexAnswer):
    """The ranked list of one query."""

    query: QueryText
    candidates: list[Candidate]
    reranker: str = Field(description="Its name, or none.")
    first_stage: str
    depth: int
    total: int = Field(description="How many candidates the first stage found, at most the depth.")
    reranked: bool = Field(description="False if no reranker was asked for, or the deadline passed before it was done.")
    timings: Timings
    notes: list[str] = Field([], description="Lines on the query that its reader should see, beside the ranking.")


class SearchAnswers(IndexAnswer):
    """The ranked lists of several queries."""

    results: list[SearchAnswer]


class DocumentAnswer(IndexAnswer):
    """A stored document."""

    docid: str
    doc: Any


class IndexDescription(BaseModel):
    """What can be asked of an index."""

    name: str
    documents: int
    first_stages: list[str]
    rerankers: list[str]
    summaries: dict[str, str] = Field({}, description="What each reranker is good for, as far as that is known.")
    fields: list[str] = Field(description="Fields to filter by.")
    suggestions: list[str] = Field(description="Queries to try.")
    default: bool


class IndexesAnswer(BaseModel):
    """All indexes of the service."""

    indexes: list[IndexDescription]
    reranker: str = Field(description="The one that is used where a request names none.")
    clicks: bool = Field(description="Whether clicks are logged: send them to /v1/{index}/click.")
