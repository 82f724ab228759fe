"""The public class `Reranker`: a scorer over an index, for re-ranking documents that another system has retrieved."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from rerank_plugin import rerankers
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.index_folder import Index, open_whole
from rerank_plugin.ranking import pipeline
from rerank_plugin.ranking.pipeline import Ranking

T = TypeVar("T")


@dataclass(frozen=True)
class Hit:
    """One document of a ranked list.

    Attributes:
        docid: the document's external id.
        score: the reranker's score, or the first stage's where there is no reranker.
        rank: from 1 on.
        title: as it was written; empty for a document without a title.
        first_stage_score: the first stage's score of the document.
        first_stage_rank: its rank before re-ranking, from 1 on.
    """

    docid: str
    score: float
    rank: int
    title: str
    first_stage_score: float
    first_stage_rank: int


class Reranker:
    """A model, or a lexical scorer, over the documents of one index. It is thread-safe.

    It scores one query at a time, also when several threads call it, because the fast paths use all processors.

    Attributes:
        index: the index whose documents it scores.
        name: the scorer's, such as ``delta``.
    """

    def __init__(self, scorer: Any, index: str | Path | Index):
        """Wrap an object with ``name`` and ``score(query, candidates)`` that gives float32 [C]; see `load`."""
        self.index = open_index(index)
        self._scorer = _OneAtATime(rerankers.as_scorer(scorer))
        self.name = self._scorer.name

    @classmethod
    def load(
        cls,
        spec: str | Path,
        index: str | Path | Index,
        *,
        device: str = "cpu",
        batch_size: int = 1024,
        threads: int | None = None,
        precision: str = "float32",
    ) -> Reranker:
        """Load the reranker that ``spec`` names.

        Args:
            spec: a known name (``delta``: the model that comes with the package), ``NAME:CHECKPOINT``, a checkpoint
                folder, or ``package.module:Class``.
            index: the folder of an index, or an open `Index`.
            device: torch device of a neural model.
            batch_size: how many candidates a neural model scores at once.
            threads: of the fast paths on the processor; all processors by default.
            precision: on a GPU ``float32``, ``bfloat16`` or ``float16``.

        Raises:
            InputError: there is no such index or reranker, or the checkpoint does not fit the index.
        """
        if not isinstance(spec, (str, os.PathLike)):
            raise InputError(f"a reranker is named by a string or a path, not by {type(spec).__name__}")
        how = rerankers.RerankerOptions(device, batch_size, threads=threads, precision=precision)

        def opened() -> Reranker:
            found = open_index(index)
            return cls(rerankers.load(os.fspath(spec), found.forward, how), found)

        return whole(index, opened)

    def rerank(
        self,
        query: str,
        documents: Sequence[str | Hit],
        first_stage_scores: Sequence[float] | npt.NDArray[np.floating[Any]] | None = None,
        k: int | None = None,
    ) -> list[Hit]:
        """Re-rank documents: by decreasing score, then by decreasing document id.

        Args:
            documents: ids of documents of the index, or hits of an earlier search.
            first_stage_scores: of the documents, if they are given by ids. Without them, the given order is the
                first-stage order.
            k: how many documents to return, from rank 1 on; all by default.

        Raises:
            InputError: a document is not in the index or is given twice, scores are missing or not finite, the query is
                no text, or k is below 1.
        """
        candidates = self._candidates(documents, first_stage_scores)
        ranking = pipeline.rank(as_query(query), candidates, self._scorer)
        return hits(ranking, len(candidates) if k is None else at_least_one(k, "k"))

    def _candidates(self, documents: Sequence[str | Hit], scores: Any) -> Candidates:
        """The documents in first-stage order."""
        if isinstance(documents, str):
            raise InputError("documents to re-rank are a list of document ids, not one string")
        given = list(documents)
        ids = [one.docid if isinstance(one, Hit) else one for one in given]
        if strange := [one for one in ids if not isinstance(one, str)]:
            raise InputError(f"documents to re-rank are ids or hits, not {type(strange[0]).__name__}")
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

    def score(self, query: Query, candidates: Candidates) -> npt.NDArray[np.float32]:
        return self.score_many([query], [candidates])[0]

    def score_many(self, queries: Sequence[Query], candidates: Sequence[Candidates]) -> list[npt.NDArray[np.float32]]:
        with self.lock:
            return self.scorer.score_many(queries, candidates)


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


def hits(ranking: Ranking, k: int) -> list[Hit]:
    """The best k documents of a ranking."""
    best = ranking.best(k)
    titles = ranking.candidates.index.titles.take(ranking.candidates.rows[best.order])
    before = ranking.candidates.first_stage_scores[best.order]
    ranks = range(1, len(titles) + 1)
    columns = best.doc_ids, best.ranked_scores.tolist(), ranks, titles, before.tolist(), (best.order + 1).tolist()
    return [Hit(*fields) for fields in zip(*columns)]


def open_index(index: str | Path | Index) -> Index:
    """The index of a folder; one that is open already stays the same."""
    if isinstance(index, Index):
        return index
    if not isinstance(index, (str, os.PathLike)):
        raise InputError(f"an index is the path of its folder or an open Index, not {type(index).__name__}")
    return Index(index)


def whole(index: str | Path | Index, opening: Callable[[], T]) -> T:
    """The result of ``opening``, which is called again if the index folder is replaced while it runs."""
    return opening() if isinstance(index, Index) else open_whole(opening)


def as_query(text: str, id: str | None = None) -> Query:
    """A query with this text; without an id the text is also its id, which messages show."""
    if not isinstance(text, str):
        raise InputError(f"a query is a text, not {type(text).__name__}")
    return Query(text if id is None else id, text)


def at_least_one(number: int, name: str) -> int:
    """A count that a caller gave."""
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
        raise InputError(f"{name} is {number!r}: it must be a whole number")
    if number < 1:
        raise InputError(f"{name} is {number}: it must be at least 1")
    return int(number)
