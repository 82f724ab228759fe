"""The public class `Reranker`: re-ranks documents of an index by their ids, or texts, that something else retrieved."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from types import NoneType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from rerank_plugin import rerankers
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import Filter, Values
from rerank_plugin.base.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.index_folder import Index, retry_if_replaced
from rerank_plugin.indexes.statistics import CollectionStatistics
from rerank_plugin.indexes.text_index import TextIndex
from rerank_plugin.kernels.parallel import available_threads
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.register import foreign_model
from rerank_plugin.models.relevance import Relevance
from rerank_plugin.models.sharing import fetch, push, save_shared
from rerank_plugin.ranking import pipeline
from rerank_plugin.ranking.cascade import Stage, load_stages
from rerank_plugin.ranking.explain import explain, place_of
from rerank_plugin.ranking.explanation import Explanation
from rerank_plugin.ranking.notes import NotesLog, notes_of
from rerank_plugin.ranking.pipeline import Ranking
from rerank_plugin.ranking.stored_documents import StoredDocuments
from rerank_plugin.ranking.texts import TextScorer, fields_of

T = TypeVar("T")


@dataclass(frozen=True)
class Hit:
    """One document of a ranked list.

    Attributes:
        docid: the document's external id.
        score: the reranker's score, or the first stage's where there is no reranker.
        rank: from 1 on.
        title: as it was written; empty for a document without a title.
        lucene_docid: its number in the Lucene index that was searched.
        first_stage_score: the first stage's score of the document.
        first_stage_rank: its rank before re-ranking, from 1 on.
    """

    docid: str
    score: float
    rank: int
    title: str
    first_stage_score: float
    first_stage_rank: int
    lucene_docid: int


@dataclass(frozen=True)
class RankedText:
    """One of the texts that were given to a reranker without an index.

    Attributes:
        index: its place in the list that was given, from 0 on.
        document: what was given: the string or the mapping itself.
        score: the reranker's.
        rank: from 1 on.
        relevance_score: the score brought to a number between 0 and 1, in the same order, by `Reranker.relevance`.
    """

    index: int
    document: Any
    score: float
    rank: int
    relevance_score: float


class Reranker:
    """A model, or a lexical scorer, over the documents of one index, or over texts. It is thread-safe.

    It scores one query at a time, also when several threads call it, because the fast paths use all processors.

    Attributes:
        index: the index whose documents it scores; None if it scores texts.
        name: the scorer's, such as ``delta``.
        checkpoint: the folder that it was loaded from; None if there is none.
        relevance: the map of its scores to relevance between 0 and 1.
    """

    def __init__(self, scorer: Any, index: str | Path | Index | TextIndex):
        """Wrap an object with ``name`` and ``score(query, candidates)`` that gives float32 [C]; see `load`."""
        made = rerankers.as_scorer(scorer)
        self.index = None if isinstance(index, TextIndex) else open_index(index)
        self._texts = TextScorer(made, index) if isinstance(index, TextIndex) else None
        self._scorer = _OneAtATime(made)
        self._notes = NotesLog()
        self.name = made.name
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
        batch_size: int = 1024,
        threads: int | None = None,
        precision: str = "float32",
    ) -> Reranker:
        """Load the reranker that ``spec`` names.

        Args:
            spec: a known name (``delta``: the model that comes with the package), ``NAME:CHECKPOINT``, a checkpoint
                folder, a name on the Hugging Face hub (``ORG/NAME``), or ``package.module:Class``. ``NAME@N`` scores
                the best N candidates, and leaves the rest behind in its order; a list of names is a cascade: each
                scores the best of what the one before it ranked.
            index: the folder of an index, or an open `Index`, whose documents are scored. Without one, texts are.
            statistics: for texts, an index whose statistics (number of documents, document frequencies of words, mean
                lengths) they are scored by. By default those of the collection that the checkpoint was trained on.
            device: torch device of a neural model.
            batch_size: how many candidates a neural model scores at once.
            threads: of the fast paths on the CPU; all cores by default.
            precision: on a GPU ``float32``, ``bfloat16`` or ``float16``.

        Raises:
            InputError: there is no such index or reranker, the checkpoint does not fit the index, or there are no
                statistics.
        """
        stages = [Stage.of(one) for one in (spec if isinstance(spec, (list, tuple)) else [spec])]
        if not stages or not all(isinstance(one.reranker, str) for one in stages):
            raise InputError(f"a reranker is named by a string or a path, not by {type(spec).__name__}")
        if index is not None and statistics is not None:
            raise InputError(
                "statistics are for texts: documents of an index are scored by the statistics of that index"
            )
        how = rerankers.RerankerOptions(device, batch_size, threads=threads, precision=precision)
        named = [(one.reranker, rerankers.checkpoint_of(one.reranker)) for one in stages]

        def opened() -> Reranker:
            if index is not None:
                found = open_index(index)
                made = cls(load_stages(stages, found.forward, how), found)
            else:
                texts = TextIndex(_statistics(*named[0], statistics), threads or available_threads())
                made = cls(load_stages(stages, texts, how), texts)
            made.checkpoint = named[0][1] if len(stages) == 1 and stages[0].keep is None else None
            made.relevance = Relevance.of_checkpoint(named[-1][1])
            return made

        return retry_if_replaced(statistics if index is None else index, opened)

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
            name: its folder, or its id on the Hugging Face hub, from where it is downloaded once.
            index: as for `load`.
            options: the other arguments of `load`.
            revision: a branch, tag or commit on the hub.
            token: of the hub, for a private repository.

        Raises:
            InputError: there is no such checkpoint, a file does not match its checksum, or as in `load`.
        """
        return cls.load(fetch(name, revision, token).resolve(), index, **options)

    def save_pretrained(self, folder: str | Path, overwrite: bool = False) -> None:
        """Write the checkpoint to a folder, with checksums and a model card (``README.md``), for `from_pretrained`.

        Args:
            overwrite: replace a folder that this has written before.

        Raises:
            InputError: the reranker has no checkpoint, or something is there that must not be replaced.
        """
        save_shared(self._own_checkpoint(), folder, str(folder), overwrite)

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, token: str | None = None) -> str:
        """Upload what `save_pretrained` writes to the Hugging Face hub; returns its address there.

        Args:
            repo_id: ``OWNER/NAME``; the repository is made if there is none.
            private: whether a new repository is private; by default as the owner's settings say.
            token: of the hub; by default that of ``hf auth login``.

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

        With an index, documents are ids, or hits of an earlier search, and the result is a list of `Hit`; equal scores
        are ordered by decreasing document id. Without one, documents are texts: strings, or mappings with ``title``
        and ``text`` (or ``abstract``, or ``contents``). The result is a list of `RankedText`; of equal scores the
        first that was given wins. No documents give an empty list.

        Args:
            top_k: how many documents to return, from rank 1 on; all by default.
            first_stage_scores: of the documents. Without them, documents that are given by ids are in first-stage
                order; those of texts are BM25.
            passages: for texts, whether one that is longer than the model reads is cut into passages, of which the best
                one counts. Otherwise its end is not read.

        Raises:
            InputError: a document is not in the index, is given twice, or is no text; scores are missing or not finite;
                the query is no text; or top_k is below 1.
        """
        self._notes.log([as_query(query)], None, self._scorer)
        return self._reranked(query, documents, top_k, first_stage_scores, passages)

    def notes(self, query: str) -> list[str]:
        """What should be said of a query: that the model knows few of its words, or that it is read as words only.

        `rerank` logs them as warnings, once a query.
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
        asked, given = as_query(query), _listed(documents)
        depth = len(given) if top_k is None else at_least(top_k, "top_k")
        if self._texts is not None:
            return self._rank_texts(self._texts, asked, given, depth, first_stage_scores, passages)
        if passages:
            raise InputError("passages are for texts: a document of an index is scored as a whole")
        ranking = pipeline.rank(asked, self._candidates(given, first_stage_scores), self._scorer)
        return ranked_hits(ranking, depth)

    def explain(
        self,
        query: str,
        documents: Iterable[Any],
        which: str | int,
        *,
        first_stage_scores: Sequence[float] | npt.NDArray[np.floating[Any]] | None = None,
    ) -> Explanation:
        """What the score of one of some documents is made of, and why it moved; arguments are those of `rerank`.

        Args:
            which: with an index the document's id, without one its place in the list.

        Raises:
            InputError: as in `rerank`, or there is no such document among them.
        """
        asked, given = as_query(query), _listed(documents)
        if self._texts is not None:
            if not isinstance(which, (int, np.integer)) or not 0 <= which < len(given):
                raise InputError(f"there is no document {which!r} in a list of {len(given)}: give a place from 0 on")
            first = None if first_stage_scores is None else _finite(first_stage_scores, len(given))
            return self._texts.explain(asked, given, first, int(which))
        ranking = pipeline.rank(asked, self._candidates(given, first_stage_scores), self._scorer)
        place = place_of(ranking, which)
        document = self._documents.as_indexed(int(ranking.candidates.rows[place]))
        return explain(ranking, place, self._scorer, "the list", document)

    def rerank_hits(self, query: str, hits: Iterable[Any], searcher: Any, top_k: int | None = None) -> list[Hit]:
        """Re-rank the hits of another searcher, such as Pyserini's ``LuceneSearcher``.

        Args:
            hits: with ``docid``, ``lucene_docid`` and ``score``, best first.
            searcher: the one that found them, whose ``doc(docid).raw()`` or ``.contents()`` gives the texts. It is not
                asked by a reranker with an index, which looks the ids up.
            top_k: how many documents to return, from rank 1 on; all by default.

        Raises:
            InputError: as in `rerank`, or the searcher's index does not store the text of a hit.
        """
        given = _listed(hits)
        ids, scores = [one.docid for one in given], [float(one.score) for one in given]
        if self._texts is None:
            return self.rerank(query, ids, top_k, first_stage_scores=scores)
        texts = [stored_fields(searcher.doc(docid), docid) for docid in ids]
        numbers = [int(one.lucene_docid) for one in given]
        return [
            Hit(ids[at], one.score, one.rank, one.document["title"], scores[at], at + 1, numbers[at])
            for one in self.rerank(query, texts, top_k, first_stage_scores=scores)
            for at in [one.index]
        ]

    def _rank_texts(
        self, texts: TextScorer, query: Query, documents: list[Any], depth: int, first_stage_scores: Any, passages: bool
    ) -> list[RankedText]:
        first = None if first_stage_scores is None else _finite(first_stage_scores, len(documents))
        if not documents:
            return []
        scores = texts.score(query, documents, first, passages)
        best = np.argsort(-scores, kind="stable")[:depth]
        columns = zip(best.tolist(), scores[best].tolist(), self.relevance.of(scores[best]).tolist())
        return [
            RankedText(at, documents[at], score, rank, relevance)
            for rank, (at, score, relevance) in enumerate(columns, 1)
        ]

    @cached_property
    def _documents(self) -> StoredDocuments:
        assert self.index is not None  # else texts are explained
        return StoredDocuments(self.index)

    def _candidates(self, given: list[Any], scores: Any) -> Candidates:
        """The documents in first-stage order."""
        assert self.index is not None  # else texts are ranked
        ids = [one.docid if isinstance(one, Hit) else one for one in given]
        if strange := [one for one in ids if not isinstance(one, str)]:
            raise InputError(
                f"documents of an index are ids or hits, not {type(strange[0]).__name__}; for texts, load the reranker "
                "without an index"
            )
        of_hits = [one.first_stage_score for one in given if isinstance(one, Hit)]
        if scores is None and given and len(of_hits) == len(given):
            scores = of_hits
        if scores is None and self._scorer.listwise and given:
            raise InputError(f"the reranker '{self.name}' reads first-stage scores: give them, or hits of a search")
        if twice := [one for one, count in Counter(ids).items() if count > 1]:
            raise InputError(f"document '{twice[0]}' is given twice")
        forward = self.index.forward
        rows = forward.rows(ids)
        if len(unknown := np.flatnonzero(rows < 0)):
            raise InputError(
                f"{len(unknown)} of {len(ids)} documents are not in the index {self.index.folder}, first "
                f"'{ids[int(unknown[0])]}': give ids of this index"
            )
        if scores is None:
            return Candidates(forward, rows, np.arange(len(ids), 0, -1, dtype=np.float32))
        return Candidates(forward, rows, _finite(scores, len(ids))).best()


class _OneAtATime(rerankers.Scorer):
    """A thread-safe scorer: a lock lets one thread score at a time."""

    scores_together = True  # it does no harm where the scorer does not

    def __init__(self, scorer: rerankers.Scorer):
        self.scorer, self.name, self.listwise, self.lock = scorer, scorer.name, scorer.listwise, Lock()
        self.trained_after = scorer.trained_after

    def score(self, query: Query, candidates: Candidates) -> npt.NDArray[np.float32]:
        return self.score_many([query], [candidates])[0]

    def score_many(self, queries: Sequence[Query], candidates: Sequence[Candidates]) -> list[npt.NDArray[np.float32]]:
        with self.lock:
            return self.scorer.score_many(queries, candidates)

    def lacking_words(self, query: Query) -> list[str]:
        return self.scorer.lacking_words(query)

    def attribute(self, query: Query, candidates: Candidates, place: int) -> Attribution | None:
        with self.lock:
            return self.scorer.attribute(query, candidates, place)


def _listed(documents: Any) -> list[Any]:
    if isinstance(documents, (str, Mapping)):
        raise InputError(f"documents to re-rank are a list, not one {type(documents).__name__}")
    return list(documents)


def _statistics(spec: str, checkpoint: Path | None, index: str | Path | Index | None) -> CollectionStatistics:
    """The statistics of an index, or of a checkpoint where none is named."""
    if index is not None:
        return CollectionStatistics.of_index(open_index(index).forward)
    if checkpoint is None:
        raise InputError(
            f"the reranker '{spec}' keeps no statistics of a collection, by which texts are scored: name an index as "
            "statistics, or as index if documents are given by their ids"
        )
    if foreign_model(checkpoint) is not None:  # a cross-encoder of others reads no statistics
        return CollectionStatistics.of_nothing()
    return CollectionStatistics.load(checkpoint)


def stored_fields(document: Any, docid: str) -> dict[str, str]:
    """Title and text of a document as a searcher of Pyserini's kind keeps it: JSON, or plain text.

    Raises:
        InputError: there is no such document, or its index does not store texts.
    """
    kept = None if document is None else document.raw() or document.contents()
    if kept is None:
        raise InputError(
            f"the searcher has no text of document '{docid}': it needs an index that stores raw or contents"
        )
    try:
        found = json.loads(kept)
    except ValueError:
        found = kept
    title, text = fields_of(found if isinstance(found, dict) else kept, f"'{docid}'")
    return {"title": title, "text": text}


def _finite(scores: Any, count: int) -> npt.NDArray[np.float32]:
    try:
        found = np.asarray(scores, np.float32)
    except (TypeError, ValueError):
        raise InputError("first-stage scores must be numbers") from None
    if found.shape != (count,):
        raise InputError(f"{count} documents have first-stage scores of shape {found.shape}: give one score each")
    if not np.isfinite(found).all():
        raise InputError("a first-stage score is NaN or infinite")
    return found


def ranked_hits(ranking: Ranking, k: int, offset: int = 0) -> list[Hit]:
    """The best k documents of a ranking after the first ``offset``."""
    best = ranking._replace(order=ranking.order[offset : offset + k])
    candidates, index = ranking.candidates, ranking.candidates.index
    rows = candidates.rows[best.order]
    of_scores = best.doc_ids, best.ranked_scores.tolist(), range(offset + 1, offset + len(rows) + 1)
    before = candidates.first_stage_scores[best.order].tolist(), (best.order + 1).tolist()
    columns = (*of_scores, index.titles.take(rows), *before, index.lucene_numbers[rows].tolist())
    return [Hit(*fields) for fields in zip(*columns)]


def open_index(index: str | Path | Index) -> Index:
    """The index of a folder; one that is open already stays the same."""
    if isinstance(index, Index):
        return index
    if not isinstance(index, (str, os.PathLike)):
        raise InputError(f"an index is the path of its folder or an open Index, not {type(index).__name__}")
    return Index(index)


def as_query(text: str, id: str | None = None, filter: Filter | Values | None = None) -> Query:
    """A query with this text; without an id the text is also its id, which messages show."""
    if not isinstance(text, str):
        raise InputError(f"a query is a text, not {type(text).__name__}")
    if isinstance(filter, Mapping):
        filter = Filter.of(filter) if filter else None
    if not isinstance(filter, (Filter, NoneType)):
        raise InputError(f"a filter is a Filter or a mapping, as {{'type': 'Review'}}, not {type(filter).__name__}")
    return Query(text if id is None else id, text, filter)


def at_least(number: int, name: str, least: int = 1) -> int:
    """A whole number that a caller gave."""
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
        raise InputError(f"{name} is {number!r}: it must be a whole number")
    if number < least:
        raise InputError(f"{name} is {number}: it must be at least {least}")
    return int(number)
