"""The public function that measures runs."""

from __future__ import annotations

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
from rerank_plugin.files.runs import RankedList, check_run, read_run


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
            ``{query id: {document id: grade}}``.
        runs: by name, the path of a run file or the result of `read_run` or `rank_many`; or a list of paths, which are
            also the names.
        measures: names of ir-measures (``nDCG@10``, ``AP``, ``RR@10``) and of the papers (``NDCG.20``, ``Prec.5``).
        baseline: name of the run to compare the others with, by a two-tailed paired t-test with Bonferroni correction.
        alpha: the level of significance, which is only reported.
        per_query: whether to add the values of each query.

    Returns:
        ``queries`` (their number), ``runs`` ({run: {measure: value}}), ``reported`` ({run: missing and unjudged
        queries}); with a baseline ``tests`` ({run: {measure: p, t, difference}} under ``runs``), and on request
        ``per_query`` ({run: {measure: {query id: value}}}).

    Raises:
        InputError: a file cannot be read, a measure or the baseline is unknown, or no query of a run is judged.
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
    judged = judgments(str(qrels)) if isinstance(qrels, (str, os.PathLike)) else qrels
    opened = {name: read_run(run) if isinstance(run, (str, os.PathLike)) else run for name, run in named.items()}
    for name, run in opened.items():
        check_run(run, name)
    return report.as_dictionary(evaluate(judged, opened, list(measures), baseline), alpha, per_query)
