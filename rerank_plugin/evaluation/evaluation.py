"""The evaluation of several runs: values, means, missing queries, and comparisons with a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Judgments
from rerank_plugin.evaluation.significance import Agreement, Comparison, agreement, compare
from rerank_plugin.evaluation.values import Evaluator, Values
from rerank_plugin.files.runs import RankedList


@dataclass(frozen=True)
class Evaluation:
    """The results of an evaluation."""

    queries: list[str]  # the Q judged queries
    measures: list[str]  # names, as requested
    values: dict[str, Values]  # by run and measure, float64 [Q]
    summaries: dict[str, dict[str, float]]  # by run and measure, the mean over all judged queries, or the sum of counts
    missing: dict[str, list[str]]  # by run, the judged queries that it lacks; they count as queries without hits
    unjudged: dict[str, list[str]]  # by run, its queries without judgments; they are left out
    # By run, the judged queries without a judged document among their hits, each with a hit and a judged document.
    unmatched: dict[str, dict[str, tuple[str, str]]]
    baseline: str | None  # the run to compare the others with, if any
    comparisons: dict[str, dict[str, Comparison]]  # by run and measure, without the baseline
    agreements: dict[str, Agreement]  # by run, its agreement with the baseline; empty if not requested


def evaluate(
    judgments: Judgments,
    runs: Mapping[str, Mapping[str, RankedList]],
    measures: Sequence[str],
    baseline: str | None = None,
    agreements: bool = False,
    highest: float | None = None,
) -> Evaluation:
    """Measure runs by name, and compare them with the run ``baseline``.

    Args:
        agreements: whether to compare their rankings with the baseline's, too.
        highest: see `Evaluator`.

    Raises:
        InputError: an unknown measure, or a run that has queries or documents, but none of the judged ones.
    """
    if baseline is not None and baseline not in runs:
        raise InputError(f"the baseline {baseline} is not among the runs: {', '.join(runs)}")
    evaluator = Evaluator(judgments, measures, highest)
    judged = set(evaluator.queries)
    values: dict[str, Values] = {}
    missing: dict[str, list[str]] = {}
    unjudged: dict[str, list[str]] = {}
    unmatched: dict[str, dict[str, tuple[str, str]]] = {}
    for name, run in runs.items():
        missing[name] = [query for query in evaluator.queries if query not in run]
        unjudged[name] = [query for query in run if query not in judged]
        if run and len(unjudged[name]) == len(run):
            raise InputError(
                f"{name}: none of its {len(run)} queries ({unjudged[name][0]}, ...) is judged "
                f"({evaluator.queries[0]}, ...): run and judgments belong to different queries"
            )
        unmatched[name] = _unmatched(run, evaluator.judgments)
        _check_documents(name, run, evaluator.judgments)
        values[name] = evaluator.values(run)
    return Evaluation(
        queries=evaluator.queries,
        measures=list(evaluator.measures),
        values=values,
        summaries={name: evaluator.summary(of_run) for name, of_run in values.items()},
        missing=missing,
        unjudged=unjudged,
        unmatched=unmatched,
        baseline=baseline,
        comparisons=compare(values, baseline) if baseline is not None else {},
        agreements={name: agreement(run, runs[baseline]) for name, run in runs.items() if name != baseline}
        if agreements and baseline is not None
        else {},
    )


def _unmatched(run: Mapping[str, RankedList], judgments: Judgments) -> dict[str, tuple[str, str]]:
    """The judged queries whose hits include none of their judged documents, each with its first hit and judgment."""
    return {
        query: (run[query].doc_ids[0], next(iter(judged)))
        for query, judged in judgments.items()
        if query in run and len(run[query].doc_ids) and judged.keys().isdisjoint(run[query].doc_ids)
    }


def _check_documents(name: str, run: Mapping[str, RankedList], judgments: Judgments) -> None:
    """An `InputError` if no document of a run is judged for any query: the ids are then of another collection."""
    judged = {document for of_query in judgments.values() for document in of_query}
    first = None
    for ranking in run.values():
        if not judged.isdisjoint(ranking.doc_ids):
            return
        first = first or next(iter(ranking.doc_ids), None)
    if first is not None:
        raise InputError(
            f"{name}: none of its documents ({first}, ...) is judged ({next(iter(judged))}, ...): run and judgments "
            "name documents differently, or belong to different collections"
        )
