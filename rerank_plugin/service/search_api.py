"""``/v1/indexes`` and ``/v1/{index}/``: search, doc and similar; a superset of Pyserini's REST API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request, Response

from rerank_plugin.base import records
from rerank_plugin.base.filters import Filter
from rerank_plugin.base.stopping import stop_if_asked
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.filter_values import emptied
from rerank_plugin.ranking.hits import Hit, ranked_hits
from rerank_plugin.ranking.pipeline import OpenPipeline, Ranking, by_date, rank, read
from rerank_plugin.ranking.reading import PLAIN, Reading
from rerank_plugin.ranking.stored_documents import StoredDocument
from rerank_plugin.ranking.texts import fields_of
from rerank_plugin.rerankers import summary_of
from rerank_plugin.retrieval.lucene import LuceneFirstStage
from rerank_plugin.service.answers import (
    Candidate,
    DocumentAnswer,
    Highlight,
    IndexDescription,
    IndexesAnswer,
    QueryText,
    Recommended,
    SearchAnswer,
    SearchAnswers,
    Shards,
    Timings,
)
from rerank_plugin.service.config import NO_RERANKER
from rerank_plugin.service.errors import RequestError, error_responses, field_errors
from rerank_plugin.service.highlighting import matches, query_stems
from rerank_plugin.service.parameters import DocumentForm, DocumentParameters, SearchParameters, SimilarParameters
from rerank_plugin.service.scheduling import SMALLEST_COST
from rerank_plugin.service.served_index import ServedIndex, Snapshot
from rerank_plugin.service.state import Service, get_service

router = APIRouter(prefix="/v1", tags=["search"])
T = TypeVar("T")
Rearranged = Callable[["Search", Ranking], Ranking] | None
ERRORS = error_responses(400, 401, 404, 429, 503)


@router.get("/indexes", responses=error_responses(401))
async def indexes(request: Request) -> IndexesAnswer:
    """The indexes of the service with their first stages, rerankers and filter fields."""
    service = get_service(request)
    with service.collections.in_use() as snapshot:
        return describe_indexes(service, snapshot)


@router.get("/{index}/search", responses=ERRORS, response_model=SearchAnswer | SearchAnswers)
async def search_index(request: Request, index: str, parameters: Annotated[SearchParameters, Query()]) -> Response:
    """Search an index with one or several queries and re-rank the candidates of its first stage."""
    service = get_service(request)
    with service.scheduler.admitted(len(parameters.query)), service.collections.in_use() as snapshot:
        answers = await search(service, snapshot.index(index), parameters)
    answer = answers[0] if len(answers) == 1 else SearchAnswers(index=index, results=answers)
    return Response(answer.model_dump_json(), media_type="application/json")  # FastAPI's serialization takes 1 ms


@router.get("/{index}/doc/{docid:path}", responses=ERRORS)
async def document(
    request: Request, index: str, docid: str, parameters: Annotated[DocumentParameters, Query()]
) -> DocumentAnswer:
    """A stored document by its id, with the words that match a query, if one is given."""
    service = get_service(request)
    with service.scheduler.admitted(SMALLEST_COST), service.collections.in_use() as snapshot:
        served = snapshot.index(index)
        if served.index.forward.rows([docid])[0] < 0:  # a slash too much is of the address, if no id has it
            docid = docid.strip("/")
        answer = await get_document(service, served, docid, parameters)
        if parameters.query:
            service.check_text(parameters.query, "query")
            answer.highlights = await service.scheduler.in_thread(_marked, served, docid, parameters)
        return answer


def _marked(served: ServedIndex, docid: str, parameters: DocumentParameters) -> list[Highlight]:
    text = parameters.text(parameters.query)
    reading = served.read(records.Query(text, text), parameters)
    title, abstract = fields_of(_fields(served.document(docid)), docid)
    return _highlights(query_stems(reading.words or reading.query.text), {"title": title, "abstract": abstract})


@router.get("/{index}/similar", responses=ERRORS)
async def similar(request: Request, index: str, parameters: Annotated[SimilarParameters, Query()]) -> SearchAnswer:
    """The documents with the stored encodings nearest to that of a document."""
    service = get_service(request)
    with service.scheduler.admitted(), service.collections.in_use() as snapshot:
        return await similar_documents(service, snapshot.index(index), parameters)


async def similar_documents(service: Service, index: ServedIndex, parameters: SimilarParameters) -> SearchAnswer:
    """The answer; a `RequestError` if there is no such document, or the index has no encodings."""
    started = perf_counter()

    def nearest() -> list[Candidate]:
        index.rows([parameters.docid], "docid")
        with field_errors("docid"):
            hits = index.searcher.similar(parameters.docid, parameters.hits)
        return _candidates(index, hits, parameters, frozenset())

    candidates = await service.scheduler.in_thread(nearest)
    timings = _timings(1000 * (perf_counter() - started), None, started)
    return SearchAnswer(
        index=index.name, query=QueryText(text=parameters.docid), candidates=candidates, reranker=NO_RERANKER,
        first_stage="similar", depth=parameters.hits, total=len(candidates), reranked=False, timings=timings,
    )  # fmt: skip


def describe_indexes(service: Service, snapshot: Snapshot) -> IndexesAnswer:
    """The answer that lists the open indexes."""
    first = next(iter(snapshot.indexes))
    descriptions = [
        IndexDescription(
            name=name, documents=len(served.index), first_stages=list(served.pipelines),
            rerankers=list(served.rerankers),
            summaries={reranker: summary_of(service.config.rerankers[reranker]) for reranker in served.rerankers},
            recommended=Recommended(**served.recommended._asdict()), fields=served.fields,
            suggestions=served.suggestions, default=name == first,
        )
        for name, served in snapshot.indexes.items()
    ]  # fmt: skip
    refused = {name: service.public_error(RequestError(503, error)).error for name, error in snapshot.refused.items()}
    return IndexesAnswer(
        indexes=descriptions, refused=refused, reranker=service.default_reranker, clicks=service.click_log is not None
    )


async def search(service: Service, index: ServedIndex, parameters: SearchParameters) -> list[SearchAnswer]:
    """The answers to all queries; a `RequestError` if a parameter exceeds a limit or has an unknown name."""
    return list(await asyncio.gather(*(answer(service, each) for each in searches(service, index, parameters))))


def searches(
    service: Service, index: ServedIndex, parameters: SearchParameters, rearranged: Rearranged = None
) -> list[Search]:
    """The searches of all queries; a `RequestError` as of `search`. ``rearranged`` is as of `Search`."""
    depth = service.depth(parameters.depth)
    if parameters.query_syntax == PLAIN:
        _check_last(parameters, depth)
    if len(parameters.query) > (limit := service.config.most_queries):
        raise RequestError(400, f"{len(parameters.query)} queries, but a request may have at most {limit}", "query")
    for text in parameters.query:
        if not (text or parameters.filter):
            raise RequestError(400, "query: give words, or a filter alone", "query")
        service.check_text(text, "query")
    service.check_text(parameters.rank_by or "", "rank_by")
    with field_errors("filter"):
        document_filter = Filter.parse(parameters.filter) if parameters.filter else None
    queries = [records.Query(text, text, document_filter) for text in map(parameters.text, parameters.query)]
    stage, reranker = index.ranked_by(parameters.first_stage, parameters.reranker, _stage_settings(parameters))
    if parameters.sort == "date":
        index.reranker(reranker)  # an unknown name is refused
        reranker = NO_RERANKER
    return [Search(index, parameters, query, stage, reranker, depth, rearranged) for query in queries]


def _stage_settings(parameters: SearchParameters) -> dict[str, Any]:
    """The settings of the first stage that a request gives."""
    given = {name: getattr(parameters, name) for name in LuceneFirstStage.settings}
    return {name: value for name, value in given.items() if value is not None}


def _check_last(parameters: SearchParameters, depth: int) -> None:
    """A `RequestError` if the requested hits end below the depth."""
    if (last := parameters.offset + parameters.hits) > depth:
        field = "offset" if parameters.offset else "hits"
        raise RequestError(
            400, f"offset + hits is {last}, but only {depth} candidates are retrieved: ask for a depth of {last}", field
        )


class Search:
    """One query of a request; its candidates and its answer are made in a thread.

    Args:
        stage, reranker: names of the first stage and the reranker.
        rearranged: gives the ranking to show of the ranking by the reranker; None for that one, or one by date.
    """

    def __init__(
        self, index: ServedIndex, parameters: SearchParameters, query: records.Query, stage: str, reranker: str,
        depth: int, rearranged: Rearranged = None,
    ):  # fmt: skip
        self.index, self.parameters, self.query, self.stage, self.depth = index, parameters, query, stage, depth
        self.reranker, self.rearranged = reranker, rearranged
        self.started, self.reading = perf_counter(), Reading(query)
        self.pipeline: OpenPipeline  # of `retrieve`, as the candidates
        self.candidates: Candidates | None = None
        self.extra_notes: list[str] = []

    def retrieve(self) -> tuple[records.Query, Candidates]:
        parameters = self.parameters
        by_date = parameters.sort == "date"
        self.reading = self.index.read(self.query, parameters, by_date)
        if self.reading.matches is None:
            _check_last(parameters, self.depth)
        entire, settings = parameters.depth is None, _stage_settings(parameters)
        self.pipeline = self.index.pipeline(self.stage, self.reranker, self.depth, entire, settings)
        with field_errors("filter"):
            self.candidates = self.pipeline.candidates(self.reading.query)
        if self.reading.matches is not None and entire:
            self.pipeline = replace(self.pipeline, depth=len(self.candidates))
        return self.reading.query, self.candidates

    def ranked(self, scored: Ranking | None) -> Ranking:
        """The ranking to show; in first-stage order if ``scored`` is None."""
        return self._arranged(self._of_pipeline(scored))

    def answer(self, scored: Ranking | None) -> SearchAnswer:
        """The answer; in first-stage order if ``scored`` is None."""
        ranking, reranked = self._of_pipeline(scored), scored is not None
        return read(ranking, lambda available: self._shown(reranked, self._arranged(available)))

    def _of_pipeline(self, scored: Ranking | None) -> Ranking:
        if (candidates := self.candidates) is None:  # no reranker, or the deadline passed before its turn
            _, candidates = self.retrieve()
        ranking = rank(self.reading.query, candidates, None) if scored is None else scored
        return ranking.best(self.pipeline.cut)

    def _arranged(self, ranking: Ranking) -> Ranking:
        if self.rearranged is not None:
            return self.rearranged(self, ranking)
        return by_date(ranking) if self.parameters.sort == "date" else ranking

    def _shown(self, reranked: bool, ranking: Ranking) -> SearchAnswer:
        hits = ranked_hits(ranking, self.parameters.hits, self.parameters.offset)
        shown = _candidates(
            self.index, hits, self.parameters, query_stems(self.reading.words or self.reading.query.text)
        )
        notes = [*self.extra_notes, *self.reading.notes, *self.pipeline.notes(self.reading.query)]
        if not shown and (emptied_by := emptied(self.index.index, self.query.filter)):
            notes = [emptied_by, *notes]
        return SearchAnswer(
            index=self.index.name, query=QueryText(text=self.query.text), reranker=self.reranker,
            first_stage=self.stage, candidates=shown, depth=self.pipeline.depth,
            total=len(ranking.order), reranked=reranked,
            read_as=self.reading.read_as, matches=self.reading.matches, did_you_mean=self.reading.did_you_mean,
            timings=_timings(ranking.candidates.search_ms, ranking, self.started),
            notes=[*([] if hits.missing is None else [str(hits.missing)]), *notes], shards=_shards(hits.missing),
        )  # fmt: skip


async def answer(service: Service, search: Search) -> SearchAnswer:
    """The answer of a search; in first-stage order after the deadline."""
    answer = await finished(service, search, search.answer, service.config.deadline)
    service.metrics.observe(answer.timings)
    if answer.shards is not None:
        service.metrics.partial.inc()
    return answer


async def finished(
    service: Service, search: Search, finish: Callable[[Ranking | None], T], deadline: float | None = None
) -> T:
    """``finish`` of the scored ranking of a search; of None without a reranker, or after the deadline in seconds."""
    reranker = search.index.reranker(search.reranker)
    if reranker is not None:
        scoring = service.scheduler.batched(search.retrieve, reranker.rank_together, finish)
        try:
            return await asyncio.wait_for(scoring, deadline)
        except asyncio.TimeoutError:
            service.metrics.late.inc()
    return await service.scheduler.in_thread(finish, None)


def _shards(missing: records.Missing | None) -> Shards | None:
    if missing is None:
        return None
    failed = len(missing.shards)
    return Shards(
        total=missing.of, successful=missing.of - failed, failed=failed, missing=list(missing.shards),
        missing_documents=round(missing.share, 4),
    )  # fmt: skip


def _timings(first_stage_ms: float, ranking: Ranking | None, started: float) -> Timings:
    model_ms, features_ms = (0.0, 0.0) if ranking is None else (ranking.model_ms, ranking.features_ms)
    total_ms = 1000 * (perf_counter() - started)
    times = {"first_stage_ms": first_stage_ms, "features_ms": features_ms, "model_ms": model_ms, "total_ms": total_ms}
    return Timings(**{name: round(value, 3) for name, value in times.items()})


def _candidates(index: ServedIndex, hits: Sequence[Hit], form: DocumentForm, stems: frozenset[str]) -> list[Candidate]:
    candidates = []
    for hit in hits:
        stop_if_asked()
        document = index.documents.read(hit.lucene_docid, hit.docid)
        texts = {"title": hit.title, "abstract": fields_of(_fields(document), hit.docid)[1]} if stems else {}
        highlights = _highlights(stems, texts)
        candidates.append(Candidate(**vars(hit), doc=form.render(document), highlights=highlights))
    return candidates


def _highlights(stems: frozenset[str], texts: dict[str, str]) -> list[Highlight]:
    return [
        Highlight(field=field, start=start, end=end)
        for field, text in texts.items()
        for start, end, _ in matches(stems, text)
    ]


def _fields(document: StoredDocument) -> Any:
    return document.fields or document.raw() or document.contents()


async def get_document(service: Service, index: ServedIndex, docid: str, form: DocumentForm) -> DocumentAnswer:
    """The answer; a `RequestError` if there is no such document."""
    stored = await service.scheduler.in_thread(index.document, docid)
    return DocumentAnswer(index=index.name, docid=docid, doc=form.render(stored))
