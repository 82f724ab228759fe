"""Re-ranks several runs of the same queries together, as [P] 3.3 does with all runs submitted to a track.

For each query, the candidates of all runs are merged, each document is scored once, and the candidates of each run are
sorted by these scores. The result for a run equals that of re-ranking it alone.

Where the score of a document depends on its list, each run is re-ranked separately:

* Rerankers whose ``listwise`` is true compare the candidates with one another, for example ``wmd-title-top20``.
* Models with the features ``first_stage`` or ``first_stage_share`` read first-stage scores, which differ between runs.
  Other models read them only for a query without known words. This is detected for each query during scoring, for any
  reranker.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from rerank_plugin.base.records import Query
from rerank_plugin.files.runs import read_run
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.ranking.pipeline import CandidateSource, Ranking, rank_together
from rerank_plugin.ranking.scores import checked_scores
from rerank_plugin.rerankers import CandidateScorer, as_scorer
from rerank_plugin.retrieval.judged import JudgedOnly
from rerank_plugin.retrieval.run_file import RunFile, warn_of_cut

log = logging.getLogger(__name__)

CHUNK = 512  # documents of a query scored at once, about the depth of a search: bounds the memory of large pools


def read_runs(
    paths: Iterable[Path],
    queries: Sequence[Query],
    index: ForwardIndex,
    depth: int,
    judged: Mapping[str, np.ndarray] | None = None,
) -> Iterator[CandidateSource]:
    """Read runs and yield the candidate source of each; a source gives the candidates of each query only once.

    A source holds 12 bytes for each candidate. A warning after the last run counts the documents below the depth.

    Args:
        depth: the most documents read for each query of a run.
        judged: rows by query id (`judged_rows`); if given, unjudged documents are left out after the cut at ``depth``.

    Raises:
        InputError: a run is malformed, or names documents that are not in the index.
    """
    rows: dict[str, int] = {}  # by document id
    below = ranked = 0

    def rows_of(doc_ids: Sequence[str]) -> np.ndarray:  # runs share documents: each is looked up once
        new = list(set(doc_ids) - rows.keys())
        rows.update(zip(new, index.rows(new).tolist()))
        return np.fromiter(map(rows.__getitem__, doc_ids), np.int64, len(doc_ids))

    def source_of(candidates: dict[str, Candidates]) -> CandidateSource:
        return lambda query: candidates.pop(query.id, Candidates(index, [], []))

    for path in paths:
        run = read_run(path)
        given = RunFile(run, index, path, rows_of)
        below_in_run, ranked_in_run = given.below(queries, depth)
        below, ranked = below + below_in_run, ranked + ranked_in_run
        first_stage = given if judged is None else JudgedOnly(given, judged)
        yield source_of({query.id: first_stage.search(query, depth) for query in queries if query.id in run})
    warn_of_cut("the runs", below, ranked, depth)


class SharedCandidates(Candidates):
    """The distinct candidates of several lists, with the first-stage scores of the first list that holds a document.

    Attributes:
        scores_were_read: whether a reranker read the first-stage scores: its scores hold for the first list only.
    """

    def __init__(self, index: ForwardIndex, rows: np.ndarray, first_stage_scores: np.ndarray):
        super().__init__(index, rows, first_stage_scores)
        self.scores_were_read = False

    @property
    def first_stage_scores(self) -> np.ndarray:
        self.scores_were_read = True
        return self._first_stage_scores

    @first_stage_scores.setter
    def first_stage_scores(self, scores: np.ndarray) -> None:
        self._first_stage_scores = scores


class CandidatePool:
    """The distinct documents of several lists: rows int64 [C], increasing, and candidates in chunks of `CHUNK`."""

    def __init__(self, lists: Sequence[Candidates]):
        self.rows, first = np.unique(np.concatenate([candidates.rows for candidates in lists]), return_index=True)
        scores = np.concatenate([candidates.first_stage_scores for candidates in lists])[first]
        number = max(1, -(-len(self.rows) // CHUNK))
        parts = zip(np.array_split(self.rows, number), np.array_split(scores, number))
        self.chunks = [SharedCandidates(lists[0].index, *part) for part in parts]


def rank_lists(
    tasks: Iterable[tuple[Query, Sequence[Candidates]]], reranker: CandidateScorer | None, together: int = 8
) -> Iterator[list[Ranking]]:
    """Yield, for each query, the rankings of its candidate lists (at least one), as `rank` gives them for each list.

    Without a reranker, documents keep their first-stage scores.

    Args:
        together: queries of one batch, and chunks scored in one call.

    Raises:
        InputError: as in `rank`. The other queries of the same batch then give no result.
    """
    if reranker is None or as_scorer(reranker).listwise:
        if reranker is not None:
            log.info("the scores of %s depend on the whole list: each run is ranked separately", reranker.name)
        for query, lists in tasks:
            yield _rank_separately(query, lists, reranker, together)
        return
    tasks, logged = iter(tasks), False
    while batch := list(islice(tasks, together)):
        pools = [CandidatePool(lists) for _, lists in batch]
        pool_scores = _pool_scores([query for query, _ in batch], pools, reranker, together)
        for (query, lists), pool, scores in zip(batch, pools, pool_scores):
            if not any(chunk.scores_were_read for chunk in pool.chunks):
                yield [_ranking(query, candidates, pool, scores) for candidates in lists]
                continue
            if not logged:
                log.info(
                    "query %s: the reranker reads first-stage scores, so each run is ranked separately, here and later",
                    query.id,
                )
                logged = True
            yield _rank_separately(query, lists, reranker, together)


def _ranking(query: Query, candidates: Candidates, pool: CandidatePool, pool_scores: np.ndarray) -> Ranking:
    scores = pool_scores[np.searchsorted(pool.rows, candidates.rows)]
    return Ranking(query, candidates, scores, candidates.order(scores))


def _rank_separately(
    query: Query, lists: Sequence[Candidates], reranker: CandidateScorer | None, together: int
) -> list[Ranking]:
    batches = (lists[start : start + together] for start in range(0, len(lists), together))
    return [ranking for batch in batches for ranking in rank_together([query] * len(batch), batch, reranker)]


def _pool_scores(
    queries: Sequence[Query], pools: Sequence[CandidatePool], reranker: CandidateScorer, together: int
) -> list[np.ndarray]:
    """Scores of each pool's documents, float32 [C] in the order of its rows."""
    chunks = [(number, chunk) for number, pool in enumerate(pools) for chunk in pool.chunks]
    scores: list[list[np.ndarray]] = [[] for _ in pools]
    for start in range(0, len(chunks), together):
        numbers, candidates = zip(*chunks[start : start + together])
        scores_of_chunks = checked_scores([queries[number] for number in numbers], candidates, reranker)
        for number, chunk_scores in zip(numbers, scores_of_chunks):
            scores[number].append(chunk_scores)
    return [np.concatenate(chunk_scores) for chunk_scores in scores]
