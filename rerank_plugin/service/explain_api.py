"""``/v1/{index}/explain``: the parts of a document's score, and why its rank changed."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import ConfigDict, Field

from rerank_plugin.base import records
from rerank_plugin.base.filters import Filter
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.ranking.explanation import Explanation
from rerank_plugin.rerankers import Scorer
from rerank_plugin.service.answers import IndexAnswer, QueryText
from rerank_plugin.service.errors import error_responses, field_errors
from rerank_plugin.service.highlighting import places
from rerank_plugin.service.parameters import MOST_FILTERS, Depth, QueryLines, QuerySyntax, RerankerName, StageName
from rerank_plugin.service.served_index import ServedIndex
from rerank_plugin.service.state import Service, get_service

router = APIRouter(prefix="/v1", tags=["search"])


class ExplainParameters(QuerySyntax):
    """The parameters of an explanation."""

    model_config = ConfigDict(extra="forbid")

    query: QueryLines = Field(min_length=1)
    docid: str = Field(description="Id of a candidate of the query.")
    reranker: RerankerName = None
    first_stage: StageName = None
    depth: Depth = None
    filter: list[str] = Field(
        default=[], max_length=MOST_FILTERS, description="The filters of the search, which restrict its candidates."
    )


class ExplainAnswer(IndexAnswer):
    """The parts of a score: ``base``, the contributions of the side ``adds_up`` and of ``features`` sum to it."""

    query: QueryText
    docid: str
    reranker: str
    title: str
    abstract: str
    metadata: dict[str, Any] = Field(
        description="Other stored fields: date, journal, authors, mesh, types, languages, retracted, url."
    )
    rank: int
    score: float
    first_stage_rank: int
    first_stage_score: float
    words: dict[str, list[str]] = Field(
        description="The query's words by where the document has them: title, else abstract, else neither."
    )
    sentence: str = Field(description="Why the rank changed.")
    base: float = Field(description="The score without the document's words and with average features.")
    exact: bool = Field(description="False if the parts are approximated by integrated gradients.")
    error: float = Field(description="Difference between the sum of the parts and the score.")
    adds_up: str | None = Field(description="The side whose contributions are part of the sum.")
    unread: int = Field(description="Number of document words beyond those that the reranker reads.")
    query_words: list[dict[str, Any]]
    document_words: list[dict[str, Any]]
    features: list[dict[str, Any]]
    matrix: list[list[float]] = Field(description="Query words by document words.")
    matrix_name: str | None
    pooled: list[list[int]] = Field(description="Cells of the matrix that the model's pooling kept.")


@router.get("/{index}/explain", responses=error_responses(400, 401, 404, 429, 503))
async def explain(request: Request, index: str, parameters: Annotated[ExplainParameters, Query()]) -> ExplainAnswer:
    """The parts of a document's score, and why its rank differs from the first stage's."""
    service = get_service(request)
    with service.scheduler.admitted(), service.collections.in_use() as snapshot:
        return await explain_document(service, snapshot.index(index), parameters)


async def explain_document(service: Service, index: ServedIndex, parameters: ExplainParameters) -> ExplainAnswer:
    """The answer; a `RequestError` if the document is not a candidate, or a parameter is invalid."""
    service.check_text(parameters.query, "query")
    stage, name = index.ranked_by(parameters.first_stage, parameters.reranker)
    served = index.reranker(name)  # an unknown name is refused before the query waits
    with field_errors("filter"):
        document_filter = Filter.parse(parameters.filter) if parameters.filter else None
    text = parameters.text(parameters.query)
    query = records.Query(text, text, document_filter)
    depth = service.depth(parameters.depth)

    def retrieve() -> tuple[records.Query, Candidates, str, Scorer | None, str]:
        reading = index.read(query, parameters)
        pipeline = index.pipeline(stage, name, depth, parameters.depth is None)
        with field_errors("filter"):
            candidates = pipeline.candidates(reading.query)
        return reading.query, candidates, parameters.docid, pipeline.scorer, stage

    def answer(explanation: Explanation) -> ExplainAnswer:
        words = places(explanation.query, explanation.title, explanation.abstract)
        return ExplainAnswer(index=index.name, words=words, **explanation.as_json() | {"reranker": name})

    if served is not None and not served.explains:  # others' scores do not wait for torch
        await service.scheduler.slowly(served.load_explanations)
    return await service.scheduler.batched(retrieve, index.explain_together, answer, large=True)
