"""Re-ranks several runs of the same queries together, as [P] 3.3 does with all runs submitted to a track.

For each query, the candidates of all runs are merged, each document is scored once, and the candidates of each run are
sorted by these scores. The result for a run equals that of re-ranking it alone.

Where the score of a document depends on its list, each run is re-ranked separately:

* Rerankers whose ``listwise`` is true compare the candidates with one another, for example ``wmd-title-top20``.
* Models with the features ``first_stage`` or ``first_stage_share`` read first-stage scores, which differ between runs.
  Other models read them only for a query of which they know no word. This is detected for each query while it is
  scored, for any reranker.
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
from rerank_plugin.retrieval.given_run import GivenRun, warn_of_cut
from rerank_plugin.retrieval.judged import JudgedOnly

log = logging.getLogger(__name__)

PIECE = 512  # documents of a query that are scored at once, about as many as a search has: no union takes more memory


def read_runs(
    paths: Iterable[Path],
    queries: Sequence[Query],
    index: ForwardIndex,
    depth: int,
    judged: Mapping[str, np.ndarray] | None = None,
) -> Iterator[CandidateSource]:
    """Read runs and yield the candidate source of each; a source gives the candidates of each query only once.

    A source holds 12 bytes for each candidate. Documents below the depth are counted in a warning after the last run.

    Args:
        depth: the most documents that are read for each query of a run.
        judged: rows by query id (`judged_rows`); if given, other documents are left out after the cut at ``depth``.

    Raises:
        InputError: a run is malformed, or names documents that are not in the index.
    """
    known: dict[str, int] = {}
    cut = np.zeros(2, np.int64)

    def rows_of(doc_ids: Sequence[str]) -> np.ndarray:  # runs share documents: each is looked up once
        new = list(set(doc_ids) - known.keys())
        known.update(zip(new, index.rows(new).tolist()))
        return np.fromiter(map(known.__getitem__, doc_ids), np.int64, len(doc_ids))

    for path in paths:
        run = read_run(path)
        given = GivenRun(run, index, path, rows_of)
        cut += given.below(queries, depth)
        first_stage = given if judged is None else JudgedOnly(given, judged)
        found = {query.id: first_stage.search(query, depth) for query in queries if query.id in run}
        yield lambda query, found=found: found.pop(query.id, Candidates(index, [], []))
    warn_of_cut("the runs", *cut.tolist(), depth)


class SharedCandidates(Candidates):
    """The distinct candidates of several lists, with the first-stage scores of the first list that holds a document.

    Attributes:
        asked: whether the first-stage scores have been read: then scores are not valid for the other lists.
    """

    def __init__(self, index: ForwardIndex, rows: np.ndarray, first_stage_scores: np.ndarray):
        super().__init__(index, rows, first_stage_scores)
        self.asked = False

    @property
    def first_stage_scores(self) -> np.ndarray:
        self.asked = True
        return self._first_stage_scores

    @first_stage_scores.setter
    def first_stage_scores(self, scores: np.ndarray) -> None:
        self._first_stage_scores = scores


class Union:
    """The distinct documents of several lists: rows int64 [C], increasing, and candidates in pieces of `PIECE`."""

    def __init__(self, lists: Sequence[Candidates]):
        self.rows, first = np.unique(np.concatenate([one.rows for one in lists]), return_index=True)
        scores = np.concatenate([one.first_stage_scores for one in lists])[first]
        number = max(1, -(-len(self.rows) // PIECE))
        parts = zip(np.array_split(self.rows, number), np.array_split(scores, number))
        self.pieces = [SharedCandidates(lists[0].index, *part) for part in parts]


def rank_lists(
    tasks: Iterable[tuple[Query, Sequence[Candidates]]], reranker: CandidateScorer | None, together: int = 8
) -> Iterator[list[Ranking]]:
    """Yield, for each query, the rankings of its candidate lists (at least one), as `rank` gives them for each list.

    Without a reranker, documents keep their first-stage scores.

    Args:
        together: how many queries are processed in one batch, and how many pieces are scored in one call.

    Raises:
        InputError: as in `rank`. The other queries of the same batch then give no result.
    """
    if reranker is None or as_scorer(reranker).listwise:
        if reranker is not None:
            log.info("%s scores a document by the list it stands in: it ranks each run on its own", reranker.name)
        for query, lists in tasks:
            yield _rank_apart(query, lists, reranker, together)
        return
    tasks, said = iter(tasks), False
    while batch := list(islice(tasks, together)):
        unions = [Union(lists) for _, lists in batch]
        scores = _scores([query for query, _ in batch], unions, reranker, together)
        for (query, lists), union, of_union in zip(batch, unions, scores):
            if not any(piece.asked for piece in union.pieces):
                scores_of = [of_union[np.searchsorted(union.rows, one.rows)] for one in lists]
                yield [Ranking(query, one, own, one.order(own)) for one, own in zip(lists, scores_of)]
                continue
            if not said:
                log.info(
                    "query %s: the reranker reads first-stage scores, so it ranks each run on its own, here and later",
                    query.id,
                )
                said = True
            yield _rank_apart(query, lists, reranker, together)


def _rank_apart(
    query: Query, lists: Sequence[Candidates], reranker: CandidateScorer | None, together: int
) -> list[Ranking]:
    parts = (lists[start : start + together] for start in range(0, len(lists), together))
    return [ranking for part in parts for ranking in rank_together([query] * len(part), part, reranker)]


def _scores(
    queries: Sequence[Query], unions: Sequence[Union], reranker: CandidateScorer, together: int
) -> list[np.ndarray]:
    """Scores of each union's documents, float32 [C] by its rows."""
    pieces = [(place, piece) for place, union in enumerate(unions) for piece in union.pieces]
    found: list[list[np.ndarray]] = [[] for _ in unions]
    for start in range(0, len(pieces), together):
        places, candidates = zip(*pieces[start : start + together])
        given = checked_scores([queries[place] for place in places], candidates, reranker)
        for place, scores in zip(places, given):
            found[place].append(scores)
    return [np.concatenate(parts) for parts in found]
