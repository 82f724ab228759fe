"""``/rerank``, ``/v1/rerank`` and ``/v2/rerank``: texts of the request, as Cohere, Jina, vLLM and TEI have it.

Cohere, Jina and vLLM send ``documents``, and one answer serves all three. Text Embeddings Inference (TEI) sends
``texts`` and gets its own form. Keys that other services know are ignored.
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
from rerank_plugin.service.errors import RequestError, documented
from rerank_plugin.service.highlighting import phrases, query_stems
from rerank_plugin.service.served_index import ServedTexts
from rerank_plugin.service.state import Service, service_of

router = APIRouter(tags=["rerank"])
REFUSED = documented(400, 401, 404, 413, 422, 429, 503)
LATE = "the deadline passed before the documents were scored: they are in the order in which they were sent"


def _whole(text: str) -> str:
    """The text; a `ValueError` if it has half a character, which no answer could hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("the text has half a character (a surrogate without its other half)") from None
    return text


Text = Annotated[str, Field(strict=True), AfterValidator(_whole)]


class SpansRequest(BaseModel):
    """Which matches of a document to tell."""

    mode: Literal["enabled", "disabled"] = "enabled"
    threshold: float = Field(0.1, ge=0, le=1, description="Least share of the query's words that a span has.")
    max_spans: int = Field(3, ge=1, le=100, description="Of a document; the best ones.")


class TextDocument(BaseModel):
    """A document to re-rank."""

    text: Text
    title: Text = ""


class RerankRequest(BaseModel):
    """A request as Cohere, Jina and vLLM have it."""

    query: Text = Field(min_length=1)
    documents: list[Text | TextDocument]
    model: Text | None = Field(None, description="A reranker of the service; the default one if absent.")
    top_n: int | None = Field(None, ge=1, strict=True, description="How many documents to return; all if absent.")
    return_documents: bool | None = Field(None, description="By default true, as for Jina, but false at /v2/rerank.")
    max_tokens_per_doc: int | None = Field(None, ge=1, description="Words of a document that are read.")
    relevant_spans: SpansRequest | None = None


class TextsRequest(BaseModel):
    """A request as Text Embeddings Inference has it. Texts are always cut where the model stops reading."""

    query: Text = Field(min_length=1)
    texts: list[Text]
    raw_scores: bool = Field(False, description="Whether scores are the model's own, or between 0 and 1.")
    return_text: bool = False
    truncate: bool | None = Field(None, description="Has no effect.")


class Span(BaseModel):
    """A place in a document that matches the query; offsets count code points."""

    start: int
    end: int
    score: float = Field(description="Share of the query's words that it has.")


class RerankResult(BaseModel):
    """A document by its place in the request."""

    index: int
    relevance_score: float = Field(description="Between 0 and 1, increasing with the model's score.")
    document: TextDocument | None = None
    relevant_spans: list[Span] | None = None


class RerankAnswer(BaseModel):
    """The answer to Cohere, Jina and vLLM, best document first."""

    id: str
    model: str
    results: list[RerankResult]
    reranked: bool = Field(description="False if the deadline passed: the results are in the order of the request.")
    usage: dict[str, int]
    meta: dict[str, Any] = Field(description="Its warnings are the notes, and the deadline that passed.")
    notes: list[str] = Field([], description="Lines on the query that its reader should see, beside the ranking.")


class TextResult(BaseModel):
    """A text by its place in the request."""

    index: int
    score: float
    text: str | None = None


def _form(body: Any) -> str:
    return "texts" if isinstance(body, dict) and "texts" in body else "documents"


AnyRequest = Annotated[
    Annotated[RerankRequest, Tag("documents")] | Annotated[TextsRequest, Tag("texts")], Discriminator(_form)
]
AnyAnswer = {200: {"model": RerankAnswer | list[TextResult]}}


@router.post("/rerank", responses={**AnyAnswer, **REFUSED}, response_model=None)
@router.post("/v1/rerank", responses={**AnyAnswer, **REFUSED}, response_model=None)
@router.post("/v2/rerank", responses={**AnyAnswer, **REFUSED}, response_model=None)
async def rerank(request: Request, body: AnyRequest) -> JSONResponse:
    """Re-rank the documents of a request, which need not be in any index."""
    service = service_of(request)
    with service.scheduler.admitted(), service.collections.used() as served:
        if isinstance(body, TextsRequest):
            found: Any = await rerank_texts(service, served.of_texts(None), body)
            shown = [one.model_dump(exclude_none=True) for one in found]
        else:
            version = "2" if request.url.path.startswith("/v2") else "1"
            found = await rerank_documents(service, served.of_texts(body.model), body, version)
            shown = found.model_dump(exclude_none=True)
    return JSONResponse(shown)


async def rerank_documents(
    service: Service, reranker: ServedTexts, body: RerankRequest, version: str = "2"
) -> RerankAnswer:
    """The answer; a `RequestError` if there is no document, or a limit is passed."""
    documents = [one if isinstance(one, TextDocument) else TextDocument(text=one) for one in body.documents]
    words = check(service, body.query, "documents", [f"{one.title} {one.text}" for one in documents])
    read = documents
    if (most := body.max_tokens_per_doc) is not None:
        read = [TextDocument(title=one.title, text=_beginning(one.text, most)) for one in documents]
    given = [one.model_dump() for one in read]
    returned = version == "1" if body.return_documents is None else body.return_documents
    try:
        ranked, late = await _scored(service, reranker, body.query, given, body.top_n), False
    except asyncio.TimeoutError:
        ranked = [RankedText(at, one, 0.0, at + 1, 1 / (at + 2)) for at, one in enumerate(given)][: body.top_n]
        late = True
    results = [
        RerankResult(
            index=one.index,
            relevance_score=one.relevance_score,
            document=documents[one.index] if returned else None,
            relevant_spans=_spans(body, read[one.index].text),
        )
        for one in ranked
    ]
    meta: dict[str, Any] = {"api_version": {"version": version}, "billed_units": {"search_units": 1}}
    notes = reranker.notes(body.query)
    if warnings := [LATE] * late + notes:
        meta["warnings"] = warnings
    return RerankAnswer(
        id=str(uuid4()), model=reranker.name, results=results, reranked=not late,
        usage={"prompt_tokens": words, "total_tokens": words}, meta=meta, notes=notes,
    )  # fmt: skip


async def rerank_texts(service: Service, reranker: ServedTexts, body: TextsRequest) -> list[TextResult]:
    """The answer; a `RequestError` for no text, a limit that is passed, or the deadline, which no answer can tell."""
    check(service, body.query, "texts", body.texts)
    try:
        ranked = await _scored(service, reranker, body.query, body.texts, None)
    except asyncio.TimeoutError:
        raise RequestError(503, "the deadline passed before the texts were scored", retry_after=1) from None
    return [
        TextResult(
            index=one.index,
            score=one.score if body.raw_scores else one.relevance_score,
            text=one.document if body.return_text else None,
        )
        for one in ranked
    ]


async def _scored(
    service: Service, reranker: ServedTexts, query: str, documents: Sequence[Any], most: int | None
) -> list[RankedText]:
    scoring = service.scheduler.together(
        lambda: (query, documents, most), reranker.rank_together, lambda ranked: ranked
    )
    return await asyncio.wait_for(scoring, service.config.deadline)


def check(service: Service, query: str, field: str, texts: Sequence[str]) -> int:
    """The number of words of the texts; a `RequestError` if there is no text, or a limit is passed."""
    if not texts:
        raise RequestError(400, f"{field} is empty: send at least one", field)
    if len(texts) > service.config.most_documents:
        raise RequestError(413, f"{field} are more than the {service.config.most_documents} of one request", field)
    service.check_words(query, "query", 413)
    for text in texts:
        service.check_words(text, field, 413)
    return sum(len(text.split()) for text in texts)


def _beginning(text: str, words: int) -> str:
    """The text up to the end of its word of this number."""
    rest = text.split(maxsplit=words)
    return text[: len(text) - len(rest[-1])] if len(rest) > words else text


def _spans(body: RerankRequest, text: str) -> list[Span] | None:
    """The best matches of a text, in the order of the text; None where none were asked for."""
    asked = body.relevant_spans
    if asked is None or asked.mode == "disabled":
        return None
    stems = query_stems(body.query)
    found = [Span(start=start, end=end, score=count / len(stems)) for start, end, count in phrases(stems, text)]
    best = sorted((one for one in found if one.score >= asked.threshold), key=lambda one: -one.score)
    return sorted(best[: asked.max_spans], key=lambda one: one.start)
