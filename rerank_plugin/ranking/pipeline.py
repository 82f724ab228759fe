"""The ranking pipeline: retrieve candidates with a first stage, score them with a reranker, and sort them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.rerankers import Reranker, as_scorer, score_many
from rerank_plugin.retrieval.register import FirstStage, check_filter

CandidateSource = Callable[[Query], Candidates]


class Ranking(NamedTuple):
    """One query's C candidates in first-stage order, their scores (float32 [C]), and their final order (int64 [C])."""

    query: Query
    candidates: Candidates
    scores: np.ndarray
    order: np.ndarray

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


def rank(query: Query, candidates: Candidates, reranker: Reranker | None) -> Ranking:
    """Score and sort the candidates of one query; without a reranker they keep their first-stage scores.

    Raises:
        InputError: the number of scores differs from the number of candidates, or a score is NaN or infinite.
    """
    return rank_together([query], [candidates], reranker)[0]


def rank_together(
    queries: Sequence[Query], candidates: Sequence[Candidates], reranker: Reranker | None
) -> list[Ranking]:
    """:func:`rank` for several queries; a reranker with ``score_many`` scores all of them in one call."""
    if reranker is None:
        pairs = zip(queries, candidates, strict=True)
        scores = [_checked(found.first_stage_scores, query, found, "the first stage") for query, found in pairs]
    else:
        scores = checked_scores(queries, candidates, reranker)
    return [Ranking(*one, one[1].order(one[2])) for one in zip(queries, candidates, scores)]


def checked_scores(queries: Sequence[Query], candidates: Sequence[Candidates], reranker: Reranker) -> list[np.ndarray]:
    """A reranker's scores for the candidates of several queries, float32 [C] each, as in `rank`.

    Empty lists are not passed to it.
    """
    scores = [np.zeros(0, np.float32)] * len(candidates)
    filled = [place for place, found in enumerate(candidates) if len(found)]
    given = score_many(reranker, [queries[place] for place in filled], [candidates[place] for place in filled])
    for place, one in zip(filled, given, strict=True):
        scores[place] = _checked(one, queries[place], candidates[place], f"the reranker '{as_scorer(reranker).name}'")
    return scores


def _checked(scores: np.ndarray, query: Query, candidates: Candidates, giver: str) -> np.ndarray:
    """Scores as float32 [C], after the only check of their number and values before a run is written."""
    scores = np.asarray(scores, dtype=np.float32)
    if scores.shape != (len(candidates),):
        raise InputError(
            f"{giver} gave scores of shape {scores.shape} for {len(candidates)} candidates of query {query.id}"
        )
    if len(bad := np.flatnonzero(~np.isfinite(scores))):
        document = candidates.index.ids[int(candidates.rows[bad[0]])]
        raise InputError(f"{giver} scores document {document} for query {query.id} as NaN or infinite")
    return scores


def rank_all(
    queries: Iterable[Query],
    source: CandidateSource,
    reranker: Reranker | None,
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
