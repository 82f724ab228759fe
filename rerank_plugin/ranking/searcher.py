"""The public search API: `Searcher`, which returns hits."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import Filter, Values
from rerank_plugin.base.records import Query
from rerank_plugin.base.settings import DEPTH
from rerank_plugin.files.runs import distinct
from rerank_plugin.indexes.index_folder import Index, retry_if_replaced
from rerank_plugin.indexes.locations import open_index
from rerank_plugin.ranking import pipeline
from rerank_plugin.ranking.explanation import Explanation, explain, place_of
from rerank_plugin.ranking.hits import Hit, Hits, ranked_hits
from rerank_plugin.ranking.notes import NotesLog
from rerank_plugin.ranking.pipeline import OpenPipeline, Ranking, Reading
from rerank_plugin.ranking.reading import PLAIN, PUBMED, read
from rerank_plugin.ranking.reranker import Reranker, absolute, as_query, at_least
from rerank_plugin.ranking.stored_documents import StoredDocument, StoredDocuments
from rerank_plugin.rerankers import warn_first_stage_mismatch
from rerank_plugin.retrieval.dense import DenseConfig, DenseStage
from rerank_plugin.retrieval.lucene import BM25, QLD, RM3, LuceneConfig, LuceneFirstStage
from rerank_plugin.retrieval.register import FIRST_STAGES, configuration_of

log = logging.getLogger(__name__)

# What a searcher has until it is closed.
PARTS = ("index", "reranker", "_pipeline", "_lucene", "_replaced", "_stored", "_encodings")
CLOSED = "this searcher is closed: open another one"
QUERIES_AT_ONCE = 8  # queries of a batch that a reranker scores together


class Searcher:
    """Retrieves candidates with a first stage and re-ranks them. It is thread-safe.

    The hits of a query equal the run that the search command writes with the same settings, in the same order.

    It replaces Pyserini's ``LuceneSearcher``: its methods have the same names and arguments, and what it does not offer
    raises an `InputError` of one sentence. Setting a first stage affects all later searches, in all threads.

    Attributes:
        index: the `Index` that is searched.
        num_docs: number of documents.
        reranker: the `Reranker`; None to keep the first stage's order.
        depth: number of candidates that the first stage retrieves for a query.
    """

    def __init__(
        self,
        index: str | Path | Index,
        reranker: str | Path | Reranker | Any | None = None,
        first_stage: str | Any = "bm25",
        depth: int = DEPTH,
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
        self._closed, self._lock, self._notes = False, Lock(), NotesLog()
        self.depth = at_least(depth, "depth")
        self._lucene: LuceneFirstStage | None = None  # the first one that was opened

        def opened() -> tuple[Index, Reranker | None, OpenPipeline]:
            self._config = configuration_of(first_stage)
            opened_index = open_index(index)
            loaded = _reranker(reranker, opened_index)
            return opened_index, loaded, self._pipeline_of(opened_index, loaded, self._config)

        self.index, self.reranker, self._pipeline = retry_if_replaced(index, opened)
        if self.reranker is not None:
            warn_first_stage_mismatch(self.reranker._scorer, self._config.name)
        self._opened_index = self.index is not index
        # What a copy is made of: the index and the reranker by their names.
        named = isinstance(reranker, (str, Path, list, tuple))
        self._made_of = absolute(index), self.reranker._remade[1][0] if named and self.reranker else reranker
        self.num_docs = len(self.index)
        self._replaced: list[OpenPipeline] = []  # other threads may still be searching with them
        # Opened by the first `doc` or `explain`, and the first `similar`.
        self._stored: StoredDocuments | None = None
        self._encodings: dict[str, DenseStage] = {}

    def search(
        self,
        q: str,
        k: int = 10,
        query_generator: None = None,
        fields: Mapping[str, float] | None = None,
        strip_segment_id: bool = False,
        remove_dups: bool = False,
        *,
        offset: int = 0,
        filter: Filter | Values | None = None,
        query_syntax: str = PLAIN,
        rank_by: str | None = None,
        term_mapping: bool = True,
    ) -> Hits:
        """The k documents with the highest scores, from rank 1 on; fewer if the first stage finds fewer.

        On a cluster with ``partial``, ``missing`` of the hits names the shards that did not answer, and a warning does.

        Args:
            k: above the depth, the first stage retrieves k candidates.
            query_generator: of Pyserini, not supported.
            fields: of Pyserini, not supported.
            strip_segment_id: whether document ids end before their first full stop.
            remove_dups: whether only the first hit of each document id is kept.
            offset: number of top documents to skip: page 2 of ten hits each has the offset 10.
            filter: restricts the documents: a `Filter`, or an argument of `Filter.of`; None for all.
            query_syntax: ``pubmed`` reads PubMed's language, too, ids, authors and journals (`read`). All documents
                that match a strategy are ranked, up to 100,000, whatever the depth.
            rank_by: the text that ranks them, instead of the strategy's own words.
            term_mapping: whether words of a strategy that name a MeSH heading also find it, where the index has MeSH.

        Raises:
            InputError: the query is not a text, a strategy is malformed, k is below 1, offset + k is above the depth
                with an offset, or the first stage or the index does not support the filter.
        """
        _check_plain(query_generator, fields)
        reading = self.read(q, query_syntax, filter=filter, rank_by=rank_by, term_mapping=term_mapping)
        depth = self._depth_for(k, 0 if reading.matches is not None else offset)
        hits = self._hits(self._rank(reading.query, depth), int(k), at_least(offset, "offset", 0))
        if strip_segment_id:
            hits[:] = (
                replace(hit, docid=hit.docid.split(".")[0]).read_by(partial(self.doc, hit.docid)) for hit in hits
            )
        if remove_dups:
            first = {hit.docid: hit for hit in reversed(hits)}
            hits[:] = (hit for hit in hits if first[hit.docid] is hit)
        return hits

    def read(
        self, q: str, query_syntax: str = PUBMED, *, filter: Filter | Values | None = None, **more: Any
    ) -> Reading:
        """A query as `search` understands it: ``read_as``, the exact number of ``matches``, ``notes``, and its words.

        ``more``: ``rank_by`` and ``term_mapping`` as in `search`, and ``newest_first``. Errors as in `search`.
        """
        with self._while_open():
            return read(self.index, as_query(q, filter=filter), query_syntax, **more)

    def batch_search(
        self,
        queries: Sequence[str],
        qids: Sequence[str] | None = None,
        k: int = 10,
        threads: int = 1,
        query_generator: None = None,
        fields: Mapping[str, float] | None = None,
        *,
        filter: Filter | Values | None = None,
    ) -> dict[str, Hits]:
        """`search` for many queries: the hits by query id, in the order of the queries.

        Args:
            qids: ids of the queries; by default their positions in the list, "0", "1", ...
            threads: number of threads that retrieve candidates.
            query_generator: of Pyserini, not supported.
            fields: of Pyserini, not supported.
            filter: as in `search`, for all queries.

        Raises:
            InputError: as in `search`, or the number of ids differs from that of queries, or two ids are equal.
        """
        _check_plain(query_generator, fields)
        if isinstance(queries, str):
            raise InputError("batch_search takes a list of queries; one query is for search")
        texts = list(queries)
        ids = [str(place) for place in range(len(texts))] if qids is None else list(qids)
        if len(ids) != len(texts):
            raise InputError(f"{len(texts)} queries but {len(ids)} query ids: give one id each")
        checked_queries = distinct(as_query(text, id, filter) for text, id in zip(texts, ids))
        rankings = self._rank_all(checked_queries, threads, self._depth_for(k))
        return {ranking.query.id: self._hits(ranking, int(k)) for ranking in rankings}

    def notes(self, q: str) -> list[str]:
        """Notes on a query: words that no document has, syntax read as words, models that know few of its words.

        Searches log all but the first kind as warnings, once for each query; a batch gets one line for each note.
        """
        return [*self.read(q, PLAIN).notes, *self._pipeline.notes(as_query(q))]

    def doc(self, docid: str | int) -> StoredDocument | None:
        """A document with the methods ``docid()``, ``id()``, ``contents()``, ``raw()`` and ``get(field)``.

        Args:
            docid: an external id, or as an int the number of a Lucene document.

        Returns:
            None if there is no such document.

        Raises:
            InputError: the index does not store its documents, or the id is of another type.
        """
        with self._while_open():
            return self._documents().find(docid)

    def batch_doc(self, docids: Iterable[str], threads: int = 1) -> dict[str, StoredDocument]:
        """The documents with these ids, by id, without those that the index lacks; read one after another.

        Errors as in `doc`.
        """
        at_least(threads, "threads")
        if isinstance(docids, str):
            raise InputError("batch_doc takes a list of document ids; one id is for doc")
        found = {docid: self.doc(docid) for docid in docids}
        return {docid: document for docid, document in found.items() if document is not None}

    def doc_by_field(self, field: str, q: str) -> StoredDocument | None:
        """The first document with the value ``q`` of a field that is indexed whole (``id``, ``journal``, ...), or None.

        Raises:
            InputError: as in `doc`; or the index has no such field, or is on a cluster.
        """
        with self._while_open():
            return self._documents().find_by_field(field, q)

    def explain(self, query: str, docid: str) -> Explanation:
        """Explain the score and the rank of a document.

        A neural model computes it with its PyTorch module, in about a tenth of a second; the first call loads torch.

        Raises:
            InputError: the query is not a text, or the document is not one of its candidates.
        """
        ranking = self._rank(as_query(query)).require_complete()
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
        forward = self.index.forward
        row = int(forward.rows([docid])[0]) if isinstance(docid, str) else -1
        if row < 0:
            raise InputError(f"document {docid!r} is not in the index {self.index.folder}: give an id of this index")
        candidates = self._opened_encodings(encoder).neighbours(row, at_least(k, "k"))
        ranking = pipeline.rank(as_query(docid), candidates, None)
        return ranked_hits(ranking, len(candidates))

    def likeness(self, rows: np.ndarray, others: np.ndarray, encoder: str | Path = "ktrel") -> np.ndarray:
        """The mean cosine of each document's stored vector to those of other documents.

        Args:
            rows: of the documents in the index, int64 [n].
            others: rows of one document or more, int64 [m].
            encoder: as of `similar`.

        Returns:
            float32 [n].

        Raises:
            InputError: the index holds no encodings by this model.
        """
        return self._opened_encodings(encoder).mean_cosines(rows, others)

    def _opened_encodings(self, encoder: str | Path) -> DenseStage:
        with self._lock:
            stage = self._encodings.get(str(encoder)) or DenseConfig(checkpoint=str(encoder)).open(self.index)
            self._encodings[str(encoder)] = stage
            return stage

    def set_first_stage(self, first_stage: str | Any) -> None:
        """Retrieve by another first stage, given as to the constructor; an `InputError` as there."""
        self._set(configuration_of(first_stage))

    def set_bm25(self, k1: float = 0.9, b: float = 0.4) -> None:
        """Retrieve by BM25 with these parameters; RM3 stays set."""
        config = self._lucene_config("set_bm25")
        self._set(replace(config, name=BM25 if config.name == QLD else config.name, k1=float(k1), b=float(b)))

    def set_qld(self, mu: float = 1000.0) -> None:
        """Retrieve by query likelihood with Dirichlet smoothing; an `InputError` if RM3 is set, which needs BM25."""
        if self.is_using_rm3():
            raise InputError("RM3 needs BM25: call unset_rm3 before set_qld")
        self._set(replace(self._lucene_config("set_qld"), name=QLD, mu=float(mu)))

    def set_rm3(
        self,
        fb_terms: int = 10,
        fb_docs: int = 10,
        original_query_weight: float = 0.5,
        debug: bool = False,
        filter_terms: bool = True,
    ) -> None:
        """Expand queries by RM3; an `InputError` with query likelihood, since RM3 needs BM25.

        Args:
            debug: of Pyserini; a warning says that it prints nothing.
            filter_terms: only True: terms with other characters than letters and digits of ASCII are left out.
        """
        config = self._lucene_config("set_rm3")
        if config.name == QLD:
            raise InputError("RM3 needs BM25: call set_bm25 before set_rm3")
        if not filter_terms:
            raise InputError("RM3 expands by terms of letters and digits only: leave filter_terms out")
        if debug:
            log.warning("set_rm3: debug prints nothing here")
        weight = float(original_query_weight)
        self._set(replace(config, name=RM3, rm3_terms=fb_terms, rm3_documents=fb_docs, rm3_weight=weight))

    def unset_rm3(self) -> None:
        """Stop expanding queries."""
        if self.is_using_rm3():
            self._set(replace(self._lucene_config("unset_rm3"), name=BM25))

    def is_using_rm3(self) -> bool:
        """Whether queries are expanded by RM3."""
        return bool(self._config.name == RM3)

    def get_similarity(self) -> Any:
        """Lucene's ``Similarity`` of the first stage, a Java object."""
        stage = self._pipeline.first_stage
        if not isinstance(stage, LuceneFirstStage):
            raise InputError(
                f"get_similarity is for an open Lucene index, not for '{self._config.name}' of this searcher"
            )
        return stage.searcher.getSimilarity()

    def set_language(self, language: str) -> None:
        """Nothing for ``en``, the language of the index; an `InputError` for other languages."""
        if language != "en":
            raise InputError(f"set_language: queries are analyzed as the index was, as English, not as '{language}'")

    def set_analyzer(self, analyzer: Any) -> None:
        """Raise an `InputError`: queries are always analyzed as the documents were."""
        raise InputError("set_analyzer: queries are analyzed as the documents of the index were; leave it out")

    def set_rocchio(self, *arguments: Any, **named: Any) -> None:
        """Raise an `InputError`: there is RM3 only."""
        raise InputError("set_rocchio: Rocchio's feedback is not offered; expand queries by set_rm3")

    def unset_rocchio(self) -> None:
        """Nothing, since Rocchio's feedback cannot be set."""

    def is_using_rocchio(self) -> bool:
        """False."""
        return False

    def close(self) -> None:
        """Give all files back, those of an index that was given as an open `Index` excepted.

        From then on every attribute and method but `close` raises an `InputError`. Hits stay valid.
        """
        with self._lock:
            closed, self._closed = self._closed, True
        if closed:
            return
        index = self.index if self._opened_index else None
        for resource in (self._pipeline, *self._replaced, self._stored, index):
            if resource is not None:
                resource.close()
        for name in PARTS:  # memory maps end with the last object that reads them
            del self.__dict__[name]

    def _hits(self, ranking: Ranking, k: int, offset: int = 0) -> Hits:
        hits = pipeline.read(ranking, lambda whole: ranked_hits(whole, k, offset, self.doc))
        if hits.missing is not None:
            log.warning("'%.60s': %s", ranking.query.text, hits.missing)
        return hits

    def _lucene_config(self, method: str) -> LuceneConfig:
        if not isinstance(self._config, LuceneConfig):
            raise InputError(f"{method} is for first stages of Lucene, not for '{self._config.name}'")
        return self._config

    def _set(self, config: Any) -> None:
        """Replace the first stage; those of Lucene share the files that the first of them opened."""
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
        if isinstance(config, LuceneConfig) and self._lucene is not None and self._lucene.index is index:
            first_stage = self._lucene.configured(**asdict(config))
        else:
            first_stage = index.first_stage(config)
            self._lucene = first_stage if isinstance(first_stage, LuceneFirstStage) else self._lucene
        entry = FIRST_STAGES.find(config.name)  # once: a look-up asks for the packages that are installed
        self._needs_query_id = entry is not None and bool(entry.needs_query_id)
        return OpenPipeline(index, first_stage, self.depth, scorer)

    def __getattr__(self, name: str) -> Any:
        if name in PARTS and self._closed:
            raise InputError(CLOSED)
        raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'")

    def __reduce__(self) -> tuple[type[Searcher], tuple[Any, ...]]:
        """Pickle and copy it as the names of what it opened, and its first stage: the copy opens them anew."""
        if self._closed:
            raise InputError(CLOSED)
        return type(self), (*self._made_of, self._config, self.depth)

    def __del__(self) -> None:
        if (index := self.__dict__.get("index")) is not None and self.__dict__.get("_opened_index"):
            index.release()

    def __enter__(self) -> Searcher:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _rank(self, query: Query, depth: int | None = None) -> Ranking:
        """The ranking of a query; ``depth`` replaces that of the searcher."""
        opened = replace(self._pipeline, depth=depth or self.depth)
        if self._needs_query_id:
            raise InputError(f"the first stage '{self._config.name}' looks query ids up: use batch_search or rank_many")
        self._notes.log([query], opened.first_stage, opened.scorer)
        with self._while_open():
            return opened.rank(query)

    def _rank_all(self, queries: Sequence[Query], threads: int, depth: int | None = None) -> Iterator[Ranking]:
        threads, opened = at_least(threads, "threads"), replace(self._pipeline, depth=depth or self.depth)
        self._notes.log(queries, opened.first_stage, opened.scorer)
        return opened.rank_all(queries, threads, QUERIES_AT_ONCE)

    def _depth_for(self, k: int, offset: int = 0) -> int:
        """The depth of a search for k hits. Pages are parts of one list, so an offset does not change it."""
        last = at_least(k, "k") + at_least(offset, "offset", 0)
        if offset and last > self.depth:
            raise InputError(
                f"offset + k is {last}, but only {self.depth} candidates are retrieved: open the searcher with "
                f"depth={last}"
            )
        return max(last, self.depth)

    @contextmanager
    def _while_open(self) -> Iterator[None]:
        """Turn an exception of the block into an `InputError` if another thread has closed the searcher meanwhile."""
        try:
            yield
        except Exception:
            if self._closed:
                raise InputError(CLOSED) from None
            raise


def _check_plain(query_generator: Any, fields: Any) -> None:
    """Refuse what only Pyserini's searcher takes."""
    if query_generator is not None or fields:
        raise InputError("queries are words of title and abstract: leave query_generator and fields out")


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
    if other.folder.resolve() != index.folder.resolve() or other.commit != index.commit:
        raise InputError(
            f"the reranker is of the index {other.folder}, not of the current {index.folder}: load it again"
        )
    return reranker
