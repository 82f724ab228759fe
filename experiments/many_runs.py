"""Many runs before and after re-ranking them by several methods: [P] 3.3, table 2 and figure 3.

The change of a run is the relative change of its measure, (after - before) / before, in percent. It is undefined for a
run whose measure is 0 before: such runs are named and left out of the average, but may count as improved. Letters (see
`letters`) are of paired t-tests between two methods over the changes of the runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

import numpy as np

from experiments import letters
from rerank_plugin import InputError, RankedList, read_run
from rerank_plugin.base.records import Judgments
from rerank_plugin.evaluation.evaluation import evaluate
from rerank_plugin.files.plots import panels
from rerank_plugin.files.tables import Report, Table, finite_or_none

Run = Mapping[str, RankedList]
BEFORE = "before re-ranking"


@dataclass(frozen=True)
class BulkEvaluation:
    """The R runs before re-ranking, and after re-ranking by each method."""

    queries: int  # number of judged queries
    runs: list[str]  # R names
    before: dict[str, np.ndarray]  # by measure, float64 [R]
    after: dict[str, dict[str, np.ndarray]]  # by method and measure, float64 [R]
    incomplete: dict[str, list[str]]  # by method, and `BEFORE`, the runs that lack judged queries

    def changes(self, method: str, measure: str) -> np.ndarray:
        """Relative changes in percent, float64 [R]; NaN for a run with 0 before."""
        before = self.before[measure]
        differences = self.after[method][measure] - before
        return 100 * np.divide(differences, before, out=np.full(len(before), np.nan), where=before != 0)

    def average_change(self, method: str, measure: str) -> float:
        """The mean of the changes; NaN if all runs have 0 before."""
        changes = self.changes(method, measure)
        changes = changes[~np.isnan(changes)]
        return float(changes.mean()) if len(changes) else math.nan

    def improved(self, method: str, measure: str) -> int:
        """Number of runs that are better than before."""
        return int((self.after[method][measure] > self.before[measure]).sum())

    def zero_before(self, measure: str) -> list[str]:
        """The runs without a relative change."""
        return [run for run, value in zip(self.runs, self.before[measure].tolist()) if value == 0]

    def letters(self, measure: str, against: letters.Against) -> dict[str, str]:
        """Letters by method; the keys of ``against`` are methods."""
        changes = {method: self.changes(method, measure) for method in self.after}
        return letters.letters({method: values[~np.isnan(values)] for method, values in changes.items()}, against)


class RunFolder(Mapping[str, Run]):
    """The runs in a folder by file name, without hidden files.

    A run is read at every access, since all runs may not fit in memory.

    Args:
        part: restricts a run to a subset of the queries.

    Raises:
        InputError: there is no such folder, or no file in it.
    """

    def __init__(self, folder: str | Path, part: Callable[[Run], Run] = lambda run: run):
        self.part = part
        if not Path(folder).is_dir():
            raise InputError(f"{folder}: no such folder of runs")
        files = sorted(path for path in Path(folder).iterdir() if path.is_file() and path.name[0] != ".")
        self.paths = {path.name: path for path in files}
        if not self.paths:
            raise InputError(f"{folder}: holds no runs")

    def __getitem__(self, name: str) -> Run:
        return self.part(read_run(self.paths[name]))

    def __contains__(self, name: object) -> bool:  # the default would read the run
        return name in self.paths

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)


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
        InputError: a run exists only before or only after, or `evaluate` fails.
    """
    for method, runs in after.items():
        if lacking := sorted(before.keys() - runs.keys()):
            raise InputError(f"{method}: lacks the run {lacking[0]}; re-rank it, too")
        if surplus := sorted(runs.keys() - before.keys()):
            raise InputError(f"{method}: its run {surplus[0]} is not among the runs before re-ranking")
    names, values, incomplete = list(before), {}, {}
    for method, runs in {BEFORE: before, **after}.items():
        evaluation = evaluate(judgments, runs, measures, highest=highest)
        summaries = evaluation.summaries
        values[method] = {m: np.array([summaries[name][m] for name in names]) for m in evaluation.measures}
        incomplete[method] = [name for name in names if evaluation.missing[name]]
    return BulkEvaluation(sum(map(bool, judgments.values())), names, values.pop(BEFORE), values, incomplete)


def report(bulk: BulkEvaluation, against: letters.Against) -> Report:
    """[P], table 2: a row per method, with average changes in percent, letters, and numbers of improved runs.

    In JSON all numbers are by measure, and the change of a run with 0 before is null. Letters are by method.
    """
    notes = {measure: bulk.letters(measure, against) for measure in bulk.before}
    rows = [["", *(f"{name} change" for name in bulk.before), *(f"{name} improved" for name in bulk.before)]]
    for method in bulk.after:
        averages = {measure: bulk.average_change(method, measure) for measure in bulk.before}
        changes = [
            "-" if math.isnan(average) else f"{average:+.1f}% {notes[measure][method]}".strip()
            for measure, average in averages.items()
        ]
        improved = [f"{bulk.improved(method, measure)} of {len(bulk.runs)}" for measure in bulk.before]
        rows.append([method, *changes, *improved])
    left_out = "".join(
        f" Without {len(zero)} runs whose {measure} was 0: {', '.join(zero)}."
        for measure in bulk.before
        if (zero := bulk.zero_before(measure))
    )
    explanation = (
        f"Change: mean over {len(bulk.runs)} runs of (after - before) / before, {bulk.queries} queries.{left_out} "
        f"{letters.legend(against, 'the changes of the runs')}"
    )
    measures = {measure: _values(bulk, measure, notes[measure]) for measure in bulk.before}
    values = {"queries": bulk.queries, "runs": len(bulk.runs), "measures": measures}
    return Report([Table(rows), f"{explanation.rstrip()}\n"], values)


def _values(bulk: BulkEvaluation, measure: str, notes: Mapping[str, str]) -> dict:
    """The numbers of a measure, for JSON."""
    after = {}
    for method, of_method in bulk.after.items():
        changes = zip(bulk.runs, of_method[measure].tolist(), bulk.changes(method, measure).tolist())
        after[method] = {
            "average_change": finite_or_none(bulk.average_change(method, measure)),
            "letters": notes[method],
            "improved": bulk.improved(method, measure),
            "runs": {run: {"after": value, "change": finite_or_none(change)} for run, value, change in changes},
        }
    before = dict(zip(bulk.runs, bulk.before[measure].tolist()))
    return {"before": before, "zero_before": bulk.zero_before(measure), "after": after}


def warnings(bulk: BulkEvaluation) -> Iterator[str]:
    """Warnings about the numbers, one per line."""
    for method, incomplete in bulk.incomplete.items():
        if incomplete:
            count = f"{len(incomplete)} of {len(bulk.runs)} runs"
            yield f"{method}: {count} lack judged queries, which count as 0, e.g. {incomplete[0]}"


def plot_scatter(bulk: BulkEvaluation, path: Path, overwrite: bool = False) -> None:
    """Plot [P], figure 3: a row of panels per measure, a panel per method, a point per run, x before and y after.

    Runs above the dashed line y = x improved; panels of a measure have the same scale. The paper has all methods of a
    year in one panel; a panel per method keeps the many runs of one collection apart. A row has at most four panels.
    An existing file is replaced only with ``overwrite``.
    """
    columns = min(4, len(bulk.after))
    rows = -(-len(bulk.after) // columns)
    with panels(path, rows * len(bulk.before), columns, 9.0 / columns + 0.3, overwrite) as axes:
        for number, measure in enumerate(bulk.before):
            of_measure = axes[number * rows : (number + 1) * rows].ravel()
            limits = _limits([bulk.before[measure], *(of_method[measure] for of_method in bulk.after.values())])
            for panel, method in zip(of_measure, bulk.after):
                panel.plot(limits, limits, "k--", linewidth=0.8)
                panel.scatter(bulk.before[measure], bulk.after[method][measure], s=14, alpha=0.6)
                panel.set(xlim=limits, ylim=limits, aspect="equal", xlabel="before", ylabel=f"{measure} after")
                improved = f"{bulk.improved(method, measure)} of {len(bulk.runs)} improved"
                panel.set_title(f"{fill(method, 72 // columns)}\n{improved}", fontsize="medium")
            for unused in of_measure[len(bulk.after) :]:
                unused.set_axis_off()


def _limits(values: Sequence[np.ndarray]) -> tuple[float, float]:
    """The limits of both axes, with some room around the values."""
    lowest, highest = min(part.min() for part in values), max(part.max() for part in values)
    room = 0.05 * (highest - lowest) or 0.05
    return float(lowest - room), float(highest + room)
