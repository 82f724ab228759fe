"""A table of measures with the significance marks of [D18], tables 2 to 5.

Each row may be compared with several baselines. Baselines are numbered in the order of the rows; the number follows the
name in the first column. Superscripts compare a value with the baselines: ``0.365 <sup>+3,-4</sup>`` is significantly
higher than the value of baseline 3 and lower than that of baseline 4; = is no significant difference. Neighbouring
numbers share a sign, as in the paper: ``+4,5``. The best value of a measure is in bold.

As in the paper, the default is a 99% level without correction. Here, marks are sorted by number, and all equal best
values are bold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from experiments.letters import noted_values
from rerank_plugin import InputError
from rerank_plugin.evaluation.evaluation import Evaluation
from rerank_plugin.evaluation.significance import paired_t_test
from rerank_plugin.files.tables import Report

ALPHA = 0.01

Against = Mapping[str, Sequence[str]]  # by run: the baselines it is compared with


def marked_table(evaluation: Evaluation, against: Against, alpha: float = ALPHA) -> str:
    """The table in Markdown, a row for each run of ``evaluation``, and the meaning of the marks.

    Raises:
        InputError: a run or baseline was not evaluated, or a run is its own baseline.
    """
    numbers = baseline_numbers(evaluation, against)
    marks = significance_marks(evaluation, against, alpha)
    notes = {name: {run: superscript(",".join(marks[run][name])) for run in marks} for name in evaluation.measures}
    numbered = {run: f"{run} {superscript(str(number))}" for run, number in numbers.items()}
    meaning = (
        "+ higher, - lower, = no significant difference from the baseline of that number: two-tailed paired t-test "
        f"over {len(evaluation.queries)} queries, p < {alpha:g} without correction; the highest values are in bold\n"
    )
    return Report([noted_values(evaluation, notes, numbered), *([meaning] if numbers else [])]).text("markdown")


def baseline_numbers(evaluation: Evaluation, against: Against) -> dict[str, int]:
    """The numbers of the baselines, from 1 on in the order of the rows."""
    for run, baselines in against.items():
        for name in (run, *baselines):
            if name not in evaluation.summaries:
                known = ", ".join(evaluation.summaries)
                raise InputError(f"{name} is not among the runs: {known}")
        if run in baselines:
            raise InputError(f"{run} is its own baseline: give another run")
    used = {baseline for baselines in against.values() for baseline in baselines}
    return {run: number for number, run in enumerate((run for run in evaluation.summaries if run in used), 1)}


def significance_marks(
    evaluation: Evaluation, against: Against, alpha: float = ALPHA
) -> dict[str, dict[str, list[str]]]:
    """By run and measure, the marks by increasing number: ``["+3", "-4"]``, or with the same sign ``["+4,5"]``.

    Arguments and errors are those of `marked_table`.
    """
    numbers = baseline_numbers(evaluation, against)
    result: dict[str, dict[str, list[str]]] = {}
    for run, of_run in evaluation.values.items():
        baselines = sorted(set(against.get(run, ())), key=numbers.__getitem__)
        result[run] = {}
        for measure in evaluation.measures:
            others = [evaluation.values[baseline][measure] for baseline in baselines]
            signs = [paired_t_test(of_run[measure], other).mark(alpha) for other in others]
            grouped = groupby(zip(signs, baselines), key=lambda pair: pair[0])
            result[run][measure] = [
                sign + ",".join(str(numbers[baseline]) for _, baseline in of_sign) for sign, of_sign in grouped
            ]
    return result


def superscript(text: str) -> str:
    return f"<sup>{text}</sup>" if text else ""
