"""The pipeline of every query: a first stage retrieves candidates, rerankers score them, and the scores sort them.

A :class:`Pipeline` is data: the index, the stages, and the number of documents that each stage passes on, as in
``bm25 % 500 >> delta >> bert % 20``. The search command opens one; `Searcher` and the service build an
:class:`OpenPipeline` of open parts. Besides it, only this folder sorts by scores: cascades, lists that share candidates
(:mod:`rerank_plugin.ranking.bulk`), and texts without an index.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import NamedTuple, TypeVar

import numpy as np

from rerank_plugin.base.errors import InputError, UnavailableError
from rerank_plugin.base.filters import Filter
from rerank_plugin.base.records import Missing, Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.index_folder import Index, retry_if_replaced
from rerank_plugin.indexes.opening import open_index
from rerank_plugin.java.jvm import detach_at_thread_end
from rerank_plugin.ranking.cascade import Stage, load_stages
from rerank_plugin.ranking.scores import checked, checked_scores
from rerank_plugin.rerankers import CandidateScorer, RerankerOptions, Scorer, as_scorer, warn_first_stage_mismatch
from rerank_plugin.retrieval.lucene import LuceneConfig
from rerank_plugin.retrieval.register import FIRST_STAGES, RANKING, FirstStage, FirstStageConfig, check_filter
from rerank_plugin.retrieval.run_file import RunConfig

T = TypeVar("T")
CandidateSource = Callable[[Query], Candidates]


class Ranking(NamedTuple):
    """One query's C candidates in first-stage order, their scores (float32 [C]), and their final order (int64 [C]).

    ``features_ms`` and ``model_ms`` are milliseconds of features and of the rest of scoring, of all queries that were
    scored together; ``candidates.search_ms`` has the first stage's.
    """

    query: Query
    candidates: Candidates
    scores: np.ndarray
    order: np.ndarray
    features_ms: float = 0.0
    model_ms: float = 0.0

    @property
    def doc_ids(self) -> list[str]:
        """External ids from rank 1 on."""
        return self.candidates.index.ids.take(self.candidates.rows[self.order])

    @property
    def ranked_scores(self) -> np.ndarray:
        return self.scores[self.order]

    @property
    def missing(self) -> Missing | None:
        """The shards whose documents it lacks, as they did not answer; None if it is whole."""
        if not (shards := sorted(self.candidates.missing or ())):
            return None
        shares = self.candidates.index.shares
        return Missing(tuple(shards), len(shares), float(shares[shards].sum()))

    def without(self, shards: frozenset[int]) -> Ranking:
        """The ranking of the documents that are in none of these shards; as `Candidates.without`."""
        candidates = self.candidates.without(shards)
        if candidates is self.candidates:
            return self
        kept = np.isin(self.candidates.rows, candidates.rows)
        order = (np.cumsum(kept) - 1)[self.order[kept[self.order]]]
        return self._replace(candidates=candidates, scores=self.scores[kept], order=order)

    def whole(self) -> Ranking:
        """This ranking; an `UnavailableError` if it lacks documents."""
        if (missing := self.missing) is not None:
            raise UnavailableError(f"{missing}: try again", missing.shards)
        return self

    def best(self, depth: int | None) -> Ranking:
        """The ranking cut at ``depth``; None keeps all ranks."""
        return self._replace(order=self.order[:depth])


@dataclass(frozen=True)
class Pipeline:
    """The configuration of a search.

    Attributes:
        index: the folder of an index, or an open `Index`.
        first_stage: the first stage's configuration (:mod:`rerank_plugin.retrieval`).
        depth: number of candidates that the first stage passes on.
        stages: the rerankers, in order, each with the number of documents that it scores.
        filter: filter of queries without their own; None for all documents.
        running: options of the rerankers.
    """

    index: str | Path | Index
    first_stage: FirstStageConfig = LuceneConfig()
    depth: int = 500
    stages: tuple[Stage, ...] = ()
    filter: Filter | None = None
    running: RerankerOptions = RerankerOptions()

    def open(self) -> OpenPipeline:
        """Open index, first stage and rerankers, all of one generation of the index.

        Raises:
            InputError: there is no such index, reranker or first stage, or they do not fit together.
        """

        def opened() -> OpenPipeline:
            index = self._index()
            return self._opened(index, self.scorer(index))

        return retry_if_replaced(self.index, opened)

    def open_for(self, query: Query) -> tuple[OpenPipeline, Candidates]:
        """Open the pipeline for one query, and search: Java starts and searches while the rerankers load.

        Raises:
            InputError: as in `open`, or as in `OpenPipeline.candidates`.
        """

        def searched() -> tuple[OpenPipeline, Candidates]:
            index = self._index()
            index.forward  # noqa: B018 (opened once, before there are two threads)

            def search() -> Candidates:
                return self._opened(index, None).candidates(query)

            if not isinstance(self.first_stage, LuceneConfig):  # others import torch, which two threads must not
                candidates, scorer = search(), self.scorer(index)
            else:
                with ThreadPoolExecutor(1) as executor:
                    future = executor.submit(search)
                    scorer = self.scorer(index)
                    candidates = future.result()
            return self._opened(index, scorer), candidates

        return retry_if_replaced(self.index, searched)

    def scorer(self, index: Index) -> Scorer | None:
        """The rerankers as one scorer, None without any; warns if one was trained on another first stage."""
        if not self.stages:
            return None
        scorer = load_stages(self.stages, index.forward, self.running)
        if not isinstance(self.first_stage, RunConfig):  # the first stage of a run is unknown
            warn_first_stage_mismatch(scorer, self.first_stage.name)
        return scorer

    def _index(self) -> Index:
        return open_index(self.index)

    def _opened(self, index: Index, scorer: Scorer | None) -> OpenPipeline:
        first_stage = index.first_stage(self.first_stage)
        if self.filter is not None:  # an invalid filter fails before the first query
            check_filter(first_stage, Query("", "", self.filter))
            index.check_filter(self.filter)
        return OpenPipeline(index, first_stage, self.depth, scorer, self.filter, cuts_ranking(self.first_stage))


class OpenPipeline:
    """A pipeline whose parts are open, all of one generation of the index. It is thread-safe.

    Args:
        scorer: the rerankers as one scorer (:class:`~rerank_plugin.ranking.cascade.Cascade`); None without any.
        cuts_ranking: whether the depth cuts the final ranking instead of the candidates.
    """

    def __init__(
        self,
        index: Index,
        first_stage: FirstStage,
        depth: int = 500,
        scorer: Scorer | None = None,
        filter: Filter | None = None,
        cuts_ranking: bool = False,
    ):
        self.index, self.first_stage, self.depth, self.scorer = index, first_stage, depth, scorer
        self.filter, self.cut = filter, depth if cuts_ranking else None

    def candidates(self, query: Query) -> Candidates:
        """The candidates of the first stage; an `InputError` if it cannot apply the query's filter."""
        detach_at_thread_end()  # callers' threads come and go
        if self.filter is not None and query.filter is None:
            query = query._replace(filter=self.filter)
        check_filter(self.first_stage, query)
        started = perf_counter()
        candidates = self.index.search(self.first_stage, query, self.depth)
        candidates.search_ms = 1000 * (perf_counter() - started)
        return candidates

    def rank(self, query: Query) -> Ranking:
        """The ranking of one query.

        Raises:
            InputError: as in `candidates`; the number of scores differs from that of candidates, or one is not finite.
        """
        return self.rank_together([query], [self.candidates(query)])[0]

    def rank_together(self, queries: Sequence[Query], candidates: Sequence[Candidates]) -> list[Ranking]:
        """The rankings of several queries, whose candidates are scored in one call; errors as in `rank`."""
        return [ranking.best(self.cut) for ranking in rank_together(queries, candidates, self.scorer)]

    def rank_all(self, queries: Iterable[Query], threads: int = 2, together: int = 1) -> Iterator[Ranking]:
        """The rankings of many queries, as in :func:`rank_all`."""
        return (
            ranking.best(self.cut) for ranking in rank_all(queries, self.candidates, self.scorer, threads, together)
        )

    def to_depth(self, depth: int) -> OpenPipeline:
        """A pipeline of the same open parts with another depth."""
        return OpenPipeline(self.index, self.first_stage, depth, self.scorer, self.filter, self.cut is not None)

    def close(self) -> None:
        """Close the first stage's files."""
        if (close := getattr(self.first_stage, "close", None)) is not None:  # optional
            close()


def cuts_ranking(first_stage: FirstStageConfig | FirstStage) -> bool:
    """Whether the depth cuts the final ranking of a first stage, which gives all its documents."""
    entry = FIRST_STAGES.find(first_stage.name)
    return entry is not None and entry.depth_cuts == RANKING


def rank(query: Query, candidates: Candidates, reranker: CandidateScorer | None) -> Ranking:
    """Score and sort the candidates of one query; without a reranker they keep their first-stage scores.

    Raises:
        InputError: the number of scores differs from the number of candidates, or a score is NaN or infinite.
    """
    return rank_together([query], [candidates], reranker)[0]


def rank_together(
    queries: Sequence[Query], candidates: Sequence[Candidates], reranker: CandidateScorer | None
) -> list[Ranking]:
    """:func:`rank` for several queries; a reranker with ``score_many`` scores all of them in one call."""
    milliseconds = 0.0, 0.0
    if reranker is None:
        pairs = zip(queries, candidates, strict=True)
        scores = [checked(each.first_stage_scores, query, each, "the first stage") for query, each in pairs]
    else:
        scorer = as_scorer(reranker)
        started, before = perf_counter(), scorer.feature_seconds
        candidates, scores = _scored(queries, candidates, scorer)
        seconds, features = perf_counter() - started, scorer.feature_seconds - before
        milliseconds = 1000 * features, 1000 * max(seconds - features, 0)
    return [
        Ranking(query, each, its_scores, each.order(its_scores), *milliseconds)
        for query, each, its_scores in zip(queries, candidates, scores)
    ]


def _scored(
    queries: Sequence[Query], candidates: Sequence[Candidates], scorer: Scorer
) -> tuple[Sequence[Candidates], list[np.ndarray]]:
    """The candidates that could be scored, without those of shards that do not answer, and their scores."""
    while True:
        try:
            return candidates, checked_scores(queries, candidates, scorer)
        except UnavailableError as error:
            others = [each.without(error.shards) for each in candidates]
            if all(each is other for each, other in zip(candidates, others)):
                raise
            candidates = others


def read(ranking: Ranking, reading: Callable[[Ranking], T]) -> T:
    """What ``reading`` gives, which reads documents of a ranking; without those of shards that do not answer then."""
    while True:
        try:
            return reading(ranking)
        except UnavailableError as error:
            if (less := ranking.without(error.shards)) is ranking:
                raise
            ranking = less


def rank_all(
    queries: Iterable[Query],
    source: CandidateSource,
    reranker: CandidateScorer | None,
    threads: int = 2,
    together: int = 1,
) -> Iterator[Ranking]:
    """Yield the rankings of many queries, in their order. Candidates are retrieved in parallel with scoring.

    Args:
        source: gives the candidates of a query; several threads call it at the same time.
        threads: number of threads that retrieve candidates.
        together: number of queries that a reranker with ``score_many`` scores in one call. Other rerankers score one
            query at a time.

    Raises:
        InputError: as in :func:`rank`, raised at the failing query, after the rankings of all queries before it.
    """
    together = together if reranker is not None and as_scorer(reranker).scores_together else 1
    ahead: deque[tuple[Query, Future[Candidates]]] = deque()

    def rank_oldest() -> Iterator[Ranking]:
        batch = [ahead.popleft() for _ in range(min(together, len(ahead)))]
        try:
            yield from rank_together([query for query, _ in batch], [future.result() for _, future in batch], reranker)
        except InputError:  # one query at a time, so that the rankings before the failing query are not lost
            for query, future in batch:
                yield rank(query, future.result(), reranker)

    with ThreadPoolExecutor(threads) as executor:
        try:
            for query in queries:
                ahead.append((query, executor.submit(source, query)))
                if len(ahead) >= 4 * threads + together:
                    yield from rank_oldest()
            while ahead:
                yield from rank_oldest()
        finally:
            for _, future in ahead:
                future.cancel()


def from_first_stage(first_stage: FirstStage, depth: int) -> CandidateSource:
    """A candidate source that retrieves at most ``depth`` candidates of each query with a first stage.

    It raises an `InputError` for a query with a filter that the first stage cannot apply.
    """

    def source(query: Query) -> Candidates:
        check_filter(first_stage, query)
        return first_stage.search(query, depth)

    return source
