"""Fusion of runs, and tuning of its weights to maximize measures on judged queries.

The methods are those of :mod:`rerank_plugin.retrieval.fusion`. Weights are tuned by one of two deterministic searches:

* grid search: all weights that are multiples of a step and add up to 1;
* coordinate ascent (Metzler and Croft, Information Retrieval 2007), for more runs: starting from equal weights, each
  run's weight in turn is set to the best of 0, step, ..., 1, until a round over all runs changes nothing.

Ties are won by the weights tried first; equal weights are tried first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import comb
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Judgments
from rerank_plugin.evaluation.values import Evaluator
from rerank_plugin.files.runs import RankedList, sort_order
from rerank_plugin.retrieval.fusion import LINEAR, PAPER_K, RRF, Table, check, lists_weights, table

log = logging.getLogger(__name__)

Run = Mapping[str, RankedList]
GRID, ASCENT = "grid", "ascent"
LARGEST_GRID = 20_000  # weights to try


@dataclass(frozen=True)
class Fusion:
    """One way to fuse runs."""

    method: str  # one of ``METHODS``
    weights: tuple[float, ...]  # one per run
    k: float = PAPER_K  # of ``rrf``

    @classmethod
    def of(cls, method: str, weights: Sequence[float] | None, k: float, runs: int) -> Fusion:
        """A checked fusion; some weights may be left out (:func:`rerank_plugin.retrieval.fusion.lists_weights`).

        Raises:
            InputError: invalid weights or k.
        """
        check(method, k)
        return cls(method, lists_weights(method, weights, runs), k)


class FusedQuery(NamedTuple):
    """The documents of one query in any of the runs, and the table of their values in the runs."""

    doc_ids: list[str]
    table: Table

    def ranked(self, weights: Sequence[float]) -> RankedList:
        scores = self.table.scores(weights)
        order = sort_order(self.doc_ids, scores)
        return RankedList([self.doc_ids[place] for place in order.tolist()], scores[order])


def tables(runs: Sequence[Run], method: str, k: float = PAPER_K, depth: int | None = None) -> dict[str, FusedQuery]:
    """The :class:`FusedQuery` of each query, by query id, in the order of the queries in the runs.

    Args:
        depth: the number of top ranks of each run to use; None for all.
    """
    fused = {}
    for query in dict.fromkeys(query for run in runs for query in run):
        lists = [run.get(query, RankedList([], np.zeros(0, np.float32))) for run in runs]
        numbers: dict[str, int] = {}
        keys = [
            np.array([numbers.setdefault(id, len(numbers)) for id in ranking.doc_ids[:depth]], np.int64)
            for ranking in lists
        ]
        # Every number from 0 on is among the keys, so the table's columns are the documents in their order.
        scores = [ranking.scores[:depth] for ranking in lists]
        fused[query] = FusedQuery(list(numbers), table(keys, scores, method, k))
    return fused


def fuse(runs: Sequence[Run], fusion: Fusion, depth: int | None = None) -> dict[str, RankedList]:
    """The fused run."""
    fused = tables(runs, fusion.method, fusion.k, depth)
    return {query: documents.ranked(fusion.weights) for query, documents in fused.items()}


class TriedFusion(NamedTuple):
    """A fusion and the mean of the measures."""

    fusion: Fusion
    value: float


class Tuning(NamedTuple):
    """The result of tuning: all fusions tried, in order, the best fusion, and the values of the single runs."""

    tried: list[TriedFusion]
    best: TriedFusion
    single: list[float]


def tune(
    runs: Sequence[Run],
    judgments: Judgments,
    measures: Sequence[str],
    method: str = LINEAR,
    step: float = 0.05,
    ks: Sequence[float] = (PAPER_K,),
    search: str = GRID,
    depth: int | None = None,
    progress: Callable[[Iterable], Iterable] = iter,
) -> Tuning:
    """Try weights, and values of k for reciprocal rank fusion, on judged queries.

    Args:
        measures: measures whose mean to maximize.
        step: step between weights, a whole part of 1.
        search: ``grid`` or ``ascent``.
        progress: wraps the weights to try, for a progress bar.

    Raises:
        InputError: an invalid step, k or measure, or too large a grid.
    """
    steps = round(1 / step) if 0 < step <= 1 else 0
    if not steps or abs(steps * step - 1) > 1e-9:
        raise InputError(f"the step between weights {step:g} must be a whole part of 1: 0.1, 0.05, 0.02")
    if search not in (GRID, ASCENT):
        raise InputError(f"unknown search of weights '{search}'; known: {GRID}, {ASCENT}")
    evaluator = Evaluator(judgments, measures)
    judged = [{query: run[query] for query in evaluator.queries if query in run} for run in runs]
    if not any(judged):
        raise InputError("none of the judged queries is in the runs: give judgments of the runs' queries")

    def value(run: Run) -> float:
        return float(np.mean(list(evaluator.summary(evaluator.values(run)).values())))

    tried: list[TriedFusion] = []
    for k in ks if method == RRF else ks[:1]:
        check(method, k)
        fused = tables(judged, method, k, depth)
        values: dict[tuple[float, ...], float] = {}

        def value_of(weights: tuple[float, ...]) -> float:
            if weights not in values:
                values[weights] = value({query: documents.ranked(weights) for query, documents in fused.items()})
                tried.append(TriedFusion(Fusion(method, weights, k), values[weights]))
            return values[weights]

        if search == GRID:
            for weights in progress(_grid(len(runs), steps)):
                value_of(weights)
        else:
            for _ in progress(_ascent(value_of, len(runs), steps)):
                pass
    return Tuning(tried, max(tried, key=lambda attempt: attempt.value), [value(run) for run in judged])


def _grid(runs: int, steps: int) -> list[tuple[float, ...]]:
    """Equal weights, then all that are multiples of 1 / steps and add up to 1."""
    places = steps + runs - 1  # a row of all steps, with runs - 1 bars that divide them among the runs
    count = comb(places, runs - 1)
    if count > LARGEST_GRID:
        raise InputError(
            f"{count:,} weights to try for {runs} runs: take a larger step, or coordinate ascent (search {ASCENT})"
        )
    weights = [(1 / runs,) * runs]
    for bars in combinations(range(places), runs - 1):
        weights.append(tuple((end - start - 1) / steps for start, end in pairwise((-1, *bars, places))))
    return list(dict.fromkeys(weights))


def _ascent(value: Callable[[tuple[float, ...]], float], runs: int, steps: int) -> Iterator[None]:
    """Coordinate ascent; yields once for each run whose weight was set."""
    best = (1 / runs,) * runs
    highest, changed = value(best), True
    while changed:
        changed = False
        for place in range(runs):
            for part in range(steps + 1):
                weights = (*best[:place], part / steps, *best[place + 1 :])
                if any(weights) and value(weights) > highest:
                    best, highest, changed = weights, value(weights), True
            yield
