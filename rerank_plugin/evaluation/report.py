"""An evaluation as text: aligned table, Markdown, CSV, or JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator

from rerank_plugin.evaluation.agreement import TOP
from rerank_plugin.evaluation.evaluation import Evaluation
from rerank_plugin.files import tables


def table(evaluation: Evaluation, alpha: float, per_query: bool = False) -> str:
    """Columns aligned for a terminal."""
    blocks = [tables.aligned(rows, _texts(rows)) for rows in _blocks(evaluation, alpha, per_query)]
    return "\n".join([*blocks, *_footnote(evaluation, alpha)])


def markdown(evaluation: Evaluation, alpha: float, per_query: bool = False) -> str:
    blocks = [tables.markdown(rows, _texts(rows)) for rows in _blocks(evaluation, alpha, per_query)]
    return "\n".join([*blocks, *_footnote(evaluation, alpha)])


def as_csv(evaluation: Evaluation, alpha: float, per_query: bool = False) -> str:
    """A row a run, with full digits; the query column says "all", or the query of a row that ``per_query`` adds."""
    tested = [f"{name} {what}" for name in evaluation.measures for what in ("difference", "t", "p")]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["run", "query", *evaluation.measures, *(tested if evaluation.comparisons else [])])
    for run, summary in evaluation.summaries.items():
        of_run = evaluation.comparisons.get(run, {})
        tests = [part for name in evaluation.measures if name in of_run for part in of_run[name]]
        empty = [""] * (len(tested) - len(tests)) if evaluation.comparisons else []
        writer.writerow([run, "all", *(summary[name] for name in evaluation.measures), *tests, *empty])
    if per_query:
        for run, query, values in _per_query(evaluation):
            writer.writerow([run, query, *values, *([""] * len(tested) if evaluation.comparisons else [])])
    return text.getvalue()


def as_json(evaluation: Evaluation, alpha: float, per_query: bool = False) -> str:
    """:func:`as_dictionary` as text."""
    values = as_dictionary(evaluation, alpha, per_query)
    return json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_dictionary(evaluation: Evaluation, alpha: float, per_query: bool = False) -> dict:
    """The values for programs. An infinite t is None: JSON knows no infinity."""
    result: dict = {"queries": len(evaluation.queries), "runs": evaluation.summaries}
    if evaluation.baseline is not None:
        result["tests"] = {
            "baseline": evaluation.baseline,
            "correction": "bonferroni",
            "alpha": alpha,
            "runs": {
                run: {
                    name: {"p": one.p, "t": one.t if math.isfinite(one.t) else None, "difference": one.difference}
                    for name, one in of_run.items()
                }
                for run, of_run in evaluation.comparisons.items()
            },
        }
    if evaluation.agreements:
        result["agreement"] = {
            run: {"kendall_tau": _or_none(one.tau), f"same_top_{TOP}": _or_none(one.top), "queries": one.queries}
            for run, one in evaluation.agreements.items()
        }
    result["reported"] = {
        run: {"missing": evaluation.missing[run], "unjudged": evaluation.unjudged[run]} for run in evaluation.summaries
    }
    if per_query:
        result["per_query"] = {
            run: {name: dict(zip(evaluation.queries, of_run[name].tolist())) for name in evaluation.measures}
            for run, of_run in evaluation.values.items()
        }
    return result


def _or_none(value: float) -> float | None:
    """JSON knows no NaN."""
    return value if math.isfinite(value) else None


FORMATS = {"table": table, "markdown": markdown, "csv": as_csv, "json": as_json}


def warnings(evaluation: Evaluation) -> Iterator[str]:
    """Warnings about the numbers, one per line."""
    for run in evaluation.summaries:
        if missing := evaluation.missing[run]:
            of = f"{len(missing)} of {len(evaluation.queries)} judged queries"
            yield f"{run}: {of} are missing and count as 0: {_some(missing)}"
        if unjudged := evaluation.unjudged[run]:
            yield f"{run}: {len(unjudged)} queries without judgments are left out: {_some(unjudged)}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def _blocks(evaluation: Evaluation, alpha: float, per_query: bool) -> list[tables.Rows]:
    marked = " " if evaluation.comparisons else ""  # keeps the digits of marked and unmarked values under one another
    rows = [["run", *evaluation.measures]]
    for run, summary in evaluation.summaries.items():
        of_run = evaluation.comparisons.get(run, {})
        marks = {name: of_run[name].mark(alpha) if name in of_run else marked for name in evaluation.measures}
        rows.append([run, *(f"{summary[name]:.4f}{marks[name]}" for name in evaluation.measures)])
    blocks = [rows]
    if evaluation.agreements:
        header = ["run", "Kendall's tau", f"same top {TOP}", "queries in common"]
        cells = [
            [run, f"{one.tau:.4f}", f"{one.top:.4f}", str(one.queries)] for run, one in evaluation.agreements.items()
        ]
        blocks.append([header, *cells])
    if per_query:
        detail = [[run, query, *(f"{value:.4f}" for value in values)] for run, query, values in _per_query(evaluation)]
        blocks.append([["run", "query", *evaluation.measures], *detail])
    return blocks


def _per_query(evaluation: Evaluation) -> Iterator[tuple[str, str, list[float]]]:
    for run, of_run in evaluation.values.items():
        for at, query in enumerate(evaluation.queries):
            yield run, query, [float(of_run[name][at]) for name in evaluation.measures]


def _footnote(evaluation: Evaluation, alpha: float) -> list[str]:
    compared = len(evaluation.comparisons)
    if not compared:
        return []
    times = f"{compared} comparison{'s' * (compared > 1)} a measure"
    return [
        f"+ higher, - lower, = no significant difference from {evaluation.baseline}: two-tailed paired t-test over "
        f"{len(evaluation.queries)} queries, p < {alpha:g} after Bonferroni correction for {times}\n"
    ]


def _texts(rows: tables.Rows) -> int:
    """The number of columns that hold text."""
    return sum(name in ("run", "query") for name in rows[0][:2])
