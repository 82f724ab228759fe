"""The public function that measures runs."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Judgments
from rerank_plugin.corpora import judgments
from rerank_plugin.evaluation import report
from rerank_plugin.evaluation.evaluation import evaluate
from rerank_plugin.evaluation.measures import DEFAULTS, parse
from rerank_plugin.files.runs import RankedList, checked_run, read_run, with_text_ids


def evaluate_runs(
    qrels: str | Path | Judgments,
    runs: Mapping[str, str | Path | Mapping[str, RankedList]] | Sequence[str | Path],
    measures: Sequence[str] = DEFAULTS,
    baseline: str | None = None,
    alpha: float = 0.05,
    per_query: bool = False,
) -> dict[str, Any]:
    """The values that ``evaluate --format json`` prints, as a dictionary.

    Every judged query counts; a query that a run lacks scores 0. Queries without judgments are left out.

    Args:
        qrels: judgments as the commands take them (``sample:test``, a qrels file, a BEIR folder with its split), or
            ``{query id: {document id: grade}}``; ids may be whole numbers, and grades numbers of numpy or texts.
        runs: by name, the path of a run file or the result of `read_run` or `rank_many`; or a list of paths, which
            serve as names.
        measures: names of ir-measures (``nDCG@10``, ``AP``, ``RR@10``), of trec_eval (``ndcg_cut_10``, ``map``) and of
            the papers (``NDCG.20``, ``Prec.5``).
        baseline: name of the run to compare the others with, by a two-tailed paired t-test with Bonferroni correction.
        alpha: the level of significance, which is only reported.
        per_query: whether to add the values of each query.

    Returns:
        ``queries`` (their number), ``runs`` ({run: {measure: value}}), ``reported`` ({run: missing and unjudged
        queries}); with a baseline ``tests`` ({run: {measure: p, t, difference}} under ``runs``), and on request
        ``per_query`` ({run: {measure: {query id: value}}}).

    Raises:
        InputError: a file cannot be read, an id or a grade is of another type, a measure or the baseline is unknown, or
            no query or no document of a run is judged.
    """
    if isinstance(measures, str):
        raise InputError(f"measures are a list of names: give ['{measures}']")
    for name in measures:
        parse(name)
    if not 0 < alpha < 1:
        raise InputError(f"the level of significance {alpha} must be between 0 and 1")
    if isinstance(runs, (str, os.PathLike)):
        raise InputError("runs are a list of paths, or runs by name: give [path] for a single run")
    named = runs if isinstance(runs, Mapping) else {str(path): path for path in runs}
    if not named:
        raise InputError("there is no run to evaluate")
    judged = judgments(str(qrels)) if isinstance(qrels, (str, os.PathLike)) else _checked_judgments(qrels)
    opened = {
        name: read_run(run) if isinstance(run, (str, os.PathLike)) else checked_run(run, name)
        for name, run in named.items()
    }
    return report.as_dictionary(evaluate(judged, opened, list(measures), baseline), alpha, per_query)


def _checked_judgments(qrels: object) -> Judgments:
    """Judgments in memory, with texts as ids, and numbers of Python as grades."""
    for judged in qrels.values() if isinstance(qrels, Mapping) else [qrels]:
        if not isinstance(judged, Mapping):
            raise InputError(f"qrels are {{query id: {{document id: grade}}}}; found {type(judged).__name__}")
    assert isinstance(qrels, Mapping)  # anything else has been refused
    return {
        query: {document: _grade(grade, query, document) for document, grade in with_text_ids(judged, "qrels").items()}
        for query, judged in with_text_ids(qrels, "qrels").items()
    }


def _grade(given: Any, query: str, document: str) -> float:
    """A grade as qrels files have them: an int if it is whole, else a float."""
    try:
        grade = float(given)
    except (TypeError, ValueError):
        grade = math.nan
    if not math.isfinite(grade):
        raise InputError(f"qrels: query {query}, document {document}: the grade {given!r} is no finite number")
    return int(grade) if grade.is_integer() else grade
