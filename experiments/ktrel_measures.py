"""Measures of the runs of [K]'s experiments on sets of test queries, alone and pooled, and tests of differences.

Sets may share ids with different texts, so each set is measured alone and their values are concatenated. A query in
several sets with the same text counts in means as often as it occurs, as in the paper's pool, and in tests once
(`once`). Letters in shapes: Q test queries of all sets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import rerank_plugin as rp
from experiments.marks import superscript
from rerank_plugin.base.records import Judgments
from rerank_plugin.evaluation.significance import EQUIVALENT, Comparison, paired_t_test


class Measured(NamedTuple):
    """Values of several runs for the same queries."""

    queries: list[tuple[str, str]]  # set and id of each query, [Q]
    values: dict[str, dict[str, np.ndarray]]  # by row and measure, float64 [Q]

    def means(self, row: str) -> dict[str, float]:
        return {measure: float(of_queries.mean()) for measure, of_queries in self.values[row].items()}

    def part(self, kept: Sequence[bool]) -> Measured:
        """The measures of a part of the queries; ``kept`` is bool [Q]."""
        places = np.flatnonzero(kept)
        values = {
            row: {measure: of_queries[places] for measure, of_queries in of_row.items()}
            for row, of_row in self.values.items()
        }
        return Measured([self.queries[place] for place in places], values)

    def of_set(self, name: str) -> Measured:
        return self.part([set_name == name for set_name, _ in self.queries])

    def comparison(self, row: str, baseline: str, measure: str, comparisons: int) -> Comparison:
        """Two-tailed paired t-test, p multiplied by the number of comparisons (Bonferroni)."""
        raw = paired_t_test(self.values[row][measure], self.values[baseline][measure])
        return raw._replace(p=min(1.0, raw.p * comparisons))

    def mark(self, row: str, baseline: str, measure: str, comparisons: int, alpha: float) -> str:
        """+ or - as a superscript if a row differs from the baseline, otherwise ""."""
        mark = self.comparison(row, baseline, measure, comparisons).mark(alpha)
        return superscript(mark.replace(EQUIVALENT, ""))


def measure(sets: Mapping[str, Judgments], runs: Mapping[str, Mapping[str, Path]], measures: Sequence[str]) -> Measured:
    """The values of every run.

    Args:
        sets: judgments by set.
        runs: files by row and set, since all runs would not fit in memory.
    """
    queries = [(name, query) for name, judgments in sets.items() for query in judgments if judgments[query]]
    values = {}
    for row, of_row in runs.items():
        of_sets = [
            rp.evaluate_runs(judgments, {"run": of_row[name]}, measures, per_query=True)["per_query"]["run"]
            for name, judgments in sets.items()
        ]
        values[row] = {
            measure: np.concatenate([list(of_set[measure].values()) for of_set in of_sets]) for measure in measures
        }
    return Measured(queries, values)


def words(text: str) -> str:
    """A query's words in lower case, for comparisons."""
    return " ".join(re.findall(r"\w+", text.lower()))


def once(sets: Mapping[str, Iterable[rp.Query]]) -> set[tuple[str, str]]:
    """The sets and ids of the queries, without repetitions of a query of an earlier set with the same id and words.

    NFCorpus's video titles are titles, too: counting them twice would overstate the evidence of a test.
    """
    first: dict[tuple[str, str], tuple[str, str]] = {}
    for name, queries in sets.items():
        for query in queries:
            first.setdefault((query.id, words(query.text)), (name, query.id))
    return set(first.values())


def unseen(sets: Mapping[str, Iterable[rp.Query]], training: Iterable[rp.Query]) -> set[tuple[str, str]]:
    """The sets and ids of test queries whose words differ from those of every training query."""
    seen = {words(query.text) for query in training}
    return {(name, query.id) for name, queries in sets.items() for query in queries if words(query.text) not in seen}
