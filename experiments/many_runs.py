"""Many runs before and after re-ranking them by several methods: [P] 3.3, table 2 and figure 3.

The change of a run is that of its measure, relative to what it was: (after - before) / before, in percent. A run whose
measure is 0 before has none: it is left out of the average and named, but counts among the runs that may improve.
Letters (see `letters`) are of paired t-tests between two methods over the changes of the runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments import letters
from rerank_plugin import InputError, RankedList, read_run
from rerank_plugin.base.records import Judgments
from rerank_plugin.evaluation.evaluation import evaluate
from rerank_plugin.files.plots import panels
from rerank_plugin.files.tables import Report, Table, known

Run = Mapping[str, RankedList]
BEFORE = "before re-ranking"


@dataclass(frozen=True)
class BulkEvaluation:
    """The R runs before, and after by each method."""

    queries: int  # how many are judged
    runs: list[str]  # R names
    before: dict[str, np.ndarray]  # by measure, float64 [R]
    after: dict[str, dict[str, np.ndarray]]  # by method and measure, float64 [R]
    incomplete: dict[str, list[str]]  # by method, and `BEFORE`, the runs that lack judged queries: nothing found

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
        self.part = part
        if not Path(folder).is_dir():
            raise InputError(f"{folder}: no such folder of runs")
        files = sorted(one for one in Path(folder).iterdir() if one.is_file() and one.name[0] != ".")
        self.paths = {one.name: one for one in files}
        if not self.paths:
            raise InputError(f"{folder}: holds no runs")

    def __getitem__(self, name: str) -> Run:
        return self.part(read_run(self.paths[name]))

    def __contains__(self, name: object) -> bool:  # without it, the run would be read to see whether it is there
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
        InputError: a run that is only on one side, an unknown measure, or what else `evaluate` refuses.
    """
    for method, runs in after.items():
        if lacking := sorted(before.keys() - runs.keys()):
            raise InputError(f"{method}: lacks the run {lacking[0]}; each run needs one of that name after re-ranking")
        if surplus := sorted(runs.keys() - before.keys()):
            raise InputError(f"{method}: its run {surplus[0]} is not among those before re-ranking")
    names, values, incomplete = list(before), {}, {}
    for method, runs in {BEFORE: before, **after}.items():
        found = evaluate(judgments, runs, measures, highest=highest)
        values[method] = {one: np.array([found.summaries[name][one] for name in names]) for one in found.measures}
        incomplete[method] = [name for name in names if found.missing[name]]
    return BulkEvaluation(sum(map(bool, judgments.values())), names, values.pop(BEFORE), values, incomplete)


def report(bulk: BulkEvaluation, against: letters.Against) -> Report:
    """[P], table 2: a row a method; average changes in percent with letters, and how many runs improved.

    In JSON all numbers are by measure, and the change of a run that had 0 is null. Letters are by method.
    """
    found = {measure: bulk.letters(measure, against) for measure in bulk.before}
    rows = [["", *(f"{one} change" for one in bulk.before), *(f"{one} improved" for one in bulk.before)]]
    for method in bulk.after:
        averages = {measure: bulk.average_change(method, measure) for measure in bulk.before}
        changes = [
            "-" if math.isnan(average) else f"{average:+.1f}% {found[measure][method]}".strip()
            for measure, average in averages.items()
        ]
        improved = [f"{bulk.improved(method, measure)} of {len(bulk.runs)}" for measure in bulk.before]
        rows.append([method, *changes, *improved])
    left_out = "".join(
        f" Without {len(zero)} runs whose {measure} was 0: {', '.join(zero)}."
        for measure in bulk.before
        if (zero := bulk.zero_before(measure))
    )
    said = (
        f"Change: mean over {len(bulk.runs)} runs of (after - before) / before, {bulk.queries} queries.{left_out} "
        f"{letters.legend(against, 'the changes of the runs')}"
    )
    measures = {measure: _values(bulk, measure, found[measure]) for measure in bulk.before}
    values = {"queries": bulk.queries, "runs": len(bulk.runs), "measures": measures}
    return Report([Table(rows), f"{said.rstrip()}\n"], values)


def _values(bulk: BulkEvaluation, measure: str, found: Mapping[str, str]) -> dict:
    """The numbers of a measure, for JSON."""
    after = {}
    for method, of_method in bulk.after.items():
        changes = zip(bulk.runs, of_method[measure].tolist(), bulk.changes(method, measure).tolist())
        after[method] = {
            "average_change": known(bulk.average_change(method, measure)),
            "letters": found[method],
            "improved": bulk.improved(method, measure),
            "runs": {run: {"after": value, "change": known(change)} for run, value, change in changes},
        }
    before = dict(zip(bulk.runs, bulk.before[measure].tolist()))
    return {"before": before, "zero_before": bulk.zero_before(measure), "after": after}


def warnings(bulk: BulkEvaluation) -> Iterator[str]:
    """Warnings about the numbers, one per line."""
    for method, incomplete in bulk.incomplete.items():
        if incomplete:
            of = f"{len(incomplete)} of {len(bulk.runs)} runs"
            yield f"{method}: {of} lack judged queries, which count as 0, as {incomplete[0]}"


def plot_scatter(bulk: BulkEvaluation, path: Path, overwrite: bool = False) -> None:
    """Draw [P], figure 3: a row of panels a measure, a panel a method, a point a run, x before and y after re-ranking.

    Points above the dashed line y = x are runs that improved; panels of a measure have the same scale. The paper puts
    all methods of a year into one panel; on one collection a panel each keeps many runs apart. More than four methods
    go on in further rows. A picture that is there already is replaced only with ``overwrite``.
    """
    columns = min(4, len(bulk.after))
    rows = -(-len(bulk.after) // columns)
    with panels(path, rows * len(bulk.before), columns, 9.0 / columns + 0.3, overwrite) as axes:
        for at, measure in enumerate(bulk.before):
            ours = axes[at * rows : (at + 1) * rows].ravel()
            limits = _limits([bulk.before[measure], *(of_method[measure] for of_method in bulk.after.values())])
            for one, method in zip(ours, bulk.after):
                one.plot(limits, limits, "k--", linewidth=0.8)
                one.scatter(bulk.before[measure], bulk.after[method][measure], s=14, alpha=0.6)
                one.set(xlim=limits, ylim=limits, aspect="equal", xlabel="before", ylabel=f"{measure} after")
                improved = f"{bulk.improved(method, measure)} of {len(bulk.runs)} improved"
                one.set_title(f"{method}\n{improved}", fontsize="medium")
            for unused in ours[len(bulk.after) :]:
                unused.set_axis_off()


def _limits(values: Sequence[np.ndarray]) -> tuple[float, float]:
    """Of both axes, with some room around the values."""
    lowest, highest = min(one.min() for one in values), max(one.max() for one in values)
    room = 0.05 * (highest - lowest) or 0.05
    return float(lowest - room), float(highest + room)
