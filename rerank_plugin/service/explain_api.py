"""``/v1/{index}/explain``: what the score of a document is made of, and why it moved."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from rerank_plugin.base import records
from rerank_plugin.base.filters import Filter
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.ranking.explanation import Explanation
from rerank_plugin.service.answers import IndexAnswer, QueryText
from rerank_plugin.service.errors import documented, naming
from rerank_plugin.service.served_index import ServedIndex
from rerank_plugin.service.state import Service, service_of

router = APIRouter(prefix="/v1", tags=["search"])


class ExplainParameters(BaseModel):
    """The parameters of an explanation."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1)
    docid: str = Field(description="One of the candidates of the query.")
    reranker: str | None = Field(
        None, description="A served reranker, none for the first stage alone, or a cascade, as in delta,bert@20."
    )
    first_stage: str | None = Field(None, description="A first stage that the index serves.")
    depth: int | None = Field(None, ge=1, description="Candidates that the first stage retrieves and are re-ranked.")
    filter: list[str] = Field([], description="As in the search: it decides which candidates there are.")


class ExplainAnswer(IndexAnswer):
    """Why a document has its score: ``base``, the side that ``adds_up`` names, and ``features`` add up to it."""

    query: QueryText
    docid: str
    reranker: str
    title: str
    abstract: str
    metadata: dict[str, Any] = Field(
        description="What else is stored: date, journal, authors, mesh, types, languages, retracted, url."
    )
    rank: int
    score: float
    first_stage_rank: int
    first_stage_score: float
    sentence: str = Field(description="Why it moved.")
    base: float = Field(description="The score without the document's words and with average features.")
    exact: bool = Field(description="Whether the sum is the score by definition, or by integrated gradients.")
    error: float = Field(description="By how much the sum misses the score.")
    adds_up: str | None = Field(description="The side whose contributions are added.")
    unread: int = Field(description="Words of the document that the reranker does not read.")
    query_words: list[dict[str, Any]]
    document_words: list[dict[str, Any]]
    features: list[dict[str, Any]]
    matrix: list[list[float]] = Field(description="Query words by document words.")
    matrix_name: str | None
    pooled: list[list[int]] = Field(description="Cells of the matrix that the model kept.")


@router.get("/{index}/explain", responses=documented(400, 401, 404, 429, 503))
async def explain(request: Request, index: str, parameters: Annotated[ExplainParameters, Query()]) -> ExplainAnswer:
    """What the score of a document is made of, and why it moved against the first stage."""
    service = service_of(request)
    with service.scheduler.admitted(), service.collections.used() as served:
        return await explained(service, served.index(index), parameters)


async def explained(service: Service, index: ServedIndex, asked: ExplainParameters) -> ExplainAnswer:
    """The answer; a `RequestError` if the document is no candidate, or a parameter is unknown or beyond a limit."""
    service.check_words(asked.query, "query")
    stage, name = asked.first_stage or service.config.first_stage_name, asked.reranker or service.default_reranker
    index.reranker(name)
    with naming("filter"):
        kept = Filter.parse(asked.filter) if asked.filter else None
    query = records.Query(asked.query, asked.query, kept)
    depth = service.depth(asked.depth)

    def retrieved() -> tuple[records.Query, Candidates, str, str, str]:
        return query, index.candidates(query, stage, depth), asked.docid, name, stage

    def answer(found: Explanation) -> ExplainAnswer:
        return ExplainAnswer(index=index.name, **found.as_json() | {"reranker": name})

    return await service.scheduler.together(retrieved, index.explain_together, answer)
