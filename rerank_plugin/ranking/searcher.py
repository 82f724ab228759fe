"""The public search API: `Searcher` returns hits; `rank` and `rank_many` return ranked lists as in run files."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import Filter, Values
from rerank_plugin.base.lazily import cached_property
from rerank_plugin.base.records import Query
from rerank_plugin.cluster.opening import open_index
from rerank_plugin.corpora import queries as read_queries
from rerank_plugin.files.runs import RankedList, strictly_decreasing, text_id
from rerank_plugin.indexes.index_folder import Index, retry_if_replaced
from rerank_plugin.ranking import pipeline
from rerank_plugin.ranking.explain import explain, place_of
from rerank_plugin.ranking.explanation import Explanation
from rerank_plugin.ranking.notes import NotesLog, notes_of
from rerank_plugin.ranking.pipeline import OpenPipeline, Ranking, cuts_ranking
from rerank_plugin.ranking.reranker import Hit, Hits, Reranker, as_query, at_least, ranked_hits
from rerank_plugin.ranking.stored_documents import StoredDocument, StoredDocuments
from rerank_plugin.rerankers import warn_first_stage_mismatch
from rerank_plugin.retrieval.dense import DenseConfig, DenseStage
from rerank_plugin.retrieval.lucene import BM25, QLD, RM3, LuceneConfig
from rerank_plugin.retrieval.register import FIRST_STAGES, configure

log = logging.getLogger(__name__)

QUERIES_AT_ONCE = 8  # queries of a batch that a reranker scores together


class Searcher:
    """Retrieves candidates with a first stage and re-ranks them. It is thread-safe.

    The hits of a query equal the run that the search command writes with the same settings, in the same order.

    It replaces Pyserini's ``LuceneSearcher``: `search`, `batch_search`, `doc`, `num_docs`, `set_bm25`, `set_qld`,
    `set_rm3`, `unset_rm3`, `is_using_rm3` and `close` have the same names and arguments. Setting a first stage affects
    all later searches, in all threads.

    Attributes:
        index: the `Index` that is searched.
        num_docs: number of documents.
        reranker: the `Reranker`; None to keep the first stage's order.
        depth: the most candidates that the first stage retrieves for a query.
    """

    def __init__(
        self,
        index: str | Path | Index,
        reranker: str | Path | Reranker | Any | None = None,
        first_stage: str | Any = "bm25",
        depth: int = 500,
    ):
        """Open the index, the reranker and the first stage, once for all queries.

        Args:
            index: the folder of an index; ``ray://ADDRESS/FOLDER`` for an index of shards on a Ray cluster; or an open
                `Index`.
            reranker: a spec of `Reranker.load`, or a list of them for a cascade; a `Reranker` over this index; or an
                object with ``score(query, candidates)``.
            first_stage: its name (``bm25``, ``qld``, ``bm25+rm3``, ``dense:CHECKPOINT``, ``all``, ...), or a
                configuration object of ``rerank_plugin.retrieval``.
            depth: number of candidates retrieved for a query.

        Raises:
            InputError: there is no such index, reranker or first stage, or they do not fit together.
        """
        self.depth = at_least(depth, "depth")
        self._config = _first_stage_config(first_stage)

        def opened() -> tuple[Index, Reranker | None, OpenPipeline]:
            opened_index = open_index(index)
            loaded = _reranker(reranker, opened_index)
            return opened_index, loaded, self._pipeline_of(opened_index, loaded, self._config)

        self.index, self.reranker, self._pipeline = retry_if_replaced(index, opened)
        if self.reranker is not None:
            warn_first_stage_mismatch(self.reranker._scorer, self._config.name)
        self._opened_index = self.index is not index
        self.num_docs = len(self.index)
        self._closed, self._lock, self._notes = False, Lock(), NotesLog()
        self._replaced: list[OpenPipeline] = []  # other threads may still be searching with them
        # Opened by the first `doc` or `explain`, and the first `similar`.
        self._stored: StoredDocuments | None = None
        self._encodings: dict[str, DenseStage] = {}

    def search(self, q: str, k: int = 10, *, offset: int = 0, filter: Filter | Values | None = None) -> Hits:
        """The k documents with the highest scores, from rank 1 on; fewer if the first stage finds fewer.

        On a cluster with ``partial``, ``missing`` of the hits names the shards that did not answer, and a warning does.

        Args:
            offset: number of top documents to skip: page 2 of ten hits each has the offset 10.
            filter: restricts the documents: a `Filter`, or an argument of `Filter.of`; None for all.

        Raises:
            InputError: the query is not a text, k is below 1, offset + k is above the depth, or the first stage or the
                index does not support the filter.
        """
        query, k = as_query(q, filter=filter), self._within_depth(k, offset)
        return self._hits(self._rank(query), k, offset)

    def batch_search(
        self,
        queries: Sequence[str],
        qids: Sequence[str] | None = None,
        k: int = 10,
        threads: int = 1,
        *,
        filter: Filter | Values | None = None,
    ) -> dict[str, Hits]:
        """`search` for many queries: the hits by query id, in the order of the queries.

        Args:
            qids: ids of the queries; by default their positions in the list, "0", "1", ...
            threads: number of threads that retrieve candidates.
            filter: as in `search`, for all queries.

        Raises:
            InputError: as in `search`, or the number of ids differs from that of queries, or two ids are equal.
        """
        if isinstance(queries, str):
            raise InputError("batch_search takes a list of queries; one query is for search")
        texts = list(queries)
        ids = [str(place) for place in range(len(texts))] if qids is None else list(qids)
        if len(ids) != len(texts):
            raise InputError(f"{len(texts)} queries but {len(ids)} query ids: give one id each")
        checked_queries = _checked(as_query(text, id, filter) for text, id in zip(texts, ids))
        k = self._within_depth(k)
        return {ranking.query.id: self._hits(ranking, k) for ranking in self._rank_all(checked_queries, threads)}

    def notes(self, q: str) -> list[str]:
        """Notes on a query: a model knows few of its words, or its search syntax is read as words.

        Searches log them as warnings, once for each query; a batch of queries gets one line for each note.
        """
        return notes_of(as_query(q), self._pipeline.first_stage, self._pipeline.scorer)

    def doc(self, docid: str | int) -> StoredDocument | None:
        """A document with the methods ``docid()``, ``id()``, ``contents()``, ``raw()`` and ``get(field)``.

        Args:
            docid: an external id, or as an int the number of a Lucene document.

        Returns:
            None if there is no such document.

        Raises:
            InputError: the index does not store its documents, or the id is of another type.
        """
        self._check_open()
        if isinstance(docid, str):
            row = int(self.index.forward.rows([docid])[0])
        elif isinstance(docid, (int, np.integer)) and not isinstance(docid, bool):
            rows = self.index.forward.lucene_rows
            row = int(rows[docid]) if 0 <= docid < len(rows) else -1
        else:
            raise InputError(f"a document is named by its id or by its Lucene number, not by {type(docid).__name__}")
        if not 0 <= row < len(self.index.forward):  # deleted documents have no row
            return None
        return self._documents().read(int(self.index.forward.lucene_numbers[row]), self.index.forward.ids[row])

    def explain(self, query: str, docid: str) -> Explanation:
        """Explain the score and the rank of a document.

        A neural model computes it with its PyTorch module, in about a tenth of a second; the first call loads torch.

        Raises:
            InputError: the query is not a text, or the document is not one of its candidates.
        """
        ranking = self._rank(as_query(query)).whole()
        place = place_of(ranking, docid)
        document = self._documents().as_indexed(int(ranking.candidates.rows[place]))
        return explain(ranking, place, self._pipeline.scorer, self._config.name, document)

    def similar(self, docid: str, k: int = 10, encoder: str | Path = "ktrel") -> list[Hit]:
        """The k other documents whose stored vectors are closest to a document's.

        Args:
            encoder: the model that encoded the index: its folder, or the name of a bundled model.

        Returns:
            Hits whose score is the cosine.

        Raises:
            InputError: there is no such document, or the index holds no encodings by this model.
        """
        self._check_open()
        forward = self.index.forward
        row = int(forward.rows([docid])[0]) if isinstance(docid, str) else -1
        if row < 0:
            raise InputError(f"document {docid!r} is not in the index {self.index.folder}: give an id of this index")
        with self._lock:
            stage = self._encodings.get(str(encoder)) or DenseConfig(checkpoint=str(encoder)).open(self.index)
            self._encodings[str(encoder)] = stage
        candidates = stage.neighbours(row, at_least(k, "k"))
        ranking = pipeline.rank(as_query(docid), candidates, None)
        return ranked_hits(ranking, len(candidates))

    def set_bm25(self, k1: float = 0.9, b: float = 0.4) -> None:
        """Retrieve by BM25 with these parameters; RM3 stays set."""
        config = self._lucene_config("set_bm25")
        self._set(replace(config, name=BM25 if config.name == QLD else config.name, k1=float(k1), b=float(b)))

    def set_qld(self, mu: float = 1000.0) -> None:
        """Retrieve by query likelihood with Dirichlet smoothing; an `InputError` if RM3 is set, which needs BM25."""
        if self.is_using_rm3():
            raise InputError("RM3 needs BM25: call unset_rm3 before set_qld")
        self._set(replace(self._lucene_config("set_qld"), name=QLD, mu=float(mu)))

    def set_rm3(self, fb_terms: int = 10, fb_docs: int = 10, original_query_weight: float = 0.5) -> None:
        """Expand queries by RM3; an `InputError` with query likelihood, since RM3 needs BM25."""
        config = self._lucene_config("set_rm3")
        if config.name == QLD:
            raise InputError("RM3 needs BM25: call set_bm25 before set_rm3")
        weight = float(original_query_weight)
        self._set(replace(config, name=RM3, rm3_terms=fb_terms, rm3_documents=fb_docs, rm3_weight=weight))

    def unset_rm3(self) -> None:
        """Stop expanding queries."""
        if self.is_using_rm3():
            self._set(replace(self._lucene_config("unset_rm3"), name=BM25))

    def is_using_rm3(self) -> bool:
        """Whether queries are expanded by RM3."""
        return bool(self._config.name == RM3)

    def close(self) -> None:
        """Close the first stage; later searches raise an `InputError`."""
        with self._lock:
            closed, self._closed = self._closed, True
        index = self.index if self._opened_index else None
        for resource in () if closed else (self._pipeline, *self._replaced, self._stored, index):
            if resource is not None:
                resource.close()

    def _hits(self, ranking: Ranking, k: int, offset: int = 0) -> Hits:
        hits = pipeline.read(ranking, lambda whole: ranked_hits(whole, k, offset))
        if hits.missing is not None:
            log.warning("'%.60s': %s", ranking.query.text, hits.missing)
        return hits

    def _lucene_config(self, method: str) -> LuceneConfig:
        if not isinstance(self._config, LuceneConfig):
            raise InputError(f"{method} is for first stages of Lucene, not for '{self._config.name}'")
        return self._config

    def _set(self, config: LuceneConfig) -> None:
        """Replace the first stage."""
        self._check_open()
        opened = self._pipeline_of(self.index, self.reranker, config)
        with self._lock:
            self._replaced.append(self._pipeline)
            self._config, self._pipeline = config, opened

    def _documents(self) -> StoredDocuments:
        with self._lock:
            self._stored = self._stored or StoredDocuments(self.index)
            return self._stored

    def _pipeline_of(self, index: Index, reranker: Reranker | None, config: Any) -> OpenPipeline:
        scorer = None if reranker is None else reranker._scorer
        return OpenPipeline(index, index.first_stage(config), self.depth, scorer, cuts_ranking=cuts_ranking(config))

    @cached_property  # the look-up reads the installed packages; Lucene's stages, which replace one another, agree
    def _needs_query_id(self) -> bool:
        entry = FIRST_STAGES.find(self._config.name)
        return entry is not None and bool(entry.needs_query_id)

    def __enter__(self) -> Searcher:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _rank(self, query: Query) -> Ranking:
        self._check_open()
        if self._needs_query_id:
            raise InputError(f"the first stage '{self._config.name}' looks query ids up: use batch_search or rank_many")
        opened = self._pipeline
        self._notes.log([query], opened.first_stage, opened.scorer)
        return opened.rank(query)

    def _rank_all(self, queries: Sequence[Query], threads: int) -> Iterator[Ranking]:
        self._check_open()
        threads, opened = at_least(threads, "threads"), self._pipeline
        self._notes.log(queries, opened.first_stage, opened.scorer)
        return opened.rank_all(queries, threads, QUERIES_AT_ONCE)

    def _within_depth(self, k: int, offset: int = 0) -> int:
        if (last := at_least(k, "k") + at_least(offset, "offset", 0)) > self.depth:
            request = f"offset + k is {last}" if offset else f"k is {k}"
            raise InputError(
                f"{request}, but only {self.depth} candidates are retrieved: open the searcher with depth={last}"
            )
        return int(k)

    def _check_open(self) -> None:
        if self._closed:
            raise InputError("this searcher is closed: open another one")


def rank(
    index: str | Path | Index,
    query: str,
    reranker: str | Path | Reranker | Any | None = None,
    first_stage: str | Any = "bm25",
    depth: int = 500,
) -> RankedList:
    """The ranked list of one query, as in `rank_many`. Each call opens the index; use `Searcher` for several queries.

    Arguments and errors as in `Searcher`.
    """
    with Searcher(index, reranker, first_stage, depth) as searcher:
        return _ranked_list(searcher._rank(as_query(query)))


def rank_many(
    index: str | Path | Index,
    queries: str | Path | Mapping[str, str] | Iterable[Query],
    reranker: str | Path | Reranker | Any | None = None,
    first_stage: str | Any = "bm25",
    depth: int = 500,
    threads: int = 2,
) -> dict[str, RankedList]:
    """A run: the ranked lists of all queries by their ids, in the order of the queries.

    `write_run` writes the same file as the search command. Scores have no ties: equal scores are separated by the
    smallest float32 steps, so that every tool reads the same order.

    Args:
        queries: a spec as for the commands (``sample:test``, a BEIR folder with its split, a TSV file, ...), texts by
            query id, or records with ``id`` and ``text``. Ids that are whole numbers become texts.
        threads: number of threads that retrieve candidates.

    Other arguments as in `Searcher`.

    Raises:
        InputError: as in `Searcher`, or the queries cannot be read, or two queries have the same id.
    """
    checked_queries = _queries(queries)
    with Searcher(index, reranker, first_stage, depth) as searcher:
        return {ranking.query.id: _ranked_list(ranking) for ranking in searcher._rank_all(checked_queries, threads)}


def _ranked_list(ranking: Ranking) -> RankedList:
    ranking.whole()  # as a run is
    return RankedList(ranking.doc_ids, strictly_decreasing(ranking.ranked_scores))


def _queries(queries: str | Path | Mapping[str, str] | Iterable[Query]) -> list[Query]:
    if isinstance(queries, (str, Path)):
        return read_queries(str(queries))
    if isinstance(queries, Mapping):
        return _checked(as_query(text, id) for id, text in queries.items())
    records = list(queries)
    if invalid := [record for record in records if not isinstance(record, Query)]:
        raise InputError(f"queries are records of id and text, or texts by id; found {type(invalid[0]).__name__}")
    return _checked(records)


def _checked(queries: Iterable[Query]) -> list[Query]:
    """The queries, with texts for ids that are whole numbers; an `InputError` unless their ids differ."""
    by_id: dict[str, Query] = {}
    for query in queries:
        if (id := text_id(query.id, "queries")) in by_id:
            raise InputError(f"two queries have the id '{id}': query ids must differ")
        by_id[id] = query._replace(id=id)
    return list(by_id.values())


def _first_stage_config(first_stage: str | Any) -> Any:
    if isinstance(first_stage, str):
        return configure(first_stage)
    if not callable(getattr(first_stage, "open", None)):
        kind = type(first_stage).__name__
        raise InputError(f"a first stage is a name, such as 'bm25', or a configuration, not {kind}")
    return first_stage


def _reranker(reranker: Any, index: Index) -> Reranker | None:
    if reranker is None:
        return None
    if isinstance(reranker, (str, Path, list, tuple)):
        return Reranker.load(reranker, index)
    if not isinstance(reranker, Reranker):
        return Reranker(reranker, index)
    other = reranker.index
    if other is None:
        raise InputError("the reranker scores texts: load it with the index that is searched")
    if other.folder.resolve() != index.folder.resolve() or other.generation != index.generation:
        raise InputError(
            f"the reranker is of the index {other.folder}, not of the current {index.folder}: load it again"
        )
    return reranker
