"""Many runs before and after re-ranking them by several methods: [P] 3.3, table 2.

The change of a run is that of its measure, relative to what it was: (after - before) / before, in percent. A run whose
measure is 0 before has none: it is left out of the average and named, but counts among the runs that may improve.
Letters (see `letters`) are of paired t-tests between two methods over the changes of the runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rerank_plugin.evaluation import letters
from rerank_plugin.evaluation.evaluation import evaluate
from rerank_plugin.files import tables
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Judgments
from rerank_plugin.files.runs import RankedList, read_run

Run = Mapping[str, RankedList]


@dataclass(frozen=True)
class BulkEvaluation:
    """The R runs before, and after by each method.

    Attributes:
        queries: how many are judged.
        runs: R names.
        before: by measure, float64 [R].
        after: by method and measure, float64 [R].
        incomplete_before, incomplete_after: the runs that lack judged queries, the latter by method; such queries
            count as if the run had found nothing.
    """

    queries: int
    runs: list[str]
    before: dict[str, np.ndarray]
    after: dict[str, dict[str, np.ndarray]]
    incomplete_before: list[str]
    incomplete_after: dict[str, list[str]]

    def changes(self, method: str, measure: str) -> np.ndarray:
        """Relative changes in percent, float64 [R]; NaN for a run that had 0."""
        before = self.before[measure]
        differences = self.after[method][measure] - before
        return 100 * np.divide(differences, before, out=np.full(len(before), np.nan), where=before != 0)

    def average_change(self, method: str, measure: str) -> float:
        """NaN where all runs had 0."""
        changes = self.changes(method, measure)
        changes = changes[~np.isnan(changes)]
        return float(changes.mean()) if len(changes) else math.nan

    def improved(self, method: str, measure: str) -> int:
        """How many runs are better than before."""
        return int((self.after[method][measure] > self.before[measure]).sum())

    def zero_before(self, measure: str) -> list[str]:
        """The runs without a relative change."""
        return [run for run, value in zip(self.runs, self.before[measure].tolist()) if value == 0]

    def letters(self, measure: str, against: letters.Against) -> dict[str, str]:
        """By method; ``against`` names methods."""
        changes = {method: self.changes(method, measure) for method in self.after}
        return letters.letters({method: one[~np.isnan(one)] for method, one in changes.items()}, against)


class RunFolder(Mapping[str, Run]):
    """The runs in a folder by file name. Each is read at every access, since all together may not fit in memory.

    Hidden files are left out.

    Args:
        part: what to take of a run, for subsets of the queries.

    Raises:
        InputError: there is no such folder, or no file in it.
    """

    def __init__(self, folder: str | Path, part: Callable[[Run], Run] = lambda run: run):
        self.folder, self.part = Path(folder), part
        if not self.folder.is_dir():
            raise InputError(f"{folder}: no such folder of runs")
        self.names = sorted(one.name for one in self.folder.iterdir() if one.is_file() and one.name[0] != ".")
        if not self.names:
            raise InputError(f"{folder}: holds no runs")

    def __getitem__(self, name: str) -> Run:
        if name not in self.names:
            raise KeyError(name)
        return self.part(read_run(self.folder / name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def evaluate_bulk(
    judgments: Judgments,
    before: Mapping[str, Run],
    after: Mapping[str, Mapping[str, Run]],
    measures: Sequence[str] = letters.MEASURES,
    highest: float | None = None,
) -> BulkEvaluation:
    """Measure runs by name, before and, by method, after re-ranking; each run is accessed once.

    Args:
        highest: see `Evaluator`.

    Raises:
        InputError: a run that is only on one side, an unknown measure, or what else `evaluate` refuses.
    """
    for method, runs in after.items():
        if lacking := sorted(before.keys() - runs.keys()):
            raise InputError(f"{method}: lacks the run {lacking[0]}; each run needs one of that name after re-ranking")
        if surplus := sorted(runs.keys() - before.keys()):
            raise InputError(f"{method}: its run {surplus[0]} is not among those before re-ranking")
    names = list(before)
    of_before, incomplete_before = _measured(judgments, before, names, measures, highest)
    of_after = {method: _measured(judgments, runs, names, measures, highest) for method, runs in after.items()}
    return BulkEvaluation(
        queries=sum(map(bool, judgments.values())),
        runs=names,
        before=of_before,
        after={method: values for method, (values, _) in of_after.items()},
        incomplete_before=incomplete_before,
        incomplete_after={method: incomplete for method, (_, incomplete) in of_after.items()},
    )


def _measured(judgments, runs, names, measures, highest) -> tuple[dict[str, np.ndarray], list[str]]:
    """Values by measure in the order of ``names``, and the runs that lack judged queries."""
    found = evaluate(judgments, runs, measures, highest=highest)
    values = {measure: np.array([found.summaries[name][measure] for name in names]) for measure in found.measures}
    return values, [name for name in names if found.missing[name]]


def markdown(bulk: BulkEvaluation, against: letters.Against, titles: Mapping[str, str] | None = None) -> str:
    """[P], table 2, in Markdown: a row a method; average changes with letters, and how many runs improved.

    Args:
        against: letters by method.
        titles: of methods; others stand with their names.
    """
    return tables.markdown(_rows(bulk, against, titles or {})) + _notes(bulk, against, titles or {})


def table(bulk: BulkEvaluation, against: letters.Against) -> str:
    """`markdown`'s table, aligned for a terminal."""
    return tables.aligned(_rows(bulk, against, {})) + _notes(bulk, against, {})


def _rows(bulk: BulkEvaluation, against: letters.Against, titles: Mapping[str, str]) -> tables.Rows:
    of_measures = {measure: bulk.letters(measure, against) for measure in bulk.before}
    rows = [["", *(f"{one} change" for one in bulk.before), *(f"{one} improved" for one in bulk.before)]]
    for method in bulk.after:
        averages = {measure: bulk.average_change(method, measure) for measure in bulk.before}
        changes = [
            "-" if math.isnan(average) else f"{average:+.1f}% {of_measures[measure][method]}".strip()
            for measure, average in averages.items()
        ]
        improved = [f"{bulk.improved(method, measure)} of {len(bulk.runs)}" for measure in bulk.before]
        rows.append([titles.get(method, method), *changes, *improved])
    return rows


def _notes(bulk: BulkEvaluation, against: letters.Against, titles: Mapping[str, str]) -> str:
    runs, queries = len(bulk.runs), bulk.queries
    left_out = "".join(
        f" Without {len(zero)} runs whose {measure} was 0: {', '.join(zero)}."
        for measure in bulk.before
        if (zero := bulk.zero_before(measure))
    )
    return (
        f"\nChange: mean over {runs} runs of (after - before) / before, {queries} queries.{left_out} "
        f"{letters.legend(against, 'the changes of the runs', titles)}".rstrip()
        + "\n"
    )


def as_json(bulk: BulkEvaluation, against: letters.Against) -> str:
    """All numbers, by measure; changes are in percent, null for a run that had 0."""
    measures = {}
    for measure, before in bulk.before.items():
        found = bulk.letters(measure, against)
        measures[measure] = {
            "before": dict(zip(bulk.runs, before.tolist())),
            "zero_before": bulk.zero_before(measure),
            "after": {
                method: {
                    "average_change": _or_none(bulk.average_change(method, measure)),
                    "letters": found[method],
                    "improved": bulk.improved(method, measure),
                    "runs": {
                        run: {"after": after, "change": _or_none(change)}
                        for run, after, change in zip(
                            bulk.runs, of_method[measure].tolist(), bulk.changes(method, measure).tolist()
                        )
                    },
                }
                for method, of_method in bulk.after.items()
            },
        }
    result = {"queries": bulk.queries, "runs": len(bulk.runs), "measures": measures}
    return json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _or_none(value: float) -> float | None:
    """JSON knows no NaN."""
    return None if math.isnan(value) else value


FORMATS = {"table": table, "markdown": markdown, "json": as_json}


def warnings(bulk: BulkEvaluation) -> Iterator[str]:
    """Warnings about the numbers, one per line."""
    for method, incomplete in {"before re-ranking": bulk.incomplete_before, **bulk.incomplete_after}.items():
        if incomplete:
            of = f"{len(incomplete)} of {len(bulk.runs)} runs"
            yield f"{method}: {of} lack judged queries, which count as 0, as {incomplete[0]}"
