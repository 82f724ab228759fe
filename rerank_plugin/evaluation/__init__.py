"""Measures, significance tests and reports.

* `measures`: names of measures, and the providers that compute them
* `graded`: NDCG with gain 2^rel - 1, and ERR
* `values`: the value of each measure for each judged query
* `significance`: the paired t-test with Bonferroni correction
* `evaluation`: several runs together
* `report`: table, Markdown, CSV, JSON
* `marks`: the table of [D18] with its significance marks
* `letters`: the significance letters of [P], and its table 1
* `many_runs`, `scatter`: many runs before and after re-ranking, [P] table 2 and figure 3
* `document_pairs`: pairs of documents with different labels, [P] table 3 and figure 4
* `subsets`: parts of the judged queries
* `run_names`, `subset_options`: what the options of the command mean
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rerank_plugin.files.records import Judgments
    from rerank_plugin.files.runs import RankedList

__all__ = ["mean_measures"]


def mean_measures(run: Mapping[str, RankedList], judgments: Judgments, measures: Sequence[str]) -> dict[str, float]:
    """Means over all judged queries, by measure name, of a run {query id: (document ids, scores)}."""
    from rerank_plugin.evaluation.values import Evaluator

    evaluator = Evaluator(judgments, measures)
    return evaluator.summary(evaluator.values(run))
