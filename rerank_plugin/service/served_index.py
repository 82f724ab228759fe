"""One open index with its first stages and rerankers, and rerankers of texts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import FILTERS
from rerank_plugin.base.records import Query
from rerank_plugin.corpora import queries
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.java.jvm import detach_at_thread_end
from rerank_plugin.ranking.cascade import Cascade, Stage, load_stages
from rerank_plugin.ranking.explain import explain, place_of
from rerank_plugin.ranking.explanation import Explanation
from rerank_plugin.ranking.notes import notes_of
from rerank_plugin.ranking.pipeline import OpenPipeline, Ranking, cuts_ranking, rank, rank_together
from rerank_plugin.ranking.reranker import RankedText, Reranker
from rerank_plugin.ranking.searcher import Searcher
from rerank_plugin.ranking.stored_documents import StoredDocument, StoredDocuments
from rerank_plugin.rerankers import RerankerOptions, Scorer
from rerank_plugin.retrieval.dense import ENCODER, encode_command
from rerank_plugin.retrieval.hybrid import HYBRID, HYBRID_RM3
from rerank_plugin.retrieval.lucene import BM25, NAMES
from rerank_plugin.retrieval.register import FirstStage, configure
from rerank_plugin.service.errors import RequestError, naming
from rerank_plugin.service.settings import ServiceConfig

log = logging.getLogger(__name__)
NO_RERANKER = "none"
SUGGESTIONS = 8
CASCADES = 64  # that are kept, of those that requests have asked for
WARMING = "aspirin in the prevention of heart attack"


class ServedReranker:
    """A scorer over one index, or a cascade of several, for the thread that scores."""

    def __init__(self, scorer: Scorer):
        self.scorer = scorer

    def rank_together(self, items: Sequence[tuple[Query, Candidates]]) -> list[Ranking]:
        """The rankings of several queries' candidates."""
        return rank_together(*zip(*items), self.scorer)


class ServedTexts:
    """A reranker of texts, by the statistics of its checkpoint, or else of an index; for the thread that scores."""

    def __init__(self, name: str, spec: str, statistics: Index, options: RerankerOptions):
        self.name = name
        how = {"device": options.device, "batch_size": options.batch_size, "precision": options.precision}
        try:
            self.reranker = Reranker.load(spec, **how)
        except InputError:
            self.reranker = Reranker.load(spec, statistics=statistics, **how)

    def rank_together(self, items: Sequence[tuple[str, Sequence[Any], int | None]]) -> list[list[RankedText]]:
        """The ranked documents of several requests: query, documents, and how many to return."""
        return [self.reranker._reranked(*item) for item in items]  # notes are in the answer, and not in the log

    def notes(self, query: str) -> list[str]:
        """The notes on a query."""
        found: list[str] = self.reranker.notes(query)
        return found


class ServedIndex:
    """An open index with the first stages that it has the data for, and the rerankers of the service.

    Raises:
        InputError: the index or a reranker cannot be used.
    """

    def __init__(self, name: str, folder: str, config: ServiceConfig):
        log.info("index %s: opening %s", name, folder)
        self.name, self.config, self.index = name, config, Index(folder)
        self.searcher = Searcher(self.index)  # for similar documents
        self.documents = StoredDocuments(self.index)
        self.first_stages: dict[str, FirstStage] = {}
        for stage in (*NAMES, HYBRID, HYBRID_RM3):
            with suppress(InputError):  # what it takes is not in this index
                self.first_stages[stage] = configure(stage).open(self.index)
        if config.first_stage_name not in self.first_stages:
            self.first_stages[config.first_stage_name] = configure(config.first_stage).open(self.index)
        self._cut_stages = {stage for stage, opened in self.first_stages.items() if cuts_ranking(opened)}
        self.rerankers: dict[str, ServedReranker] = {}
        for called, spec in config.rerankers.items():
            log.info("index %s: loading %s", name, called)
            self.rerankers[called] = ServedReranker(
                load_stages([Stage.parse(spec)], self.index.forward, config.running)
            )
        self._cascade = lru_cache(CASCADES)(self._new_cascade)
        self._warm()

    def _warm(self) -> None:
        """Search and re-rank by all there is: a first request would else load, and compile, what it needs."""
        log.info("index %s: warming %s", self.name, ", ".join(self.first_stages))
        queries = [Query(text, text) for text in (WARMING, *self.suggestions[:1])]
        found = {
            stage: [self.candidates(query, stage, self.config.depth) for query in queries]
            for stage in self.first_stages
        }
        for called, reranker in self.rerankers.items():
            log.info("index %s: warming %s", self.name, called)
            reranker.rank_together([*zip(queries, found[BM25])])

    def candidates(self, query: Query, stage: str, depth: int, settings: dict[str, Any] | None = None) -> Candidates:
        """The candidates of a query; ``settings`` are those of Lucene's first stages, such as ``k1``.

        Raises:
            RequestError: an unknown first stage, or settings or a filter that it cannot have.
        """
        found = self.first_stages.get(stage)
        if found is None:
            known = ", ".join(self.first_stages)
            hint = f"; hybrid needs: {encode_command(self.index, ENCODER)}" if stage.startswith("hybrid") else ""
            raise RequestError(400, f"unknown first stage '{stage}'; this index has {known}{hint}", "first_stage")
        if settings:
            if stage not in NAMES:
                raise RequestError(
                    400, f"{', '.join(settings)} are for {', '.join(NAMES)}, not {stage}", [*settings][0]
                )
            with naming([*settings][0]):
                found = found.configured(**settings)
        with naming("filter"):
            return OpenPipeline(self.index, found, depth).candidates(query)

    def cut(self, stage: str, depth: int) -> int | None:
        """Where a final ranking is cut: at the depth, after a first stage that gives all it has; None elsewhere."""
        return depth if stage in self._cut_stages else None

    def notes(self, query: Query, stage: str, reranker: str) -> list[str]:
        """The notes on a query for a first stage and a reranker, by their names."""
        found = self.reranker(reranker)
        return notes_of(query, self.first_stages[stage], None if found is None else found.scorer)

    def reranker(self, name: str) -> ServedReranker | None:
        """The reranker of a name, or of several, ``NAME,NAME@N``, in a cascade; None for that of none.

        Raises:
            RequestError: one is not served, or N is 0.
        """
        if name == NO_RERANKER:
            return None
        return self.rerankers.get(name) or self._cascade(name)

    def _new_cascade(self, names: str) -> ServedReranker:
        with naming("reranker"):
            stages = [Stage.parse(one) for one in names.split(",")]
        if unknown := [one.reranker for one in stages if one.reranker not in self.rerankers]:
            known = ", ".join((*self.rerankers, NO_RERANKER))
            raise RequestError(400, f"unknown reranker '{unknown[0]}'; known: {known}", "reranker")
        if len({one.reranker for one in stages}) < len(stages):  # else a request could ask for any amount of work
            raise RequestError(400, "a cascade has each reranker once", "reranker")
        return ServedReranker(Cascade([(self.rerankers[one.reranker].scorer, one.keep) for one in stages]))

    def rows(self, docids: Sequence[str], field: str) -> np.ndarray:
        """Rows of documents in the index, int64 [n]; ``field`` is what the request calls their ids.

        Raises:
            RequestError: there is none with one of the ids.
        """
        found: np.ndarray = self.index.forward.rows(docids)
        if len(unknown := np.flatnonzero(found < 0)):
            raise RequestError(404, f"no document '{docids[unknown[0]]}' in the index '{self.name}'", field)
        return found

    def document(self, docid: str) -> StoredDocument:
        """A stored document; a `RequestError` if there is none with this id."""
        detach_at_thread_end()
        row = int(self.rows([docid], "docid")[0])
        return self.documents.read(int(self.index.forward.lucene_numbers[row]), docid)

    def explain_together(self, items: Sequence[tuple[Query, Candidates, str, str, str]]) -> list[Explanation]:
        """Explanations, in the thread that scores, of several requests; what an item has is said at `_explained`."""
        return [self._explained(*item) for item in items]

    def _explained(self, query: Query, candidates: Candidates, docid: str, reranker: str, stage: str) -> Explanation:
        """Of a document among the candidates of a query, with the names of the reranker and the first stage."""
        detach_at_thread_end()
        served = self.reranker(reranker)
        scorer = None if served is None else served.scorer
        ranking = rank(query, candidates, scorer)
        with naming("docid", 404):
            place = place_of(ranking, docid)
        return explain(ranking, place, scorer, stage, self.documents.as_indexed(int(candidates.rows[place])))

    @property
    def fields(self) -> list[str]:
        """The fields that its documents can be filtered by."""
        having = self.index.description.get("lucene", {}).get("metadata") or {}
        return [field for field, stored in FILTERS.items() if having.get(stored)]

    @cached_property
    def suggestions(self) -> list[str]:
        """Queries to try: those of the collection that was indexed, where it has any, or else titles."""
        source = self.index.description.get("source", "")
        found: list[str] = []
        if source == "sample" or Path(source).is_dir():
            with suppress(InputError):
                found = [query.text for query in queries(f"{source}:test")]
        if not found and len(self.index):
            titles = self.index.forward.titles.take(range(0, len(self.index), max(1, len(self.index) // 50)))
            found = [title for title in titles if title]
        step = max(1, len(found) // SUGGESTIONS)
        return found[::step][:SUGGESTIONS]

    def close(self) -> None:
        """Close what Java holds open."""
        for stage in (self.searcher, self.documents, *self.first_stages.values()):
            if (close := getattr(stage, "close", None)) is not None:  # some first stages hold nothing open
                close()
