"""``/v1/indexes`` and ``/v1/{index}/``: search, doc and similar, with the keys of Pyserini's REST API and ours."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Query, Request, Response

from rerank_plugin.base import records
from rerank_plugin.base.filters import Filter
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.ranking.pipeline import Ranking, rank
from rerank_plugin.ranking.reranker import Hit, ranked_hits
from rerank_plugin.ranking.stored_documents import StoredDocument
from rerank_plugin.ranking.texts import fields_of
from rerank_plugin.rerankers import summary_of
from rerank_plugin.service.answers import (
    Candidate,
    DocumentAnswer,
    Highlight,
    IndexDescription,
    IndexesAnswer,
    QueryText,
    SearchAnswer,
    SearchAnswers,
    Timings,
)
from rerank_plugin.service.collections import Served
from rerank_plugin.service.errors import RequestError, documented, naming
from rerank_plugin.service.highlighting import matches, query_stems
from rerank_plugin.service.parameters import DocumentForm, SearchParameters, SimilarParameters
from rerank_plugin.service.served_index import NO_RERANKER, ServedIndex
from rerank_plugin.service.state import Service, service_of

router = APIRouter(prefix="/v1", tags=["search"])
SETTINGS = ("k1", "b", "field")  # of Lucene's first stages
REFUSED = documented(400, 401, 404, 429, 503)


@router.get("/indexes", responses=documented(401))
async def indexes(request: Request) -> IndexesAnswer:
    """The indexes of the service, and what can be asked of them."""
    service = service_of(request)
    with service.collections.used() as served:
        return described(service, served)


@router.get("/{index}/search", responses=REFUSED, response_model=SearchAnswer | SearchAnswers)
async def search_index(request: Request, index: str, parameters: Annotated[SearchParameters, Query()]) -> Response:
    """Search an index with one query, or with several, and re-rank what its first stage finds."""
    service = service_of(request)
    with service.scheduler.admitted(len(parameters.query)), service.collections.used() as served:
        answers = await search(service, served.index(index), parameters)
    answer = answers[0] if len(answers) == 1 else SearchAnswers(index=index, results=answers)
    return Response(answer.model_dump_json(), media_type="application/json")  # FastAPI's way takes a millisecond


@router.get("/{index}/doc/{docid:path}", responses=REFUSED)
async def document(request: Request, index: str, docid: str, form: Annotated[DocumentForm, Query()]) -> DocumentAnswer:
    """A stored document by its id."""
    service = service_of(request)
    with service.scheduler.admitted(), service.collections.used() as served:
        return await get_document(service, served.index(index), docid, form)


@router.get("/{index}/similar", responses=REFUSED)
async def similar(request: Request, index: str, parameters: Annotated[SimilarParameters, Query()]) -> SearchAnswer:
    """The documents whose stored encodings are closest to that of a document."""
    service = service_of(request)
    with service.scheduler.admitted(), service.collections.used() as served:
        started, found = perf_counter(), served.index(index)

        def closest() -> list[Candidate]:
            with naming("docid"):
                hits = found.searcher.similar(parameters.docid, parameters.hits)
                return _shown(found, hits, parameters, frozenset())

        shown = await service.scheduler.in_thread(closest)
    timings = _timings(1000 * (perf_counter() - started), None, started)
    return SearchAnswer(
        index=found.name, query=QueryText(text=parameters.docid), candidates=shown, reranker=NO_RERANKER,
        first_stage="similar", depth=parameters.hits, total=len(shown), reranked=False, timings=timings,
    )  # fmt: skip


def described(service: Service, served: Served) -> IndexesAnswer:
    """What is served."""
    first = next(iter(served.indexes))
    found = [
        IndexDescription(
            name=name, documents=len(one.index), first_stages=list(one.first_stages), rerankers=list(one.rerankers),
            summaries={called: summary_of(service.config.rerankers[called]) for called in one.rerankers},
            fields=one.fields, suggestions=one.suggestions, default=name == first,
        )
        for name, one in served.indexes.items()
    ]  # fmt: skip
    return IndexesAnswer(indexes=found, reranker=service.default_reranker, clicks=service.clicks is not None)


async def search(service: Service, index: ServedIndex, asked: SearchParameters) -> list[SearchAnswer]:
    """The answers to all queries; a `RequestError` if a parameter is beyond a limit, or names what is not there."""
    depth = service.depth(asked.depth)
    if (last := asked.offset + asked.hits) > depth:
        field = "offset" if asked.offset else "hits"
        raise RequestError(
            400, f"offset + hits is {last}, but only {depth} candidates are retrieved: ask for a depth of {last}", field
        )
    if len(asked.query) > (most := service.config.most_queries):
        raise RequestError(400, f"{len(asked.query)} queries, at most {most} in one request", "query")
    for text in asked.query:
        service.check_words(text, "query")
    with naming("filter"):
        kept = Filter.parse(asked.filter) if asked.filter else None
    found = [records.Query(text, text, kept) for text in asked.query]
    return list(await asyncio.gather(*(_search_one(service, index, asked, query, depth) for query in found)))


class _Search:
    """One query of a request: its candidates and its answer, both made in a thread."""

    def __init__(self, index: ServedIndex, asked: SearchParameters, query: records.Query, stage: str, depth: int):
        self.index, self.asked, self.query, self.stage, self.depth = index, asked, query, stage, depth
        self.started = perf_counter()
        self.candidates: Candidates | None = None

    def retrieve(self) -> tuple[records.Query, Candidates]:
        settings = {one: value for one in SETTINGS if (value := getattr(self.asked, one)) is not None}
        self.candidates = self.index.candidates(self.query, self.stage, self.depth, settings)
        return self.query, self.candidates

    def answer(self, reranker: str, scored: Ranking | None) -> SearchAnswer:
        """In first-stage order if it was not scored."""
        if (candidates := self.candidates) is None:  # nothing scores it, or it is late before its turn
            _, candidates = self.retrieve()
        ranking = rank(self.query, candidates, None) if scored is None else scored
        ranking = ranking.best(self.index.cut(self.stage, self.depth))
        if self.asked.sort == "date":
            ranking = ranking._replace(order=_by_date(ranking))
        hits = ranked_hits(ranking, self.asked.hits, self.asked.offset)
        shown = _shown(self.index, hits, self.asked, query_stems(self.query.text))
        return SearchAnswer(
            index=self.index.name, query=QueryText(text=self.query.text), reranker=reranker, first_stage=self.stage,
            candidates=shown, depth=self.depth, total=len(ranking.order), reranked=scored is not None,
            timings=_timings(candidates.search_ms, ranking, self.started),
            notes=self.index.notes(self.query, self.stage, reranker),
        )  # fmt: skip


async def _search_one(
    service: Service, index: ServedIndex, asked: SearchParameters, query: records.Query, depth: int
) -> SearchAnswer:
    stage, name = asked.first_stage or service.config.first_stage_name, asked.reranker or service.default_reranker
    search, reranker, scheduler = _Search(index, asked, query, stage, depth), index.reranker(name), service.scheduler
    if reranker is None:
        answer = await scheduler.in_thread(search.answer, name, None)
    else:
        scoring = scheduler.together(search.retrieve, reranker.rank_together, partial(search.answer, name))
        try:
            answer = await asyncio.wait_for(scoring, service.config.deadline)
        except asyncio.TimeoutError:
            service.metrics.late.inc()
            answer = await scheduler.in_thread(search.answer, name, None)
    service.metrics.observe(answer.timings)
    return answer


def _timings(first_stage_ms: float, ranking: Ranking | None, started: float) -> Timings:
    model_ms, features_ms = (0.0, 0.0) if ranking is None else (ranking.model_ms, ranking.features_ms)
    total = 1000 * (perf_counter() - started)
    found = {"first_stage_ms": first_stage_ms, "features_ms": features_ms, "model_ms": model_ms, "total_ms": total}
    return Timings(**{name: round(value, 3) for name, value in found.items()})


def _by_date(ranking: Ranking) -> np.ndarray:
    """The order of the candidates by date, the newest first, those of one date by score; int64 [C]."""
    published = ranking.candidates.index.published.take(ranking.candidates.rows[ranking.order])
    dates = [text.partition("\t")[0] for text in published]
    return ranking.order[sorted(range(len(dates)), key=dates.__getitem__, reverse=True)]


def _shown(index: ServedIndex, hits: Sequence[Hit], form: DocumentForm, stems: frozenset[str]) -> list[Candidate]:
    found = []
    for hit in hits:
        document = index.documents.read(hit.lucene_docid, hit.docid)
        texts = {"title": hit.title, "abstract": _abstract(document)} if stems else {}
        places = [
            Highlight(field=field, start=start, end=end)
            for field, text in texts.items()
            for start, end, _ in matches(stems, text)
        ]
        found.append(Candidate(**vars(hit), doc=form.shown(document), highlights=places))
    return found


def _abstract(document: StoredDocument) -> str:
    return fields_of(document.fields or document.raw() or document.contents(), document.docid())[1]


async def get_document(service: Service, index: ServedIndex, docid: str, form: DocumentForm) -> DocumentAnswer:
    """The answer; a `RequestError` if there is no such document."""
    found = await service.scheduler.in_thread(index.document, docid)
    return DocumentAnswer(index=index.name, docid=docid, doc=form.shown(found))
