"""The evaluation of several runs: values, means, what was missing, and comparisons with a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rerank_plugin.evaluation.significance import Agreement, Comparison, agreement, compare
from rerank_plugin.evaluation.values import Evaluator, Values
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Judgments
from rerank_plugin.files.runs import RankedList


@dataclass(frozen=True)
class Evaluation:
    """The results of an evaluation.

    Attributes:
        queries: the Q judged queries.
        measures: names, as given.
        values: by run and measure, float64 [Q].
        summaries: by run and measure, the mean over all judged queries (the sum for measures that count).
        missing: by run, the judged queries that it lacks; they count as if it had found nothing.
        unjudged: by run, its queries without judgments; they are left out.
        baseline: the run that the others are compared with, if any.
        comparisons: by run and measure, without the baseline.
        agreements: by run, without the baseline, its agreement with the baseline; empty if not requested.
    """

    queries: list[str]
    measures: list[str]
    values: dict[str, Values]
    summaries: dict[str, dict[str, float]]
    missing: dict[str, list[str]]
    unjudged: dict[str, list[str]]
    baseline: str | None
    comparisons: dict[str, dict[str, Comparison]]
    agreements: dict[str, Agreement]


def evaluate(
    judgments: Judgments,
    runs: Mapping[str, Mapping[str, RankedList]],
    measures: Sequence[str],
    baseline: str | None = None,
    agreements: bool = False,
    highest: float | None = None,
) -> Evaluation:
    """Measure runs, given by name, and compare them with the one named ``baseline``.

    Args:
        agreements: whether to compare their order with the baseline's, too.
        highest: see `Evaluator`.

    Raises:
        InputError: an unknown measure, or a run that has queries, but none of the judged ones.
    """
    if baseline is not None and baseline not in runs:
        raise InputError(f"the baseline {baseline} is not among the runs: {', '.join(runs)}")
    evaluator = Evaluator(judgments, measures, highest)
    judged = set(evaluator.queries)
    values, missing, unjudged = {}, {}, {}
    for name, run in runs.items():
        missing[name] = [query for query in evaluator.queries if query not in run]
        unjudged[name] = [query for query in run if query not in judged]
        if run and len(unjudged[name]) == len(run):
            raise InputError(
                f"{name}: none of its {len(run)} queries ({unjudged[name][0]}, ...) is judged "
                f"({evaluator.queries[0]}, ...): run and judgments belong to different queries"
            )
        values[name] = evaluator.values(run)
    return Evaluation(
        queries=evaluator.queries,
        measures=list(evaluator.measures),
        values=values,
        summaries={name: evaluator.summary(of_run) for name, of_run in values.items()},
        missing=missing,
        unjudged=unjudged,
        baseline=baseline,
        comparisons=compare(values, baseline) if baseline is not None else {},
        agreements={name: agreement(run, runs[baseline]) for name, run in runs.items() if name != baseline}
        if agreements and baseline is not None
        else {},
    )
