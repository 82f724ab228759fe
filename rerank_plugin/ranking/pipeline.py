"""The pipeline of every query: a first stage retrieves candidates, rerankers score them, and the scores sort them.

A :class:`Pipeline` is data: the index, the stages, and the number of documents that each stage passes on, as in
``bm25 % 500 >> delta >> bert % 20``. Opened, or made of open parts, it is an :class:`OpenPipeline`. Besides it, only
this folder sorts by scores: cascades, lists that share candidates (:mod:`rerank_plugin.ranking.bulk`), and texts
without an index.
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
from rerank_plugin.base.settings import DEPTH
from rerank_plugin.files.string_table import StringTable
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.index_folder import Index, retry_if_replaced
from rerank_plugin.indexes.locations import open_index
from rerank_plugin.java.jvm import detach_at_thread_end
from rerank_plugin.ranking.cascade import Stage, load_stages
from rerank_plugin.ranking.notes import notes_of
from rerank_plugin.ranking.scores import checked, checked_scores
from rerank_plugin.rerankers import CandidateScorer, RerankerOptions, Scorer, as_scorer, warn_first_stage_mismatch
from rerank_plugin.retrieval.lucene import LuceneConfig
from rerank_plugin.retrieval.register import FIRST_STAGES, RANKING, FirstStage, FirstStageConfig, check_filter
from rerank_plugin.retrieval.run_file import RunConfig

T = TypeVar("T")
MOST_RANKED = 100_000  # documents of a strategy's set
DATE, TAB = 10, ord("\t")  # bytes of a date; what ends it
CandidateSource = Callable[[Query], Candidates]


class Reading(NamedTuple):
    """A query as it was understood.

    Attributes:
        query: the words that rank, and the filter.
        read_as: the strategy in PubMed's language; None for plain words.
        matches: the exact number of documents that match the strategy and the filter; None for plain words.
        notes: what was left out, or could not be answered.
        words: the words to mark in texts; empty for those that rank.
        did_you_mean: the query with words of the index for those that no document has; None where there are none.
    """

    query: Query
    read_as: str | None = None
    matches: int | None = None
    notes: tuple[str, ...] = ()
    words: str = ""
    did_you_mean: str | None = None


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

    def require_complete(self) -> Ranking:
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
        entire_sets: as of `OpenPipeline`.
    """

    index: str | Path | Index
    first_stage: FirstStageConfig = LuceneConfig()
    depth: int = DEPTH
    stages: tuple[Stage, ...] = ()
    filter: Filter | None = None
    running: RerankerOptions = RerankerOptions()
    entire_sets: bool = True

    def open(self) -> OpenPipeline:
        """Open index, first stage and rerankers, all of one commit of the index.

        Raises:
            InputError: there is no such index, reranker or first stage, or they do not fit together.
        """

        def opened() -> OpenPipeline:
            index = self._index()
            return self._opened(index, self.scorer(index))

        return retry_if_replaced(self.index, opened)

    def open_for(self, read: Callable[[Index], Reading]) -> tuple[OpenPipeline, Reading, Candidates]:
        """Open the pipeline for one query, and search: Java starts and searches while the rerankers load.

        Args:
            read: reads the query over the open index; as :func:`rerank_plugin.ranking.reading.read` does.

        Raises:
            InputError: as in `open`, or as in `OpenPipeline.candidates`.
        """

        def searched() -> tuple[OpenPipeline, Reading, Candidates]:
            index = self._index()
            index.forward  # noqa: B018 (opened once, before there are two threads)

            def search() -> tuple[Reading, Candidates]:
                pipeline, reading = self._opened(index, None), read(index)
                return reading, pipeline.candidates(reading.query)

            if not isinstance(self.first_stage, LuceneConfig):  # others import torch, which two threads must not
                (reading, candidates), scorer = search(), self.scorer(index)
            else:
                with ThreadPoolExecutor(1) as executor:
                    future = executor.submit(search)
                    scorer = self.scorer(index)
                    reading, candidates = future.result()
            return self._opened(index, scorer), reading, candidates

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
        return OpenPipeline(index, first_stage, self.depth, scorer, self.filter, self.entire_sets)


@dataclass(frozen=True)
class OpenPipeline:
    """A pipeline whose parts are open, all of one commit of the index. It is thread-safe.

    Everything that retrieves candidates has one: the search command, `Searcher`, the service, training, the benchmark.
    ``dataclasses.replace`` gives one of the same open parts with another depth or scorer.

    Args:
        scorer: the rerankers as one scorer (:class:`~rerank_plugin.ranking.cascade.Cascade`); None without any.
        entire_sets: whether all documents of a strategy's set are candidates, up to `MOST_RANKED`, whatever the depth.
        cuts_ranking: whether the depth cuts the final ranking instead of the candidates; as the first stage is
            registered by default.
    """

    index: Index
    first_stage: FirstStage
    depth: int = DEPTH
    scorer: Scorer | None = None
    filter: Filter | None = None
    entire_sets: bool = True
    cuts_ranking: bool | None = None

    def __post_init__(self) -> None:
        if self.cuts_ranking is None:  # once: a look-up asks for the packages that are installed
            entry = FIRST_STAGES.find(self.first_stage.name)
            object.__setattr__(self, "cuts_ranking", entry is not None and entry.depth_cuts == RANKING)

    @property
    def cut(self) -> int | None:
        """The cutoff of the final ranking; None where the first stage applies the depth."""
        return self.depth if self.cuts_ranking else None

    def notes(self, query: Query) -> list[str]:
        """The notes on a query (:mod:`rerank_plugin.ranking.notes`)."""
        return notes_of(query, self.first_stage, self.scorer)

    def candidates(self, query: Query) -> Candidates:
        """The candidates of the first stage; an `InputError` if it cannot apply the query's filter."""
        detach_at_thread_end()  # callers' threads come and go
        if self.filter is not None and query.filter is None:
            query = query._replace(filter=self.filter)
        check_filter(self.first_stage, query)
        started = perf_counter()
        if query.filter is not None and query.filter.strategy is not None:
            matches = self.index.matches(query.filter).total if self.entire_sets else self.depth
            candidates = _of_set(self.index, self.first_stage, query, max(1, min(matches, MOST_RANKED)))
        else:
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

    def close(self) -> None:
        """Close the first stage's files."""
        if (close := getattr(self.first_stage, "close", None)) is not None:  # optional
            close()


def _of_set(index: Index, first_stage: FirstStage, query: Query, depth: int) -> Candidates:
    """The best ``depth`` documents of a strategy's set: those that the first stage ranks, and then the others.

    Without words to rank by, the newest are first.
    """
    assert query.filter is not None, "with the strategy"
    fits = index.fitting(query.filter)
    ranks_all = not isinstance(fits, np.ndarray)  # an index of other processes
    if not (ranks_all or query.text.strip()):
        by_id = Candidates(index.forward, (rows := np.flatnonzero(fits)), np.zeros(len(rows))).best()
        rows = by_id.rows[newest_first(by_id)][:depth]
        return Candidates(index.forward, rows, np.arange(len(rows), 0, -1))
    candidates = index.search(first_stage, query, depth)
    if ranks_all or len(candidates) >= depth:
        return candidates
    fits = fits.copy()
    fits[candidates.rows] = False
    others = Candidates(index.forward, (rows := np.flatnonzero(fits)), np.zeros(len(rows))).best()
    below = candidates.first_stage_scores.min(initial=1) - 1
    both = Candidates(
        index.forward,
        np.concatenate([candidates.rows, others.rows])[:depth],
        np.concatenate([candidates.first_stage_scores, others.first_stage_scores + below])[:depth],
    )
    both.read_as = candidates.read_as
    return both


def by_date(ranking: Ranking) -> Ranking:
    """The ranking by decreasing date, equal dates in its order."""
    return ranking._replace(order=ranking.order[newest_first(ranking.candidates.take(ranking.order))])


def newest_first(candidates: Candidates) -> np.ndarray:
    """Places of candidates by decreasing date, int64 [C]; equal dates keep their order, those without one are last."""
    published, rows = candidates.index.published, candidates.rows
    if published is None or not len(rows):
        return np.arange(len(rows))
    if isinstance(published, StringTable):
        dates = published.beginnings(rows, DATE)
    else:
        parts = [text[:DATE].encode().ljust(DATE, b"\0") for text in published.take(rows)]
        dates = np.frombuffer(b"".join(parts), np.uint8).reshape(len(rows), DATE).copy()
    dates[np.maximum.accumulate(dates == TAB, axis=1)] = 0  # the journal
    _, ranks = np.unique(dates.view(f"S{dates.shape[1]}").ravel(), return_inverse=True)
    return np.argsort(-ranks, kind="stable")


def rank(query: Query, candidates: Candidates, reranker: CandidateScorer | None) -> Ranking:
    """Score and sort the candidates of one query; without a reranker they keep their first-stage scores.

    Raises:
        InputError: the number of scores differs from the number of candidates, or a score is NaN or infinite.
    """
    return rank_together([query], [candidates], reranker)[0]


def rank_together(
    queries: Sequence[Query], candidates: Sequence[Candidates], reranker: CandidateScorer | None
) -> list[Ranking]:
    """:func:`rank` for several queries; a reranker with ``score_many`` scores all of them in one call.

    A query is read as the first stage read it.
    """
    milliseconds = 0.0, 0.0
    queries = [each.read_as or query for query, each in zip(queries, candidates, strict=True)]
    if reranker is None:
        pairs = zip(queries, candidates)
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
