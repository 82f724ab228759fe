"""The public class `Reranker`: re-ranks documents of an index by their ids, or texts, of any retrieval system."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from types import NoneType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from rerank_plugin import rerankers
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import Filter, Values
from rerank_plugin.base.lazily import cached_property
from rerank_plugin.base.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.collection_statistics import CollectionStatistics
from rerank_plugin.indexes.index_folder import Index, retry_if_replaced
from rerank_plugin.indexes.locations import named_location, open_index
from rerank_plugin.indexes.text_index import TextIndex
from rerank_plugin.kernels.parallel import available_threads
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.checkpoint import Checkpoint
from rerank_plugin.models.register import foreign_model
from rerank_plugin.models.relevance import Relevance
from rerank_plugin.models.sharing import fetch, push, save_shared
from rerank_plugin.ranking import pipeline
from rerank_plugin.ranking.cascade import Stage, load_stages
from rerank_plugin.ranking.explanation import Explanation, explain, place_of
from rerank_plugin.ranking.hits import (
    NO_LUCENE_NUMBER,
    Hit,
    id_of,
    is_hit,
    listed,
    ranked_hits,
    scores_of,
    stored_fields,
    text_of_hit,
)
from rerank_plugin.ranking.notes import NotesLog, notes_of
from rerank_plugin.ranking.stored_documents import StoredDocument, StoredDocuments
from rerank_plugin.ranking.texts import TextScorer

T = TypeVar("T")


@dataclass(frozen=True)
class RankedText:
    """One text of a list that a reranker without an index ranked.

    Attributes:
        index: the place in the list, from 0 on.
        document: the string or the mapping of the list.
        score: the reranker's score.
        rank: from 1 on.
        relevance_score: the score mapped to [0, 1], in the same order, by `Reranker.relevance`.
    """

    index: int
    document: Any
    score: float
    rank: int
    relevance_score: float


class Reranker:
    """A model, or a lexical scorer, over the documents of one index, or over texts. It is thread-safe.

    It scores one query at a time, even if several threads call it, because the fast paths use all CPU cores.

    Attributes:
        index: the index whose documents it scores; None if it scores texts.
        name: the scorer's name, such as ``delta``.
        checkpoint: the folder of the checkpoint; None without a checkpoint.
        relevance: the map of its scores to relevance between 0 and 1.
        listwise: whether a document's score depends on the other documents of the list, or on first-stage scores, so
            that scores of different lists must not be compared, cached or merged; otherwise it is pointwise.
        trained_after: the first stage whose scores it reads; None if it reads none.
    """

    def __init__(self, scorer: Any, index: str | Path | Index | TextIndex):
        """Wrap an object with ``name`` and ``score(query, candidates)`` that gives float32 [C]; see `load`."""
        adapted = rerankers.as_scorer(scorer)
        self._remade: tuple[Callable[..., Reranker], tuple[Any, ...]] = (type(self), (scorer, absolute(index)))
        self.index = None if isinstance(index, TextIndex) else open_index(index)
        self._texts = TextScorer(adapted, index) if isinstance(index, TextIndex) else None
        self._scorer = _LockedScorer(adapted)
        self._notes = NotesLog()
        self.name, self.listwise, self.trained_after = adapted.name, adapted.listwise, adapted.trained_after
        self.checkpoint: Path | None = None
        self.relevance = Relevance()

    @classmethod
    def load(
        cls,
        spec: str | Path | Sequence[str | Path],
        index: str | Path | Index | None = None,
        *,
        statistics: str | Path | Index | None = None,
        device: str = "cpu",
        batch_size: int | None = None,
        threads: int | None = None,
        precision: str = "float32",
    ) -> Reranker:
        """Load the reranker that ``spec`` names.

        Args:
            spec: a known name (``delta``: the bundled model), ``NAME:CHECKPOINT``, a checkpoint folder, a name on the
                Hugging Face hub (``ORG/NAME``), or ``package.module:Class``. ``NAME@N`` scores the top N candidates;
                the rest follow in their order. ``NAME+0.5`` is half of its score and half of the one before it. A list
                of names is a cascade: each re-ranks the ranking before it.
            index: the folder of an index, or an open `Index`, whose documents are scored. Without an index, the
                reranker scores texts.
            statistics: for texts, an index with the statistics to score by (number of documents, document frequencies
                of words, mean lengths). By default the statistics of the checkpoint's training collection.
            device: torch device of a neural model.
            batch_size: number of candidates that a neural model scores at once; None for the default.
            threads: threads of the fast paths on the CPU; all cores by default.
            precision: ``float32``; on a GPU ``tf32``, ``bfloat16`` or ``float16``; on a CPU ``bfloat16``.

        Raises:
            InputError: there is no such index or reranker, the checkpoint does not fit the index, or there are no
                statistics.
        """
        stages = [Stage.of(stage) for stage in (spec if isinstance(spec, (list, tuple)) else [spec])]
        if not stages or not all(isinstance(stage.reranker, str) for stage in stages):
            raise InputError(f"a reranker is named by a string or a path, not by {type(spec).__name__}")
        if index is not None and statistics is not None:
            raise InputError(
                "statistics are for texts: documents of an index are scored by the statistics of that index"
            )
        running = rerankers.RerankerOptions(device, batch_size, threads=threads, precision=precision)
        named = [(stage.reranker, rerankers.checkpoint_of(stage.reranker)) for stage in stages]

        def opened() -> Reranker:
            if index is not None:
                opened_index = open_index(index)
                reranker = cls(load_stages(stages, opened_index.forward, running), opened_index)
            else:
                texts = TextIndex(_statistics(*named[0], statistics), threads or available_threads())
                reranker = cls(load_stages(stages, texts, running), texts)
            reranker.checkpoint = named[0][1] if len(stages) == 1 and stages[0].alone else None
            reranker.relevance = Relevance() if stages[-1].before else Relevance.of_checkpoint(named[-1][1])
            again = partial(
                cls.load, statistics=absolute(statistics), device=device, batch_size=batch_size, threads=threads,
                precision=precision,
            )  # fmt: skip
            reranker._remade = again, ([_absolute_spec(*pair) for pair in zip(stages, named)], absolute(index))
            return reranker

        return retry_if_replaced(statistics if index is None else index, opened)

    def __reduce__(self) -> tuple[Callable[..., Reranker], tuple[Any, ...]]:
        """Pickle and copy it as what it was made of: the copy opens index and checkpoint anew, where they are now."""
        return self._remade

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        index: str | Path | Index | None = None,
        *,
        revision: str | None = None,
        token: str | None = None,
        **options: Any,
    ) -> Reranker:
        """Load a checkpoint that `save_pretrained` or `push_to_hub` wrote, after a check of its files' checksums.

        Args:
            name: the folder of the checkpoint, or its id on the Hugging Face hub, from which it is downloaded once.
            index: as for `load`.
            options: the other arguments of `load`.
            revision: a branch, tag or commit on the hub.
            token: access token of the hub, for a private repository.

        Raises:
            InputError: there is no such checkpoint, a file does not match its checksum, or as in `load`.
        """
        return cls.load(fetch(name, revision, token).resolve(), index, **options)

    def save_pretrained(self, folder: str | Path, overwrite: bool = False) -> None:
        """Write the checkpoint to a folder, with checksums and a model card (``README.md``), for `from_pretrained`.

        Args:
            overwrite: replace a folder that `save_pretrained` wrote.

        Raises:
            InputError: the reranker has no checkpoint, or the folder exists and must not be replaced.
        """
        save_shared(self._own_checkpoint(), folder, str(folder), overwrite)

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, token: str | None = None) -> str:
        """Upload the files of `save_pretrained` to the Hugging Face hub; returns their address.

        Args:
            repo_id: ``OWNER/NAME``; a missing repository is created.
            private: whether a new repository is private; by default the owner's setting.
            token: access token of the hub; by default that of ``hf auth login``.

        Raises:
            InputError: the reranker has no checkpoint, or the hub cannot be reached or refuses.
        """
        return push(self._own_checkpoint(), repo_id, private, token)

    def _own_checkpoint(self) -> Path:
        if self.checkpoint is None:
            raise InputError(f"the reranker '{self.name}' has no checkpoint that could be saved")
        return self.checkpoint

    def rerank(
        self,
        query: str,
        documents: Iterable[Any],
        top_k: int | None = None,
        *,
        first_stage_scores: Sequence[float] | npt.NDArray[np.floating[Any]] | None = None,
        passages: bool = False,
    ) -> list[Any]:
        """Re-rank documents by decreasing score.

        With an index, documents are ids, or hits of an earlier search, also of Pyserini's, and the result is a list of
        `Hit`; equal scores are ordered by decreasing document id, and a document that is given twice is ranked once, at
        the better of its first-stage ranks. Without one, documents are texts: strings, mappings with ``title`` and
        ``text`` (or ``abstract``, or ``contents``), or hits whose index stores texts. The result is a list of
        `RankedText`; of equal scores the first that was given wins. A title that is no text never refuses a list, and a
        missing text is empty. The rows of a table (pandas, polars) are such mappings; with an index they need a column
        ``docid``, ``docno`` or ``id``. No documents give an empty list.

        Args:
            top_k: number of documents to return, from rank 1 on; all by default.
            first_stage_scores: of the documents. By default hits bring theirs, ids are in first-stage order, and texts
                have BM25 scores.
            passages: for texts, whether a text longer than the model reads is cut into passages and gets the score of
                the best passage. Otherwise its end is not read.

        Raises:
            InputError: a document is not in the index, or is no text; scores are missing or not finite;
                the query is no text; or top_k is below 1.
        """
        self._notes.log([as_query(query)], None, self._scorer)
        return self._reranked(query, documents, top_k, first_stage_scores, passages)

    def notes(self, query: str) -> list[str]:
        """Notes on a query: the model knows few of its words, or its search syntax is read as words.

        `rerank` logs them as warnings, once for each query.
        """
        return notes_of(as_query(query), None, self._scorer)

    def _reranked(
        self,
        query: str,
        documents: Iterable[Any],
        top_k: int | None,
        first_stage_scores: Any = None,
        passages: bool = False,
    ) -> list[Any]:
        """`rerank` without the notes."""
        checked_query, given = as_query(query), listed(documents)
        depth = len(given) if top_k is None else at_least(top_k, "top_k")
        if first_stage_scores is None:
            first_stage_scores = scores_of(given)
        if self._texts is not None:
            return self._rank_texts(self._texts, checked_query, given, depth, first_stage_scores, passages)
        if passages:
            raise InputError("passages are for texts: a document of an index is scored as a whole")
        ranking = pipeline.rank(checked_query, self._candidates(given, first_stage_scores), self._scorer)
        return ranked_hits(ranking, depth, find=self._find)

    def explain(
        self,
        query: str,
        documents: Iterable[Any],
        which: str | int,
        *,
        first_stage_scores: Sequence[float] | npt.NDArray[np.floating[Any]] | None = None,
    ) -> Explanation:
        """Explain the score and the rank of one of the documents; other arguments as in `rerank`.

        Args:
            which: the document's id with an index, its place in the list without.

        Raises:
            InputError: as in `rerank`, or the document is not in the list.
        """
        checked_query, given = as_query(query), listed(documents)
        if first_stage_scores is None:
            first_stage_scores = scores_of(given)
        if self._texts is not None:
            if not isinstance(which, (int, np.integer)) or not 0 <= which < len(given):
                raise InputError(f"there is no document {which!r} in a list of {len(given)}: give a place from 0 on")
            scores = None if first_stage_scores is None else _finite(first_stage_scores, len(given))
            return self._texts.explain(checked_query, _with_texts(given), scores, int(which))
        ranking = pipeline.rank(checked_query, self._candidates(given, first_stage_scores), self._scorer)
        place = place_of(ranking, which)
        document = self._documents.as_indexed(int(ranking.candidates.rows[place]))
        return explain(ranking, place, self._scorer, "the list", document)

    def rerank_hits(self, query: str, hits: Iterable[Any], searcher: Any, top_k: int | None = None) -> list[Hit]:
        """Re-rank the hits of another searcher, such as Pyserini's ``LuceneSearcher``.

        Args:
            hits: with ``docid`` and ``score``, from rank 1 on, of Lucene or of dense vectors.
            searcher: the other searcher; ``doc(docid).raw()`` or ``.contents()`` gives the texts. A reranker with an
                index looks the ids up instead.
            top_k: number of documents to return, from rank 1 on; all by default.

        Raises:
            InputError: as in `rerank`, or the searcher's index does not store the text of a hit.
        """
        given = listed(hits)
        ids, scores = [hit.docid for hit in given], [float(hit.score) for hit in given]
        if self._texts is None:
            return self.rerank(query, ids, top_k, first_stage_scores=scores)
        texts = [stored_fields(searcher.doc(docid), docid) for docid in ids]
        numbers = [int(getattr(hit, "lucene_docid", NO_LUCENE_NUMBER)) for hit in given]  # dense hits have none
        return [
            Hit(
                ids[place], text.score, text.rank, text.document["title"], scores[place], place + 1, numbers[place]
            ).read_by(partial(searcher.doc, ids[place]))
            for text in self.rerank(query, texts, top_k, first_stage_scores=scores)
            for place in [text.index]
        ]

    def _rank_texts(
        self, texts: TextScorer, query: Query, documents: list[Any], depth: int, first_stage_scores: Any, passages: bool
    ) -> list[RankedText]:
        checked_scores = None if first_stage_scores is None else _finite(first_stage_scores, len(documents))
        if not documents:
            return []
        scores = texts.score(query, _with_texts(documents), checked_scores, passages)
        best = np.argsort(-scores, kind="stable")[:depth]
        columns = zip(best.tolist(), scores[best].tolist(), self.relevance.of(scores[best]).tolist())
        return [
            RankedText(place, documents[place], score, rank, relevance)
            for rank, (place, score, relevance) in enumerate(columns, 1)
        ]

    @cached_property
    def _documents(self) -> StoredDocuments:
        assert self.index is not None  # else texts are explained
        return StoredDocuments(self.index)

    def _find(self, docid: str) -> StoredDocument | None:
        return self._documents.find(docid)

    def _candidates(self, documents: list[Any], scores: Any) -> Candidates:
        """The documents in first-stage order."""
        assert self.index is not None  # else texts are ranked
        ids = [id_of(document) for document in documents]
        if scores is None and self._scorer.listwise and documents:
            raise InputError(f"the reranker '{self.name}' reads first-stage scores: give them, or hits of a search")
        forward = self.index.forward
        rows = forward.rows(ids)
        if len(unknown := np.flatnonzero(rows < 0)):
            raise InputError(
                f"{len(unknown)} of {len(ids)} documents are not in the index {self.index.folder}, first "
                f"'{ids[int(unknown[0])]}': give ids of this index"
            )
        if scores is None:
            rows = rows[_first_places(rows)]
            return Candidates(forward, rows, np.arange(len(rows), 0, -1, dtype=np.float32))
        found = Candidates(forward, rows, _finite(scores, len(ids))).best()
        once = _first_places(found.rows)
        return Candidates(forward, found.rows[once], found.first_stage_scores[once])


class _LockedScorer(rerankers.Scorer):
    """A thread-safe scorer: a lock lets one thread score at a time."""

    scores_together = True  # harmless if the scorer's is false

    def __init__(self, scorer: rerankers.Scorer):
        self.scorer, self.name, self.listwise, self.lock = scorer, scorer.name, scorer.listwise, Lock()
        self.trained_after, self.adds_before = scorer.trained_after, scorer.adds_before

    def score(self, query: Query, candidates: Candidates) -> npt.NDArray[np.float32]:
        return self.score_many([query], [candidates])[0]

    def score_many(self, queries: Sequence[Query], candidates: Sequence[Candidates]) -> list[npt.NDArray[np.float32]]:
        with self.lock:
            return self.scorer.score_many(queries, candidates)

    def lacking_words(self, query: Query) -> list[str]:
        return self.scorer.lacking_words(query)

    def unread_words(self, query: Query) -> list[str]:
        return self.scorer.unread_words(query)

    def attribute(self, query: Query, candidates: Candidates, place: int) -> Attribution | None:
        with self.lock:
            return self.scorer.attribute(query, candidates, place)


def _first_places(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where each row occurs first, in order: a document that is given twice is ranked once."""
    places: npt.NDArray[np.int64] = np.sort(np.unique(rows, return_index=True)[1])
    return places


def absolute(index: Any) -> Any:
    """The path of an index in every working directory; anything else as it is."""
    return os.path.abspath(index) if isinstance(index, (str, os.PathLike)) and named_location(index) is None else index


def _absolute_spec(stage: Stage, named: tuple[str, Path | None]) -> str:
    """The name of a stage with the path of its checkpoint in every working directory."""
    spec, checkpoint = named
    if checkpoint is not None and not checkpoint.is_absolute():
        name, colon, _ = spec.rpartition(":") if not Path(spec).is_dir() else ("", "", "")
        spec = f"{name}{colon}{os.path.abspath(checkpoint)}"
    return str(replace(stage, reranker=spec))


def _with_texts(documents: list[Any]) -> list[Any]:
    """The documents, with title and text in place of hits."""
    return [text_of_hit(document) if is_hit(document) else document for document in documents]


def _statistics(spec: str, checkpoint: Path | None, index: str | Path | Index | None) -> CollectionStatistics:
    """The statistics of an index, or of the checkpoint without an index."""
    if index is not None:
        return CollectionStatistics.of_index(open_index(index).forward)
    if checkpoint is None:
        raise InputError(
            f"the reranker '{spec}' keeps no statistics of a collection, which scoring texts needs: name an index as "
            "statistics, or as index if documents are given by their ids"
        )
    if foreign_model(checkpoint) is not None:  # a foreign cross-encoder reads no statistics
        return CollectionStatistics.of_empty_collection()
    return Checkpoint.open(checkpoint).statistics


def _finite(scores: Any, count: int) -> npt.NDArray[np.float32]:
    try:
        array = np.asarray(scores, np.float32)
    except (TypeError, ValueError):
        raise InputError("first-stage scores must be numbers") from None
    if array.shape != (count,):
        raise InputError(f"{count} documents have first-stage scores of shape {array.shape}: give one score each")
    if not np.isfinite(array).all():
        raise InputError("a first-stage score is NaN or infinite")
    return array


def as_query(text: str, id: str | None = None, filter: Filter | Values | None = None) -> Query:
    """A query with this text; its default id, which messages show, is the text."""
    if not isinstance(text, str):
        raise InputError(f"a query is a text, not {type(text).__name__}")
    return Query(text if id is None else id, text, as_filter(filter))


def as_filter(filter: Filter | Values | None) -> Filter | None:
    """A filter, or a mapping as for `Filter.of`, as a filter; None for no restriction."""
    if isinstance(filter, Mapping):
        filter = Filter.of(filter) if filter else None
    if not isinstance(filter, (Filter, NoneType)):
        raise InputError(f"a filter is a Filter or a mapping, as {{'type': 'Review'}}, not {type(filter).__name__}")
    return filter


def at_least(number: int, name: str, least: int = 1) -> int:
    """The number; an `InputError` unless it is a whole number of at least ``least``."""
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
        raise InputError(f"{name} is {number!r}: it must be a whole number")
    if number < least:
        raise InputError(f"{name} is {number}: it must be at least {least}")
    return int(number)
