"""An evaluation as text, Markdown, CSV or JSON, and the recognition of such report files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rerank_plugin.base.errors import InputError
from rerank_plugin.evaluation.evaluation import Evaluation
from rerank_plugin.evaluation.measures import parse
from rerank_plugin.evaluation.significance import TOP
from rerank_plugin.files.outputs import FileKind, beginning
from rerank_plugin.files.tables import Report, Rows, Table, finite_or_none


def report(evaluation: Evaluation, alpha: float, per_query: bool = False) -> Report:
    """The values of all runs; in CSV the query column is "all", or the query of a row that ``per_query`` adds."""
    compared, measures = evaluation.comparisons, evaluation.measures
    no_mark = " " if compared else ""  # aligns the digits of marked and unmarked values
    rows = [["run", *measures]]
    for run, summary in evaluation.summaries.items():
        marks = {name: test.mark(alpha) for name, test in compared.get(run, {}).items()}
        rows.append([run, *(f"{summary[name]:.4f}{marks.get(name, no_mark)}" for name in measures)])
    parts: list[Table | str] = [Table(rows)]
    if evaluation.agreements:
        header = ["run", "Kendall's tau", f"same top {TOP}", "queries in common"]
        agreed = evaluation.agreements.items()
        parts.append(Table([header, *([run, f"{a.tau:.4f}", f"{a.top:.4f}", str(a.queries)] for run, a in agreed)]))
    detail = list(_per_query(evaluation)) if per_query else []
    if per_query:
        cells = ([run, query, *(f"{value:.4f}" for value in values)] for run, query, *values in detail)
        parts.append(Table([["run", "query", *measures], *cells], texts=2))
    if compared:
        times = f"{len(compared)} comparison{'s' * (len(compared) > 1)} a measure"
        parts.append(
            f"+ higher, - lower, = no significant difference from {evaluation.baseline}: two-tailed paired t-test over "
            f"{len(evaluation.queries)} queries, p < {alpha:g} after Bonferroni correction for {times}\n"
        )
    return Report(parts, as_dictionary(evaluation, alpha, per_query), _records(evaluation, detail))


def _records(evaluation: Evaluation, detail: Rows) -> Rows:
    compared, measures = evaluation.comparisons, evaluation.measures
    tested = [f"{name} {part}" for name in measures for part in ("difference", "t", "p")] if compared else []
    untested = [""] * len(tested)
    rows: list[list[Any]] = [["run", "query", *measures, *tested]]
    for run, summary in evaluation.summaries.items():
        tests = [part for name in measures for part in compared[run][name]] if run in compared else untested
        rows.append([run, "all", *(summary[name] for name in measures), *tests])
    return rows + [[*row, *untested] for row in detail]


def _per_query(evaluation: Evaluation) -> Iterator[list]:
    for run, of_run in evaluation.values.items():
        for number, query in enumerate(evaluation.queries):
            yield [run, query, *(float(of_run[name][number]) for name in evaluation.measures)]


def as_dictionary(evaluation: Evaluation, alpha: float, per_query: bool = False) -> dict:
    """The values for programs; an infinite t is None."""
    result: dict = {"queries": len(evaluation.queries), "runs": evaluation.summaries}
    if evaluation.baseline is not None:
        result["tests"] = {
            "baseline": evaluation.baseline,
            "correction": "bonferroni",
            "alpha": alpha,
            "runs": {
                run: {
                    name: {"p": test.p, "t": finite_or_none(test.t), "difference": test.difference}
                    for name, test in tests.items()
                }
                for run, tests in evaluation.comparisons.items()
            },
        }
    if evaluation.agreements:
        result["agreement"] = {
            run: {
                "kendall_tau": finite_or_none(agreed.tau),
                f"same_top_{TOP}": finite_or_none(agreed.top),
                "queries": agreed.queries,
            }
            for run, agreed in evaluation.agreements.items()
        }
    result["reported"] = {
        run: {
            "missing": evaluation.missing[run],
            "unjudged": evaluation.unjudged[run],
            "unmatched": list(evaluation.unmatched[run]),
        }
        for run in evaluation.summaries
    }
    if per_query:
        result["per_query"] = {
            run: {name: dict(zip(evaluation.queries, of_run[name].tolist())) for name in evaluation.measures}
            for run, of_run in evaluation.values.items()
        }
    return result


def warnings(evaluation: Evaluation) -> Iterator[str]:
    """Warnings about the numbers, one per line."""
    for run in evaluation.summaries:
        if missing := evaluation.missing[run]:
            count = f"{len(missing)} of {len(evaluation.queries)} judged queries"
            yield f"{run}: {count} are missing and count as 0: {_first(missing)}"
        if unjudged := evaluation.unjudged[run]:
            yield f"{run}: {len(unjudged)} queries without judgments are left out: {_first(unjudged)}"
        if unmatched := evaluation.unmatched[run]:
            queries = [f"{query} (hit {hit}, judged {judged})" for query, (hit, judged) in unmatched.items()]
            count = f"{len(queries)} of {len(evaluation.queries)} judged queries"
            yield (
                f"{run}: {count} have hits, but none that is judged for them: {_first(queries)}; if run and judgments "
                "name documents differently, name them alike"
            )


def _first(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


JSON_KEYS, COMPARED_KEYS = {"queries", "runs", "reported"}, {"queries", "compared", "differences"}


def _is_report(path: Path) -> bool:
    """Whether a file is a report of measures: JSON by its keys, a table by a header that names measures."""
    text = beginning(path).decode(errors="replace")
    if text.startswith("{"):
        try:
            content = json.loads(path.read_bytes())
        except ValueError:
            return False
        return content.keys() >= JSON_KEYS or content.keys() >= COMPARED_KEYS
    header = text.partition("\n")[0].strip().removeprefix("|").removesuffix("|")
    cells = [cell.strip() for cell in re.split(r"\||,|\s{2,}", header)]
    measures = [cell for cell in cells if _is_measure(cell)]
    compared = cells[0] == "measure" and cells[-3:] == ["wins", "ties", "losses"] or cells == ["query", "difference"]
    return compared or bool(measures) and (cells[0] == "run" or measures == cells)


def _is_measure(name: str) -> bool:
    try:
        parse(name)
    except InputError:
        return False
    return True


REPORT = FileKind("a table of measures", _is_report)
