"""Measures, significance tests and reports.

* `measures`: names of measures and who computes them
* `graded`: NDCG with gain 2^rel - 1, and ERR
* `values`: the value of each measure for each judged query
* `significance`: the paired t-test with Bonferroni correction
* `evaluation`: several runs together
* `report`: table, Markdown, CSV, JSON
* `marks`: the table of [D18] with its significance marks
* `subsets`: parts of the judged queries
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Mapping, Sequence

if TYPE_CHECKING:
    from rerank_plugin.corpora.records import Judgments
    from rerank_plugin.runs import RankedList

__all__ = ["mean_measures"]


def mean_measures(run: Mapping[str, RankedList], judgments: Judgments, measures: Sequence[str]) -> dict[str, float]:
    """Means over all judged queries, by measure name, of a run {query id: (document ids, scores)}."""
    from rerank_plugin.evaluation.values import Evaluator

    evaluator = Evaluator(judgments, measures)
    return evaluator.summary(evaluator.values(run))
