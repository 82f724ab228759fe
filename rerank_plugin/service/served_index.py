"""The open indexes, each with its first stages and rerankers, and rerankers of texts: a reload replaces all of them."""

from __future__ import annotations

import gc
import logging
from collections.abc import Collection, Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, cast

import numpy as np

from rerank_plugin.base.errors import InputError, UnavailableError
from rerank_plugin.base.filters import FILTERS, Filter
from rerank_plugin.base.lazily import cached_property
from rerank_plugin.base.records import Query
from rerank_plugin.base.stopping import stop_if_asked
from rerank_plugin.corpora import queries
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.filter_values import FilterValues
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.locations import open_index
from rerank_plugin.java.jvm import detach_at_thread_end
from rerank_plugin.ranking.cascade import Cascade, ScoringStage, Stage, load_stages
from rerank_plugin.ranking.explanation import Explanation, explain, place_of
from rerank_plugin.ranking.pipeline import OpenPipeline, Ranking, rank, rank_together
from rerank_plugin.ranking.reading import Reading, read
from rerank_plugin.ranking.recommended import ENCODED, Recommended
from rerank_plugin.ranking.reranker import RankedText, Reranker
from rerank_plugin.ranking.searcher import Searcher
from rerank_plugin.ranking.stored_documents import StoredDocument, StoredDocuments
from rerank_plugin.rerankers import RerankerOptions, Scorer
from rerank_plugin.retrieval.hybrid import HYBRID, HYBRID_RM3, DamagedEncoderError
from rerank_plugin.retrieval.lucene import BM25, NAMES
from rerank_plugin.retrieval.register import configure
from rerank_plugin.service.config import NO_RERANKER, ServiceConfig
from rerank_plugin.service.errors import RequestError, field_errors
from rerank_plugin.service.highlighting import query_stems
from rerank_plugin.service.parameters import QuerySyntax
from rerank_plugin.service.scheduling import BatchFunction

log = logging.getLogger(__name__)
SUGGESTIONS = 8
MAX_CASCADES = 64  # kept of the cascades that requests have asked for
WARM_UP_QUERY = "aspirin in the prevention of heart attack"


class ServedReranker:
    """A scorer over an index, or a cascade of scorers, used by the scoring thread."""

    def __init__(self, scorer: Scorer):
        self.scorer, self.explains = scorer, False

    def load_explanations(self) -> None:
        """Load what explanations need beside scores, such as torch."""
        self.scorer.load_attribution()
        self.explains = True

    def rank_together(self, items: Sequence[tuple[Query, Candidates]]) -> list[Ranking]:
        """The rankings of several queries' candidates."""
        queries, candidates = [query for query, _ in items], [candidates for _, candidates in items]
        return rank_together(queries, candidates, self.scorer)


class ServedTextReranker:
    """A reranker of texts, with the statistics of its checkpoint, or else of an index; used by the scoring thread."""

    def __init__(self, name: str, spec: str, statistics: Index, options: RerankerOptions):
        self.name = name
        load = partial(
            Reranker.load, spec, device=options.device, batch_size=options.batch_size, precision=options.precision
        )
        try:
            self.reranker = load()
        except InputError:
            self.reranker = load(statistics=statistics)

    def named(self, name: str) -> ServedTextReranker:
        """The same reranker under another name."""
        renamed = copy(self)
        renamed.name = name
        return renamed

    def rank_together(self, items: Sequence[tuple[str, Sequence[Any], int | None]]) -> list[list[RankedText]]:
        """The ranked documents of several requests: query, documents, and how many to return."""
        return [self.reranker._reranked(*item) for item in items]  # the answer has the notes: do not log them

    def alone(self) -> BatchFunction[Any, Any]:
        """`rank_together` for the batch of one request, which then stops when nobody waits for it."""
        return partial(self.rank_together)  # equal to no other

    def notes(self, query: str) -> list[str]:
        """The notes on a query."""
        return self.reranker.notes(query)


class ServedIndex:
    """An open index with a pipeline for each first stage that it supports, and the rerankers of the service.

    Raises:
        InputError: the index or a reranker cannot be used.
    """

    def __init__(self, name: str, folder: str, config: ServiceConfig):
        log.info("index %s: opening %s", name, folder)
        self.name, self.config, self.index = name, config, open_index(folder)
        self.searcher = Searcher(self.index)  # for similar documents
        self.documents = StoredDocuments(self.index)
        self.pipelines: dict[str, OpenPipeline] = {}  # by first stage, without a reranker
        self.unusable: dict[str, str] = {}  # why this index has no such first stage
        settings = {"device": config.running.device, **config.stage_settings}
        for stage in (*NAMES, HYBRID, HYBRID_RM3):
            stop_if_asked()
            configured = configure(stage, settings)
            try:
                self.pipelines[stage] = OpenPipeline(self.index, configured.open(self.index), config.depth)
            except DamagedEncoderError:
                raise
            except InputError as error:  # it lacks the data of this stage, or a setting asks too much
                self.unusable[stage] = str(error)
                log.log(logging.WARNING if config.stage_settings else logging.INFO, "index %s: %s", name, error)
        if config.first_stage_name not in self.pipelines:
            first_stage = configure(config.first_stage, settings).open(self.index)
            self.pipelines[config.first_stage_name] = OpenPipeline(self.index, first_stage, config.depth)
        self.rerankers: dict[str, ServedReranker] = {}
        by_spec: dict[str, ServedReranker] = {}  # a reranker under several names is loaded once
        for reranker, spec in config.rerankers.items():
            if spec not in by_spec:
                stop_if_asked()
                log.info("index %s: loading %s", name, reranker)
                by_spec[spec] = ServedReranker(load_stages([Stage.parse(spec)], self.index.forward, config.running))
            self.rerankers[reranker] = by_spec[spec]
        self._cascade = lru_cache(MAX_CASCADES)(self._new_cascade)
        self._warm()

    def _warm(self) -> None:
        """Search with each first stage and re-rank with each reranker, so that no request waits to load or compile."""
        log.info("index %s: warming %s", self.name, ", ".join(self.pipelines))
        queries = [Query(text, text) for text in (WARM_UP_QUERY, *self.suggestions[:1])]
        candidates: dict[str, list[Candidates]] = {}
        for stage, pipeline in self.pipelines.items():
            stop_if_asked()
            candidates[stage] = [pipeline.candidates(query) for query in queries]
        for reranker, name in {reranker: name for name, reranker in reversed(self.rerankers.items())}.items():
            stop_if_asked()
            log.info("index %s: warming %s", self.name, name)
            reranker.rank_together([*zip(queries, candidates[BM25])])

    def pipeline(
        self, stage: str, reranker: str, depth: int, entire_sets: bool, settings: dict[str, Any] | None = None
    ) -> OpenPipeline:
        """The pipeline of a request; first stage and reranker are given by name.

        Args:
            depth, entire_sets: as of `OpenPipeline`.
            settings: those of a first stage that a request may set, such as ``k1``.

        Raises:
            RequestError: a name is unknown, or the first stage does not support the settings.
        """
        opened = self.pipelines.get(stage)
        if opened is None:
            known = ", ".join(self.pipelines)
            why = f"; {self.unusable[stage]}" if stage in self.unusable else ""
            raise RequestError(400, f"unknown first stage '{stage}'; this index has {known}{why}", "first_stage")
        if settings:
            taken = {name: getattr(other.first_stage, "settings", ()) for name, other in self.pipelines.items()}
            if unknown := [name for name in settings if name not in taken[stage]]:
                others = [name for name, names in taken.items() if unknown[0] in names]
                message = f"{stage} does not take {', '.join(unknown)}; first stages that do: {', '.join(others)}"
                raise RequestError(400, message, unknown[0])
            with field_errors(next(iter(settings))):
                opened = replace(opened, first_stage=cast(Any, opened.first_stage).configured(**settings))
        served = self.reranker(reranker)
        return replace(opened, depth=depth, scorer=None if served is None else served.scorer, entire_sets=entire_sets)

    def read(self, query: Query, form: QuerySyntax, newest_first: bool = False) -> Reading:
        """The query as :mod:`rerank_plugin.ranking.reading` understands it; a `RequestError` for a malformed one."""
        detach_at_thread_end()
        if query.filter is not None:
            with field_errors("filter"):
                self.index.check_filter(query.filter)
        with field_errors("query"):
            return read(self.index, query, form.query_syntax, form.rank_by, newest_first, form.term_mapping)

    def reranker(self, name: str) -> ServedReranker | None:
        """The reranker of this name, or the cascade ``NAME,NAME@N``; None for the name ``none``.

        Raises:
            RequestError: a reranker is not served, or N is 0.
        """
        if name == NO_RERANKER:
            return None
        return self.rerankers.get(name) or self._cascade(name)

    def _new_cascade(self, names: str) -> ServedReranker:
        with field_errors("reranker"):
            stages = [Stage.parse(spec) for spec in names.split(",")]
        if unknown := [stage.reranker for stage in stages if stage.reranker not in self.rerankers]:
            known = ", ".join((*self.rerankers, NO_RERANKER))
            raise RequestError(400, f"unknown reranker '{unknown[0]}'; known: {known}", "reranker")
        if len({stage.reranker for stage in stages}) < len(stages):  # else the work of a request would have no bound
            raise RequestError(400, "a cascade has a reranker twice: name each once", "reranker")
        served = [(self.rerankers[stage.reranker].scorer, stage.keep, stage.before) for stage in stages]
        return ServedReranker(Cascade([ScoringStage(*stage) for stage in served]))

    def rows(self, docids: Sequence[str], field: str) -> np.ndarray:
        """Rows of documents in the index, int64 [n]; ``field`` is the request's name for their ids.

        Raises:
            RequestError: the index has no document with one of the ids.
        """
        rows: np.ndarray = self.index.forward.rows(docids)
        if len(unknown := np.flatnonzero(rows < 0)):
            raise RequestError(404, f"no document '{docids[unknown[0]]}' in the index '{self.name}'", field)
        return rows

    def known_rows(self, docids: Sequence[str]) -> np.ndarray:
        """Rows of those of the documents that the index has, int64 [n]: others may have been deleted since."""
        rows: np.ndarray = self.index.forward.rows(docids)
        return rows[rows >= 0]

    def document(self, docid: str) -> StoredDocument:
        """The stored document with this id; a `RequestError` if there is none."""
        detach_at_thread_end()
        row = int(self.rows([docid], "docid")[0])
        return self.documents.read(int(self.index.forward.lucene_numbers[row]), docid)

    def explain_together(self, items: Sequence[tuple[Query, Candidates, str, Scorer | None, str]]) -> list[Explanation]:
        """Explanations of several requests, each the arguments of `_explain`; called in the scoring thread."""
        return [self._explain(*item) for item in items]

    def _explain(
        self, query: Query, candidates: Candidates, docid: str, scorer: Scorer | None, stage: str
    ) -> Explanation:
        """Explains a candidate of a query; ``stage`` is the first stage's name."""
        detach_at_thread_end()
        ranking = rank(query, candidates, scorer).require_complete()
        with field_errors("docid", 404):
            place = place_of(ranking, docid)
        return explain(ranking, place, scorer, stage, self.documents.as_indexed(int(candidates.rows[place])))

    @property
    def recommended(self) -> Recommended:
        """The ranking of requests that name neither first stage nor reranker.

        Where the index is encoded, and the service has no other first stage, it is that of
        :mod:`rerank_plugin.ranking.recommended`, with the service's first reranker if that is another one.
        """
        first = self.config.default_reranker
        if HYBRID not in self.pipelines or self.config.first_stage != BM25:
            return Recommended(self.config.first_stage_name, first)
        bundled, _, weight = ENCODED.reranker.partition("+")
        return Recommended(HYBRID, f"{first}+{weight}" if self.config.rerankers.get(first) == bundled else first)

    def ranked_by(self, first_stage: str | None, reranker: str | None, settings: Collection[str] = ()) -> Recommended:
        """The first stage and the reranker of a request that may name them.

        Args:
            settings: names of those of the first stage that the request gives; the recommended one may lack them.
        """
        taken = getattr(self.pipelines[self.recommended.first_stage].first_stage, "settings", ())
        if first_stage is reranker is None and {*settings} <= {*taken}:
            return self.recommended
        return Recommended(first_stage or self.config.first_stage_name, reranker or self.config.default_reranker)

    @property
    def fields(self) -> list[str]:
        """The fields that filters can use: those that some document has."""
        metadata = self.index.description.get("lucene", {}).get("metadata") or {}
        return [field for field, stored in FILTERS.items() if metadata.get(stored)]

    @cached_property
    def values(self) -> FilterValues:
        """The values of its filters; an `InputError` for an index on a cluster."""
        return FilterValues(self.index)

    @cached_property
    def suggestions(self) -> list[str]:
        """Queries to try: test queries of the indexed collection if it has any, otherwise titles."""
        source = self.index.description.get("source", "")
        texts: list[str] = []
        if source == "sample" or Path(source).is_dir():
            with suppress(InputError):
                texts = [query.text for query in queries(f"{source}:test")]
        if not texts and len(self.index):
            rows = self.index.forward.live_rows
            if "retracted" in self.fields:  # nobody should be led to these
                rows = rows[self.index.fitting(Filter.of({"retracted": "no"}))[rows]]
            rows = rows[:: max(1, len(self.index) // 50)]
            titles = self.index.forward.titles.take(rows)
            texts = [title for title in titles if title]
        step = max(1, len(texts) // SUGGESTIONS)
        return texts[::step][:SUGGESTIONS]

    def close(self) -> None:
        """Close Lucene's readers and the index."""
        readers: list[Any] = [self.searcher, self.documents, *self.pipelines.values()]
        for reader in readers:
            reader.close()
        if "values" in self.__dict__:
            self.values.close()
        self.index.close()


T = TypeVar("T")


class Snapshot:
    """All indexes and rerankers that one load has opened, until the next reload.

    Args:
        required: the indexes that have to be opened, beside the first, which is the default of requests.

    Attributes:
        refused: why each of the others cannot be opened, as one of an older format; requests for it are told so.

    Raises:
        InputError: an index that is required, or a reranker, cannot be used.
        Stopped: between two of them, if the service ends.
    """

    def __init__(self, config: ServiceConfig, required: Container[str] = ()):
        self.users, self.retired, self.lock = 1, False, Lock()  # the first user is the `Collections` that opened it
        self.indexes: dict[str, ServedIndex] = {}
        self.refused: dict[str, str] = {}
        for name, folder in config.indexes.items():
            try:
                self.indexes[name] = ServedIndex(name, folder, config)
            except InputError as error:
                if not self.indexes or name in required or isinstance(error, UnavailableError):
                    raise
                self.refused[name] = f"the index '{name}' is not served: {error}"
                log.error("%s", self.refused[name])
        first = next(iter(self.indexes.values())).index
        self.text_rerankers: dict[str, ServedTextReranker] = {}
        by_spec: dict[str, ServedTextReranker] = {}
        for name, spec in config.rerankers.items():
            if spec in by_spec:
                self.text_rerankers[name] = by_spec[spec].named(name)
                continue
            stop_if_asked()
            log.info("texts: loading and warming %s", name)
            reranker = self.text_rerankers[name] = by_spec[spec] = ServedTextReranker(name, spec, first, config.running)
            reranker.rank_together([(WARM_UP_QUERY, [WARM_UP_QUERY, "a text about something else"], None)])
        query_stems(WARM_UP_QUERY)

    def index(self, name: str | None) -> ServedIndex:
        """The index of this name, by default the first; a `RequestError` if there is none."""
        if name in self.refused:
            raise RequestError(503, self.refused[name], "index")
        return _lookup("index", name, self.indexes)

    def text_reranker(self, name: str | None) -> ServedTextReranker:
        """The text reranker of this name, by default the first; a `RequestError` if there is none."""
        return _lookup("model", name, self.text_rerankers)

    def acquire(self) -> None:
        with self.lock:
            self.users += 1

    def release(self, retire: bool = False) -> None:
        """Drop one user; the last user of a retired snapshot closes its indexes."""
        with self.lock:
            self.users -= 1
            self.retired |= retire
            unused = self.retired and not self.users
        if unused:
            for index in self.indexes.values():
                index.close()


class Collections:
    """The current snapshot. A reload opens a new one; requests that use the old one finish undisturbed."""

    def __init__(self, config: ServiceConfig):
        self.config, self.swap_lock = config, Lock()
        self.current = Snapshot(config)
        _freeze()

    @contextmanager
    def in_use(self) -> Iterator[Snapshot]:
        """The current snapshot, kept open for the block."""
        with self.swap_lock:
            snapshot = self.current
            snapshot.acquire()
        try:
            yield snapshot
        finally:
            snapshot.release()

    def reload(self) -> None:
        """Replace the snapshot once the new one is open and warm; called by one thread at a time.

        Raises:
            InputError: an index or a reranker cannot be opened; the old snapshot stays.
        """
        opened = Snapshot(self.config, required=self.current.indexes)
        with self.swap_lock:
            before, self.current = self.current, opened
        before.release(retire=True)
        del before
        _freeze()

    def close(self) -> None:
        self.current.release(retire=True)


def _lookup(kind: str, name: str | None, served: dict[str, T]) -> T:
    name = name or next(iter(served), "")
    if name not in served:
        known = f"; known: {', '.join(served)}" if served else f": this service has no {kind}"
        raise RequestError(404, f"no {kind} '{name}'{known}", kind)
    return served[name]


def _freeze() -> None:
    """Exempt all open objects from garbage collection: a pass over them stops all threads for 0.2 seconds."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
