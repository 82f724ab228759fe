"""The pipeline, the one way of a query: a first stage gives candidates, rerankers score them, and they are sorted.

A :class:`Pipeline` is data: what is searched, by which stages, and how many documents each one passes on, as in
``bm25 % 500 >> delta >> bert % 20``. The search command opens one; `Searcher` and the service put one together from
parts that are open. Beside it only cascades, lists that share candidates (:mod:`rerank_plugin.ranking.bulk`) and texts
of no index are sorted by scores, in this folder; nothing outside it ranks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import Filter
from rerank_plugin.base.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.index_folder import Index, retry_if_replaced
from rerank_plugin.java.jvm import detach_at_thread_end
from rerank_plugin.ranking.cascade import Stage, load_stages
from rerank_plugin.ranking.scores import checked, checked_scores
from rerank_plugin.rerankers import CandidateScorer, RerankerOptions, Scorer, as_scorer, warn_first_stage_mismatch
from rerank_plugin.retrieval.given_run import RunConfig
from rerank_plugin.retrieval.lucene import LuceneConfig
from rerank_plugin.retrieval.register import FIRST_STAGES, RANKING, FirstStage, FirstStageConfig, check_filter

CandidateSource = Callable[[Query], Candidates]


class Ranking(NamedTuple):
    """One query's C candidates in first-stage order, their scores (float32 [C]), and their final order (int64 [C]).

    ``features_ms`` and ``model_ms`` are milliseconds of features and of the rest of scoring, of all queries that were
    scored together; those of the first stage are ``candidates.search_ms``.
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

    def best(self, depth: int | None) -> Ranking:
        """The first ``depth`` ranks only; all of them for None."""
        return self._replace(order=self.order[:depth])


@dataclass(frozen=True)
class Pipeline:
    """What is searched and how.

    Attributes:
        index: the folder of an index, or an open `Index`.
        first_stage: its configuration (:mod:`rerank_plugin.retrieval`).
        depth: how many candidates the first stage passes on.
        stages: the rerankers, in order, each with how many of the best so far it scores.
        filter: which documents may be found, by queries without a filter of their own; None for all.
        running: how the rerankers are run.
    """

    index: str | Path | Index
    first_stage: FirstStageConfig = LuceneConfig()
    depth: int = 500
    stages: tuple[Stage, ...] = ()
    filter: Filter | None = None
    running: RerankerOptions = RerankerOptions()

    def open(self) -> OpenPipeline:
        """Open everything once, of one generation of the index.

        Raises:
            InputError: there is no such index, reranker or first stage, or they do not belong together.
        """

        def opened() -> OpenPipeline:
            index = self._index()
            return self._opened(index, self.scorer(index))

        return retry_if_replaced(self.index, opened)

    def open_for(self, query: Query) -> tuple[OpenPipeline, Candidates]:
        """Open everything for one query, and search: Java starts and searches while the rerankers load.

        Raises:
            InputError: as in `open`, or as in `OpenPipeline.candidates`.
        """

        def searched() -> tuple[OpenPipeline, Candidates]:
            index = self._index()
            index.forward  # noqa: B018 (opened once, before there are two threads)
            first = lambda: self._opened(index, None).candidates(query)  # noqa: E731
            if not isinstance(self.first_stage, LuceneConfig):  # others import torch, which two threads must not
                found, scorer = first(), self.scorer(index)
            else:
                with ThreadPoolExecutor(1) as helper:
                    searching = helper.submit(first)
                    scorer = self.scorer(index)
                    found = searching.result()
            return self._opened(index, scorer), found

        return retry_if_replaced(self.index, searched)

    def scorer(self, index: Index) -> Scorer | None:
        """The rerankers over an index as one, None without any; warns of those trained on another first stage."""
        if not self.stages:
            return None
        made = load_stages(self.stages, index.forward, self.running)
        if not isinstance(self.first_stage, RunConfig):  # a run does not say what made it
            warn_first_stage_mismatch(made, self.first_stage.name)
        return made

    def _index(self) -> Index:
        return self.index if isinstance(self.index, Index) else Index(self.index)

    def _opened(self, index: Index, scorer: Scorer | None) -> OpenPipeline:
        first_stage = index.first_stage(self.first_stage)
        if self.filter is not None:  # what is wrong with it should not wait for the first query
            check_filter(first_stage, Query("", "", self.filter))
            index.check_filter(self.filter)
        return OpenPipeline(index, first_stage, self.depth, scorer, self.filter, cuts_ranking(self.first_stage))


class OpenPipeline:
    """A pipeline whose parts are open, all of one generation of the index; several threads may call it.

    Args:
        scorer: the rerankers as one (:class:`~rerank_plugin.ranking.cascade.Cascade`); None without any.
        cuts_ranking: whether the first stage gives all it has, and the depth cuts the final ranking.
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
        """What the first stage passes on; an `InputError` if it cannot filter as the query asks."""
        detach_at_thread_end()  # callers' threads come and go
        if self.filter is not None and query.filter is None:
            query = query._replace(filter=self.filter)
        check_filter(self.first_stage, query)
        started = perf_counter()
        found = self.first_stage.search(query, self.depth)
        found.search_ms = 1000 * (perf_counter() - started)
        return found

    def rank(self, query: Query) -> Ranking:
        """The ranking of one query.

        Raises:
            InputError: as in `candidates`; the number of scores differs from that of candidates, or one is not finite.
        """
        return self.rank_together([query], [self.candidates(query)])[0]

    def rank_together(self, queries: Sequence[Query], candidates: Sequence[Candidates]) -> list[Ranking]:
        """The rankings of several queries, whose candidates are scored in one call; errors are those of `rank`."""
        return [ranking.best(self.cut) for ranking in rank_together(queries, candidates, self.scorer)]

    def rank_all(self, queries: Iterable[Query], threads: int = 2, together: int = 1) -> Iterator[Ranking]:
        """The rankings of many queries, as :func:`rank_all` gives them."""
        return (
            ranking.best(self.cut) for ranking in rank_all(queries, self.candidates, self.scorer, threads, together)
        )

    def close(self) -> None:
        """Close what the first stage holds open."""
        if (close := getattr(self.first_stage, "close", None)) is not None:  # some hold nothing open
            close()


def cuts_ranking(first_stage: FirstStageConfig | FirstStage) -> bool:
    """Whether a first stage gives all it has, and the depth cuts the final ranking."""
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
    if reranker is None:
        pairs = zip(queries, candidates, strict=True)
        scores = [checked(found.first_stage_scores, query, found, "the first stage") for query, found in pairs]
        return [Ranking(query, found, one, found.order(one)) for query, found, one in zip(queries, candidates, scores)]
    scorer = as_scorer(reranker)
    started, before = perf_counter(), scorer.feature_seconds
    scores = checked_scores(queries, candidates, scorer)
    seconds, features = perf_counter() - started, scorer.feature_seconds - before
    spent = 1000 * features, 1000 * max(seconds - features, 0)
    return [
        Ranking(query, found, one, found.order(one), *spent) for query, found, one in zip(queries, candidates, scores)
    ]


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
        threads: how many threads retrieve candidates.
        together: how many queries a reranker with ``score_many`` scores in one call. Other rerankers score one query
            at a time.

    Raises:
        InputError: as in :func:`rank`, raised at the failing query, after the rankings of all queries before it.
    """
    together = together if reranker is not None and as_scorer(reranker).scores_together else 1
    ahead: deque = deque()

    def rank_oldest() -> Iterator[Ranking]:
        batch = [ahead.popleft() for _ in range(min(together, len(ahead)))]
        try:
            yield from rank_together([query for query, _ in batch], [future.result() for _, future in batch], reranker)
        except InputError:  # one at a time up to the fault, so that what comes before it is not lost
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

    It raises an `InputError` for a query with a filter where the first stage cannot filter.
    """

    def source(query: Query) -> Candidates:
        check_filter(first_stage, query)
        return first_stage.search(query, depth)

    return source
