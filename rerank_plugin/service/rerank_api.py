"""``/rerank``, ``/v1/rerank`` and ``/v2/rerank``: re-rank the texts of a request, for clients of other services.

Clients of Cohere, Jina and vLLM send ``documents`` and share one answer format. Clients of Text Embeddings Inference
(TEI) send ``texts`` and get TEI's format. Other keys of these services are ignored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Literal
from uuid import uuid4

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, Discriminator, Field, Tag

from rerank_plugin.ranking.reranker import RankedText
from rerank_plugin.service.errors import RequestError, error_responses
from rerank_plugin.service.highlighting import phrases, query_stems
from rerank_plugin.service.served_index import ServedTextReranker
from rerank_plugin.service.state import Service, get_service

router = APIRouter(tags=["rerank"])
LATE = "the deadline passed before the documents were scored: they are in the order of the request"


def _encodable(text: str) -> str:
    """The text; a `ValueError` if it has a lone surrogate, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("the text has half a character (a lone surrogate)") from None
    return text


Text = Annotated[str, Field(strict=True), AfterValidator(_encodable)]


class SpansRequest(BaseModel):
    """Which matches of a document to return."""

    mode: Literal["enabled", "disabled"] = "enabled"
    threshold: float = Field(default=0.1, ge=0, le=1, description="Smallest share of the query's words in a span.")
    max_spans: int = Field(default=3, ge=1, le=100, description="Best spans to return of a document.")


class TextDocument(BaseModel):
    """A document to re-rank."""

    text: Text
    title: Text = ""


class RerankRequest(BaseModel):
    """A request in the format of Cohere, Jina and vLLM."""

    query: Text = Field(min_length=1)
    documents: list[Text | TextDocument]
    model: Text | None = Field(default=None, description="A reranker of the service; the first if absent.")
    top_n: int | None = Field(default=None, ge=1, strict=True, description="Documents to return; all if absent.")
    return_documents: bool | None = Field(
        default=None, description="Default: true, as for Jina, but false at /v2/rerank."
    )
    max_tokens_per_doc: int | None = Field(
        default=None, ge=1, description="Words of a document to read; all if absent."
    )
    relevant_spans: SpansRequest | None = None


class TextsRequest(BaseModel):
    """A request in the format of Text Embeddings Inference. Texts are always truncated to the model's length."""

    query: Text = Field(min_length=1)
    texts: list[Text]
    raw_scores: bool = Field(default=False, description="Return the model's scores, not relevance between 0 and 1.")
    return_text: bool = False
    truncate: bool | None = Field(default=None, description="No effect.")


class Span(BaseModel):
    """A place in a document that matches the query; offsets count code points."""

    start: int
    end: int
    score: float = Field(description="Share of the query's words in the span.")


class RerankResult(BaseModel):
    """A re-ranked document."""

    index: int = Field(description="Place of the document in the request.")
    relevance_score: float = Field(description="Between 0 and 1, increasing with the model's score.")
    document: TextDocument | None = None
    relevant_spans: list[Span] | None = None


class RerankAnswer(BaseModel):
    """The answer to clients of Cohere, Jina and vLLM, best document first."""

    id: str
    model: str
    results: list[RerankResult]
    reranked: bool = Field(description="False if the deadline passed: the results have the order of the request.")
    usage: dict[str, int]
    meta: dict[str, Any] = Field(description="Under warnings: the notes, and a passed deadline.")
    notes: list[str] = Field(default=[], description="Warnings about the query, to show beside the ranking.")


class TextResult(BaseModel):
    """A re-ranked text."""

    index: int = Field(description="Place of the text in the request.")
    score: float
    text: str | None = None


def _format(body: Any) -> str:
    return "texts" if isinstance(body, dict) and "texts" in body else "documents"


AnyRequest = Annotated[
    Annotated[RerankRequest, Tag("documents")] | Annotated[TextsRequest, Tag("texts")], Discriminator(_format)
]
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"model": RerankAnswer | list[TextResult]},
    **error_responses(400, 401, 404, 413, 422, 429, 503),
}


@router.post("/rerank", responses=RESPONSES, response_model=None)
@router.post("/v1/rerank", responses=RESPONSES, response_model=None)
@router.post("/v2/rerank", responses=RESPONSES, response_model=None)
async def rerank(request: Request, body: AnyRequest) -> JSONResponse:
    """Re-rank the documents of a request, which need not be in any index."""
    service = get_service(request)
    with service.scheduler.admitted(), service.collections.in_use() as snapshot:
        if isinstance(body, TextsRequest):
            results = await rerank_texts(service, snapshot.text_reranker(None), body)
            return JSONResponse([result.model_dump(exclude_none=True) for result in results])
        version = "2" if request.url.path.startswith("/v2") else "1"
        answer = await rerank_documents(service, snapshot.text_reranker(body.model), body, version)
        return JSONResponse(answer.model_dump(exclude_none=True))


async def rerank_documents(
    service: Service, reranker: ServedTextReranker, body: RerankRequest, version: str = "2"
) -> RerankAnswer:
    """The answer; a `RequestError` if there is no document, or a limit is exceeded."""
    documents = [
        document if isinstance(document, TextDocument) else TextDocument(text=document) for document in body.documents
    ]
    texts = [f"{document.title} {document.text}" for document in documents]
    words = check_limits(service, body.query, "documents", texts)
    truncated = documents
    if (limit := body.max_tokens_per_doc) is not None:
        truncated = [
            TextDocument(title=document.title, text=_first_words(document.text, limit)) for document in documents
        ]
    inputs = [document.model_dump() for document in truncated]
    return_documents = version == "1" if body.return_documents is None else body.return_documents
    try:
        ranked, late = await _rank(service, reranker, body.query, inputs, body.top_n), False
    except asyncio.TimeoutError:
        ranked = [RankedText(place, text, 0.0, place + 1, 1 / (place + 2)) for place, text in enumerate(inputs)]
        ranked, late = ranked[: body.top_n], True
    results = [
        RerankResult(
            index=text.index,
            relevance_score=text.relevance_score,
            document=documents[text.index] if return_documents else None,
            relevant_spans=_relevant_spans(body, truncated[text.index].text),
        )
        for text in ranked
    ]
    meta: dict[str, Any] = {"api_version": {"version": version}, "billed_units": {"search_units": 1}}
    notes = reranker.notes(body.query)
    if warnings := [LATE] * late + notes:
        meta["warnings"] = warnings
    return RerankAnswer(
        id=str(uuid4()), model=reranker.name, results=results, reranked=not late,
        usage={"prompt_tokens": words, "total_tokens": words}, meta=meta, notes=notes,
    )  # fmt: skip


async def rerank_texts(service: Service, reranker: ServedTextReranker, body: TextsRequest) -> list[TextResult]:
    """The results; a `RequestError` if there is no text, a limit is exceeded, or the deadline passes."""
    check_limits(service, body.query, "texts", body.texts)
    try:
        ranked = await _rank(service, reranker, body.query, body.texts, None)
    except asyncio.TimeoutError:  # this format has no field that says so
        raise RequestError(503, "the deadline passed before the texts were scored", retry_after=1) from None
    return [
        TextResult(
            index=text.index,
            score=text.score if body.raw_scores else text.relevance_score,
            text=text.document if body.return_text else None,
        )
        for text in ranked
    ]


async def _rank(
    service: Service, reranker: ServedTextReranker, query: str, documents: Sequence[Any], top_n: int | None
) -> list[RankedText]:
    """The best documents; an `asyncio.TimeoutError` if the deadline passes."""
    scoring = service.scheduler.batched(
        lambda: (query, documents, top_n), reranker.rank_together, lambda ranked: ranked
    )
    return await asyncio.wait_for(scoring, service.config.deadline)


def check_limits(service: Service, query: str, field: str, texts: Sequence[str]) -> int:
    """The number of words of the texts; a `RequestError` if there is no text, or a limit is exceeded."""
    if not texts:
        raise RequestError(400, f"{field} is empty: send at least one text", field)
    if len(texts) > (limit := service.config.most_documents):
        raise RequestError(413, f"{field} has {len(texts)} texts, but a request may have at most {limit}", field)
    service.check_words(query, "query", 413)
    for text in texts:
        service.check_words(text, field, 413)
    return sum(len(text.split()) for text in texts)


def _first_words(text: str, words: int) -> str:
    """The text up to its ``words``-th word."""
    rest = text.split(maxsplit=words)
    return text[: len(text) - len(rest[-1])] if len(rest) > words else text


def _relevant_spans(body: RerankRequest, text: str) -> list[Span] | None:
    """The best matches of a text, in the order of the text; None if the request does not ask for them."""
    options = body.relevant_spans
    if options is None or options.mode == "disabled":
        return None
    stems = query_stems(body.query)
    spans = [Span(start=start, end=end, score=count / len(stems)) for start, end, count in phrases(stems, text)]
    best = sorted((span for span in spans if span.score >= options.threshold), key=lambda span: -span.score)
    return sorted(best[: options.max_spans], key=lambda span: span.start)
