"""``/rerank``, ``/v1/rerank``, ``/v2/rerank``, ``/infinity/rerank``: re-rank texts, for clients of other services.

Clients of Cohere, Jina, vLLM, Infinity and Voyage send ``documents`` and share one answer format, which has the keys of
all. Clients of Text Embeddings Inference (TEI) send ``texts`` and get TEI's format. Other keys of these services are
ignored. At ``/infinity/rerank`` documents come back as texts: LiteLLM's client of Infinity expects that, but its
requests are those of its client of vLLM, which expects objects.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple
from uuid import uuid4

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, AliasChoices, BaseModel, Field

from rerank_plugin.base.stopping import stop_if_asked
from rerank_plugin.ranking.reranker import RankedText
from rerank_plugin.ranking.texts import fields_of, title_of
from rerank_plugin.service.bodies import JsonBody
from rerank_plugin.service.errors import RequestError, error_responses, field_errors
from rerank_plugin.service.highlighting import phrases, query_stems
from rerank_plugin.service.parameters import QueryString, encodable
from rerank_plugin.service.scheduling import SMALLEST_COST
from rerank_plugin.service.served_index import ServedTextReranker
from rerank_plugin.service.state import Service, get_service

router = APIRouter(tags=["rerank"])
LATE = "the deadline passed before the documents were scored: they are in the order of the request"
SEARCH_CHARACTERS = 500_000  # as many cost what a search costs: 500 candidates of 1,000 characters
NO_MODEL = "default/not-specified"  # Infinity's client sends it


def _sendable(document: dict[str, Any]) -> dict[str, Any]:
    """The document as an answer can have it: JSON has no NaN, which becomes null; a `ValueError` as in `encodable`."""
    try:
        text = encodable(json.dumps(document, ensure_ascii=False))
    except RecursionError:
        raise ValueError("the document is nested too deeply") from None
    return json.loads(text, parse_constant=lambda _: None) if "NaN" in text or "Infinity" in text else document


Text = Annotated[str, Field(strict=True), AfterValidator(encodable)]
Object = Annotated[dict[str, Any], AfterValidator(_sendable)]


class SpansRequest(BaseModel):
    """Which matches of a document to return."""

    mode: Literal["enabled", "disabled"] = "enabled"
    threshold: float = Field(default=0.1, ge=0, le=1, description="Smallest share of the query's words in a span.")
    max_spans: int = Field(default=3, ge=1, le=100, description="Best spans to return of a document.")


class RerankRequest(BaseModel):
    """A request in the format of Cohere, Jina, vLLM, Infinity and Voyage."""

    query: QueryString = Field(strict=True, min_length=1)
    documents: list[Text | Object] = Field(
        fail_fast=True, json_schema_extra={"minItems": 1},
        description="Texts, or objects with title and text, abstract or contents; an answer has them whole.",
    )  # fmt: skip
    model: Text | None = Field(default=None, description="A reranker of the service; the first if absent.")
    top_n: int | None = Field(default=None, ge=1, strict=True, description="Documents to return; all if absent.")
    top_k: int | None = Field(default=None, ge=1, strict=True, description="Another name of top_n.")
    return_documents: bool | None = Field(
        default=None, description="Default: true, as for Jina, but false at /v2/rerank."
    )
    rank_fields: Annotated[list[str], Field(min_length=1, fail_fast=True)] | None = Field(
        default=None, description="Fields of documents that are objects to read, in this order."
    )
    max_tokens_per_doc: int | None = Field(
        default=None, ge=1, description="Words of a document to read; all if absent."
    )
    truncate: bool | None = Field(
        default=None, validation_alias=AliasChoices("truncate", "truncation"),
        description="Read the beginning of texts that are longer than the service allows, instead of refusing them.",
    )  # fmt: skip
    raw_scores: bool | None = Field(
        default=None, description="Return the model's scores. If present, documents are returned as texts."
    )
    relevant_spans: SpansRequest | None = None


class TextsRequest(BaseModel):
    """A request in the format of Text Embeddings Inference. A model reads the beginning of a long text."""

    query: QueryString = Field(strict=True, min_length=1)
    texts: list[Text] = Field(fail_fast=True, json_schema_extra={"minItems": 1})
    raw_scores: bool = Field(default=False, description="Return the model's scores, not relevance between 0 and 1.")
    return_text: bool = False
    truncate: bool | None = Field(
        default=None,
        description="Read the beginning of texts that are longer than the service allows, instead of refusing them.",
    )


class Span(BaseModel):
    """A place in a document that matches the query; offsets count code points."""

    start: int
    end: int
    score: float = Field(description="Share of the query's words in the span.")


class RerankResult(BaseModel):
    """A re-ranked document."""

    index: int = Field(description="Place of the document in the request.")
    relevance_score: float = Field(description="Between 0 and 1, increasing with the model's score.")
    document: dict[str, Any] | str | None = Field(
        default=None, description="The document as it was sent, with its text under text."
    )
    relevant_spans: list[Span] | None = None


class RerankAnswer(BaseModel):
    """The answer to clients of Cohere, Jina, vLLM, Infinity and Voyage, best document first."""

    id: str
    object: str = Field(default="rerank", description="rerank, as Infinity has it; list, as Voyage has it, with top_k.")
    created: int = Field(description="Seconds since 1970.")
    model: str
    results: list[RerankResult]
    data: list[RerankResult] = Field(description="The results for Voyage's clients, documents as texts.")
    reranked: bool = Field(description="False if the deadline passed: the results have the order of the request.")
    usage: dict[str, int]
    meta: dict[str, Any] = Field(description="Under warnings: the notes, and a passed deadline.")
    notes: list[str] = Field(default=[], description="Warnings about the query, to show beside the ranking.")


class TextResult(BaseModel):
    """A re-ranked text."""

    index: int = Field(description="Place of the text in the request.")
    score: float
    text: str | None = None


class TitledText(NamedTuple):
    """Title and text of a document as a reranker reads them."""

    title: str
    text: str

    @property
    def read(self) -> str:
        """Title and text as one text."""
        return f"{self.title} {self.text}" if self.title else self.text

    def cut(self, service: Service) -> TitledText:
        """The beginning that the limits of the service allow."""
        kept = len(service.cut(self.read))
        return TitledText(self.title[:kept], self.text[: max(0, kept - len(self.title) - bool(self.title))])


def _form(body: Any) -> type[BaseModel]:
    return TextsRequest if isinstance(body, dict) and "texts" in body else RerankRequest


BODY = JsonBody(RerankRequest, TextsRequest, choose=_form, most="most_documents")
AnyRequest = Annotated[RerankRequest | TextsRequest, BODY.parsed]
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"model": RerankAnswer | list[TextResult]},
    **error_responses(400, 401, 404, 413, 415, 421, 422, 429, 503),
}


@router.post("/rerank", responses=RESPONSES, response_model=None, openapi_extra=BODY.openapi)
@router.post("/v1/rerank", responses=RESPONSES, response_model=None, openapi_extra=BODY.openapi)
@router.post("/v2/rerank", responses=RESPONSES, response_model=None, openapi_extra=BODY.openapi)
@router.post("/infinity/rerank", responses=RESPONSES, response_model=None, openapi_extra=BODY.openapi)
async def rerank(request: Request, body: AnyRequest) -> JSONResponse:
    """Re-rank the documents of a request, which need not be in any index."""
    service = get_service(request)
    with service.collections.in_use() as snapshot:
        if isinstance(body, TextsRequest):
            results = await rerank_texts(service, snapshot.text_reranker(None), body)
            return JSONResponse([result.model_dump(exclude_none=True) for result in results])
        path = request.url.path
        version = "2" if path.startswith("/v2") else "1"
        if path.startswith("/infinity") and body.raw_scores is None:
            body.raw_scores = False  # as Infinity's own client sends it
        model = None if body.model == NO_MODEL else body.model
        answer = await rerank_documents(service, snapshot.text_reranker(model), body, version)
        return JSONResponse(_json_of(answer))


def _json_of(answer: RerankAnswer) -> dict[str, Any]:
    """The answer without the keys of results that are not asked for; documents keep theirs."""
    found = answer.model_dump()
    for result in (*found["results"], *found["data"]):
        for name in ("document", "relevant_spans"):
            if result[name] is None:
                del result[name]
    return found


async def rerank_documents(
    service: Service, reranker: ServedTextReranker, body: RerankRequest, version: str = "2"
) -> RerankAnswer:
    """The answer; a `RequestError` if there is no document, one has no text, or a limit is exceeded."""
    in_thread = service.scheduler.in_thread  # long texts would keep the event loop from other requests
    documents, words = await in_thread(_read, service, body)
    top_n = body.top_k if body.top_n is None else body.top_n
    try:
        ranked, late = await _rank(service, reranker, body.query, [one._asdict() for one in documents], top_n), False
    except asyncio.TimeoutError:
        ranked = [RankedText(place, None, 0.0, place + 1, 1 / (place + 2)) for place in range(len(documents))]
        ranked, late = ranked[:top_n], True
    return await in_thread(_answer, reranker, body, version, documents, words, ranked, late)


def _read(service: Service, body: RerankRequest) -> tuple[list[TitledText], int]:
    """The documents as far as they are read, and their words; errors as for `rerank_documents`."""
    documents = [_titled(document, body.rank_fields, place) for place, document in enumerate(body.documents)]
    if body.max_tokens_per_doc is not None:
        documents = [TitledText(title, service.cut(text, body.max_tokens_per_doc)) for title, text in documents]
    if body.truncate:
        documents = [one.cut(service) for one in documents]
    return documents, check_limits(service, body.query, "documents", [one.read for one in documents])


def _answer(
    reranker: ServedTextReranker,
    body: RerankRequest,
    version: str,
    documents: Sequence[TitledText],
    words: int,
    ranked: Sequence[RankedText],
    late: bool,
) -> RerankAnswer:
    """The answer with the ranked documents; ``late``: in the order of the request, because the deadline passed."""
    return_documents = version == "1" if body.return_documents is None else body.return_documents
    results = [
        RerankResult(
            index=text.index,
            relevance_score=text.score if body.raw_scores and not late else text.relevance_score,
            document=_returned(body, text.index, documents[text.index].text) if return_documents else None,
            relevant_spans=_relevant_spans(body, documents[text.index].text),
        )
        for text in ranked
    ]
    data = [
        RerankResult(
            index=result.index, relevance_score=result.relevance_score,
            document=documents[result.index].text if body.return_documents else None,
        )
        for result in results
    ]  # fmt: skip
    meta: dict[str, Any] = {"api_version": {"version": version}, "billed_units": {"search_units": 1}}
    notes = reranker.notes(body.query)
    if warnings := [LATE] * late + notes:
        meta["warnings"] = warnings
    return RerankAnswer(
        id=str(uuid4()), object="rerank" if body.top_k is None else "list", created=int(time.time()),
        model=reranker.name, results=results, data=data, reranked=not late,
        usage={"prompt_tokens": words, "total_tokens": words}, meta=meta, notes=notes,
    )  # fmt: skip


def _titled(document: str | dict[str, Any], rank_fields: Sequence[str] | None, place: int) -> TitledText:
    """Title and text of a document; a `RequestError` if it has none of the fields to read."""
    if rank_fields is None or isinstance(document, str):
        with field_errors(f"documents.{place}", 422):
            return TitledText(*fields_of(document, place))
    if not any(field in document for field in rank_fields):
        raise RequestError(422, f"document {place} has none of the rank_fields", f"documents.{place}")
    texts = {field: title_of(document.get(field)) for field in rank_fields}
    title = texts.pop("title", "")
    return TitledText(title, " ".join(filter(None, texts.values())))


def _returned(body: RerankRequest, place: int, text: str) -> dict[str, Any] | str:
    """A document for an answer."""
    document = body.documents[place]
    if body.raw_scores is not None:  # only Infinity's clients send it
        return text
    if isinstance(document, str):
        return {"text": document}
    return document if isinstance(document.get("text"), str) else {**document, "text": text}


async def rerank_texts(service: Service, reranker: ServedTextReranker, body: TextsRequest) -> list[TextResult]:
    """The results; a `RequestError` if there is no text, a limit is exceeded, or the deadline passes."""

    def read() -> list[str]:
        texts = [service.cut(text) for text in body.texts] if body.truncate else body.texts
        check_limits(service, body.query, "texts", texts)
        return texts

    texts = await service.scheduler.in_thread(read)
    try:
        ranked = await _rank(service, reranker, body.query, texts, None)
    except asyncio.TimeoutError:  # this format has no field that says so
        raise RequestError(503, "the deadline passed before the texts were scored", retry_after=1) from None
    return [
        TextResult(
            index=text.index,
            score=text.score if body.raw_scores else text.relevance_score,
            text=body.texts[text.index] if body.return_text else None,
        )
        for text in ranked
    ]


async def _rank(
    service: Service, reranker: ServedTextReranker, query: str, documents: Sequence[Any], top_n: int | None
) -> list[RankedText]:
    """The best documents; an `asyncio.TimeoutError` if the deadline passes."""
    scheduler = service.scheduler
    with scheduler.admitted(cost := _cost(documents)):
        item = query, documents, top_n
        scoring = scheduler.batched(lambda: item, reranker.alone(), lambda ranked: ranked, large=cost > 1)
        return await asyncio.wait_for(scoring, service.config.deadline)


def _cost(documents: Sequence[Any]) -> float:
    """What re-ranking the documents costs, where a search costs 1."""
    characters = sum(len(one) if isinstance(one, str) else sum(map(len, one.values())) for one in documents)
    return max(SMALLEST_COST, characters / SEARCH_CHARACTERS)


def check_limits(service: Service, query: str, field: str, texts: Sequence[str]) -> int:
    """The number of words of the texts; a `RequestError` if there is no text, or a limit is exceeded."""
    if not texts:
        raise RequestError(400, f"{field} is empty: send at least one text", field)
    if len(texts) > (limit := service.config.most_documents):
        raise RequestError(413, f"{field} has {len(texts)} texts, but a request may have at most {limit}", field)
    service.check_text(query, "query", 413)
    for text in texts:
        service.check_text(text, field, 413)
    if (characters := sum(map(len, texts))) > (limit := service.config.most_request_characters):
        raise RequestError(
            413, f"{field} has {characters:,} characters, but a request may have at most {limit:,}: send fewer", field
        )
    return sum(len(text.split()) for text in texts)


def _relevant_spans(body: RerankRequest, text: str) -> list[Span] | None:
    """The best matches of a text, in the order of the text; None if the request does not ask for them."""
    options = body.relevant_spans
    if options is None or options.mode == "disabled":
        return None
    stop_if_asked()
    stems = query_stems(body.query)
    spans = [Span(start=start, end=end, score=count / len(stems)) for start, end, count in phrases(stems, text)]
    best = sorted((span for span in spans if span.score >= options.threshold), key=lambda span: -span.score)
    return sorted(best[: options.max_spans], key=lambda span: span.start)
