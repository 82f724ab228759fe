"""What the runs of the experiments of [K] measure: sets of test queries alone and pooled, and tests of differences.

The same id may stand in several sets with different texts, so sets are measured one by one and their values put after
one another: a query text counts as often as it occurs. Letters in shapes: Q test queries of all sets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rerank_plugin.corpora import queries_and_judgments
from rerank_plugin.evaluation.significance import Comparison, paired_t_test
from rerank_plugin.evaluation.values import Evaluator
from rerank_plugin.experiments.ktrel_settings import Queries, restricted
from rerank_plugin.files.records import Judgments, Query
from rerank_plugin.files.runs import RankedList

_WORDS = re.compile(r"\w+")


class TestSet(NamedTuple):
    """Test queries, each with judgments."""

    __test__ = False  # no test of pytest's

    name: str
    queries: list[Query]
    judgments: Judgments

    @classmethod
    def read(cls, one: Queries) -> TestSet:
        queries, judgments = queries_and_judgments(one.spec)
        return cls(one.name, queries, restricted(queries, judgments))


class Measured(NamedTuple):
    """Values of several runs for the same queries.

    Attributes:
        queries: the set and the id of each query, [Q].
        values: by row and measure, float64 [Q].
    """

    queries: list[tuple[str, str]]
    values: dict[str, dict[str, np.ndarray]]

    def means(self, row: str) -> dict[str, float]:
        return {measure: float(of_queries.mean()) for measure, of_queries in self.values[row].items()}

    def part(self, kept: Sequence[bool]) -> Measured:
        """The queries that are kept, bool [Q]."""
        kept = np.asarray(kept, bool)
        queries = [query for query, is_kept in zip(self.queries, kept) if is_kept]
        return Measured(
            queries,
            {
                row: {measure: of_queries[kept] for measure, of_queries in of_row.items()}
                for row, of_row in self.values.items()
            },
        )

    def of_set(self, name: str) -> Measured:
        return self.part([of == name for of, _ in self.queries])

    def comparison(self, row: str, baseline: str, measure: str, comparisons: int) -> Comparison:
        """Two-tailed paired t-test, p multiplied by the number of comparisons (Bonferroni)."""
        raw = paired_t_test(self.values[row][measure], self.values[baseline][measure])
        return raw._replace(p=min(1.0, raw.p * comparisons))


def measure(
    sets: Sequence[TestSet], runs: Mapping[str, Mapping[str, Mapping[str, RankedList]]], measures: Sequence[str]
) -> Measured:
    """The values of every run.

    Args:
        runs: by row and set. A mapping may read a run when it is asked for: each is asked for once.
    """
    evaluators = {one.name: Evaluator(one.judgments, measures) for one in sets}
    queries = [(name, query) for name, evaluator in evaluators.items() for query in evaluator.queries]
    values = {}
    for row, of_row in runs.items():
        of_sets = [evaluator.values(of_row[name]) for name, evaluator in evaluators.items()]
        values[row] = {measure: np.concatenate([one[measure] for one in of_sets]) for measure in measures}
    return Measured(queries, values)


def words(text: str) -> str:
    """A query's words in small letters, for comparisons."""
    return " ".join(_WORDS.findall(text.lower()))


def unseen(sets: Iterable[TestSet], training: Iterable[Query]) -> set[tuple[str, str]]:
    """The sets and ids of those test queries whose words are not those of a training query."""
    seen = {words(query.text) for query in training}
    return {(one.name, query.id) for one in sets for query in one.queries if words(query.text) not in seen}
