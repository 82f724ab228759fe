"""The way of a query: candidates from a first stage or a given run, scores from a reranker, and the final order."""

from __future__ import annotations

import logging
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Judgments, Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.rerankers import Reranker, as_scorer, score_many

log = logging.getLogger(__name__)

CandidateSource = Callable[[Query], Candidates]


class Ranking(NamedTuple):
    """The result for one query.

    Attributes:
        candidates: C documents in first-stage order.
        scores: float32 [C], in first-stage order, too.
        order: int64 [C], the final order: ``candidates.rows[order]`` are the rows from rank 1 on.
    """

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

    def best(self, depth: int) -> Ranking:
        """The first ``depth`` ranks only."""
        return self._replace(order=self.order[:depth])


def rank(query: Query, candidates: Candidates, reranker: Reranker | None) -> Ranking:
    """Score and order the candidates of one query; without a reranker they keep their first-stage scores.

    Raises:
        InputError: the reranker gave another number of scores than there are candidates, or a NaN.
    """
    return rank_together([query], [candidates], reranker)[0]


def rank_together(
    queries: Sequence[Query], candidates: Sequence[Candidates], reranker: Reranker | None
) -> list[Ranking]:
    """:func:`rank` for several queries, which a reranker may score at once."""
    if reranker is None:
        scores = [found.first_stage_scores for found in candidates]
    else:
        scores = checked_scores(queries, candidates, reranker)
    return [Ranking(*one, one[1].order(one[2])) for one in zip(queries, candidates, scores)]


def checked_scores(queries: Sequence[Query], candidates: Sequence[Candidates], reranker: Reranker) -> list[np.ndarray]:
    """A reranker's scores of several queries' candidates, float32 [C] each. It is not asked about nothing.

    Raises:
        InputError: another number of scores than there are candidates, or one that is NaN or infinite.
    """
    scores = [np.zeros(0, np.float32)] * len(candidates)
    filled = [place for place, found in enumerate(candidates) if len(found)]
    given = score_many(reranker, [queries[place] for place in filled], [candidates[place] for place in filled])
    for place, one in zip(filled, given, strict=True):
        scores[place] = _checked(one, queries[place], candidates[place])
    return scores


def _checked(scores: np.ndarray, query: Query, candidates: Candidates) -> np.ndarray:
    """A reranker's scores as float32 [C]."""
    scores = np.asarray(scores, dtype=np.float32)
    if scores.shape != (len(candidates),):
        raise InputError(
            f"the reranker gave scores of shape {scores.shape} for {len(candidates)} candidates of query {query.id}"
        )
    if not np.isfinite(scores).all():
        bad = candidates.rows[np.flatnonzero(~np.isfinite(scores))[0]]
        raise InputError(
            f"the reranker scores document {candidates.index.ids[int(bad)]} for query {query.id} as NaN or infinite"
        )
    return scores


def rank_all(
    queries: Iterable[Query],
    source: CandidateSource,
    reranker: Reranker | None,
    threads: int = 2,
    together: int = 1,
) -> Iterator[Ranking]:
    """Rankings of many queries, in order; the candidates of the next ones are fetched while some are scored.

    Args:
        threads: that fetch candidates.
        together: queries that are scored at once, by a reranker that can; of the others none waits for its neighbours.
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


def from_first_stage(first_stage, depth: int) -> CandidateSource:
    """Candidates by a first stage."""
    return lambda query: first_stage.search(query.text, depth)


def from_run(
    run: Mapping,
    index: ForwardIndex,
    depth: int,
    path: str,
    rows_of: Callable[[Sequence[str]], np.ndarray] | None = None,
) -> CandidateSource:
    """Candidates by an existing run: {query id: (doc_ids, scores)} in rank order.

    Args:
        rows_of: looks document ids up as ``index.rows`` does, which it is by default.

    Raises (when a query is asked for):
        InputError: the run names documents that are not in the index.
    """

    def candidates(query: Query) -> Candidates:
        if query.id not in run:
            return Candidates(index, np.zeros(0, np.int64), np.zeros(0, np.float32))
        doc_ids, scores = run[query.id]
        doc_ids, scores = doc_ids[:depth], scores[:depth].copy()  # a view would keep all that is below the depth
        rows = (rows_of or index.rows)(doc_ids)
        unknown = np.flatnonzero(rows < 0)
        if len(unknown):
            raise InputError(
                f"{path}: query {query.id} ranks {len(unknown)} documents that are not in the index, first "
                f"'{doc_ids[int(unknown[0])]}': the run was made from another collection"
            )
        return Candidates(index, rows, scores)

    return candidates


def judged_rows(judgments: Judgments, index: ForwardIndex, name: str) -> dict[str, np.ndarray]:
    """The judged documents of each query as rows, by decreasing document id, int64 [n]; those that the index lacks are
    left out, and counted in one warning.

    Args:
        name: of the judgments, for messages.

    Raises:
        InputError: the index has none of the documents.
    """
    doc_ids = sorted({document for judged in judgments.values() for document in judged}, reverse=True)
    of_ids = index.rows(doc_ids)
    missing = np.flatnonzero(of_ids < 0)
    if len(missing) == len(doc_ids):
        first = f", first '{doc_ids[0]}'" if doc_ids else ""
        raise InputError(
            f"{name}: none of its {len(doc_ids)} judged documents is in the index{first}: the judgments belong to "
            "another collection"
        )
    if len(missing):
        log.warning(
            "%s: %d of %d judged documents are not in the index and are left out, as %s",
            name, len(missing), len(doc_ids), doc_ids[int(missing[0])],
        )  # fmt: skip
    place = dict(zip(doc_ids, range(len(doc_ids))))
    result = {}
    for query, judged in judgments.items():
        rows = of_ids[np.sort(np.fromiter(map(place.__getitem__, judged), np.int64, len(judged)))]
        result[query] = rows[rows >= 0]
    return result


def from_judgments(judgments: Judgments, index: ForwardIndex, name: str) -> CandidateSource:
    """Candidates by judgments, whatever the grade: how [D18] 5.1 ranks. No depth cuts them.

    All have score 0, so that without a reranker they stand in the order of an uninformed ranker, by decreasing document
    id ([D18] 5.1). A query without judgments has no candidates. Arguments and errors are those of `judged_rows`.
    """
    rows_of = judged_rows(judgments, index, name)
    nothing = np.zeros(0, np.int64)

    def candidates(query: Query) -> Candidates:
        rows = rows_of.get(query.id, nothing)
        return Candidates(index, rows, np.zeros(len(rows), np.float32))

    return candidates


def judged_only(source: CandidateSource, judgments: Judgments, index: ForwardIndex, name: str) -> CandidateSource:
    """Those candidates of ``source`` that are judged, with their scores and in their order.

    A depth of ``source`` cuts before: unjudged documents take places in it. Arguments and errors are those of
    `judged_rows`.
    """
    return within(source, judged_rows(judgments, index, name))


def within(source: CandidateSource, rows_of: Mapping[str, np.ndarray]) -> CandidateSource:
    """Those candidates of ``source`` that are among each query's rows, int64 [n] by query id."""
    nothing = np.zeros(0, np.int64)

    def candidates(query: Query) -> Candidates:
        found = source(query)
        kept = np.isin(found.rows, rows_of.get(query.id, nothing))
        return Candidates(found.index, found.rows[kept], found.first_stage_scores[kept])

    return candidates
