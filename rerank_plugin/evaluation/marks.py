"""A table of measures with the significance marks of [D18], tables 2 to 5.

Each row may be compared with several baselines. Baselines are numbered in the order of the rows; the number follows the
name in the first column. Superscripts of a value compare it with the baselines: ``0.365 <sup>+3,-4</sup>`` is
significantly higher than the value of baseline 3 and lower than that of baseline 4; = is no significant difference.
Neighbouring numbers share a sign, as in the paper: ``+4,5``. The best value of a measure is in bold.

As in the paper, the default is a 99% level without correction. Our own choices: marks are sorted by number, and equal
best values are all bold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from rerank_plugin.evaluation.evaluation import Evaluation
from rerank_plugin.evaluation.significance import paired_t_test
from rerank_plugin.files import tables
from rerank_plugin.files.errors import InputError

NONE, BONFERRONI = "none", "bonferroni"
CORRECTIONS = (NONE, BONFERRONI)
ALPHA = 0.01

Against = Mapping[str, Sequence[str]]  # by run: the baselines it is compared with


def marked_table(
    evaluation: Evaluation,
    against: Against,
    alpha: float = ALPHA,
    correction: str = NONE,
    titles: Mapping[str, str] | None = None,
) -> str:
    """The table in Markdown, a row for each run of ``evaluation``, and what the marks mean.

    Args:
        against: runs and baselines by their names in ``evaluation``.
        correction: bonferroni multiplies each p by the number of comparisons a measure in the table.
        titles: of runs, for the first column; others stand with their names.

    Raises:
        InputError: a run or baseline that was not evaluated, one that is its own baseline, or an unknown correction.
    """
    numbers = baseline_numbers(evaluation, against)
    marks = significance_marks(evaluation, against, alpha, correction)
    rows = [["", *evaluation.measures]]
    for run, summary in evaluation.summaries.items():
        title = (titles or {}).get(run, run)
        number = [str(numbers[run])] if run in numbers else []
        values = [
            _value(summary[name], _is_best(evaluation, name, summary[name]), marks[run][name])
            for name in evaluation.measures
        ]
        rows.append([_with_superscript(title, number), *values])
    return tables.markdown(rows) + _meaning(evaluation, against, alpha, correction)


def baseline_numbers(evaluation: Evaluation, against: Against) -> dict[str, int]:
    """The numbers of the baselines, from 1 on in the order of the rows."""
    _check(evaluation, against)
    wanted = {baseline for baselines in against.values() for baseline in baselines}
    return {run: number for number, run in enumerate((run for run in evaluation.summaries if run in wanted), 1)}


def significance_marks(
    evaluation: Evaluation, against: Against, alpha: float = ALPHA, correction: str = NONE
) -> dict[str, dict[str, list[str]]]:
    """By run and measure, the marks by rising number, as ``["+3", "-4"]`` or, of the same sign, ``["+4,5"]``.

    Arguments and errors are those of `marked_table`.
    """
    numbers = baseline_numbers(evaluation, against)
    if correction not in CORRECTIONS:
        raise InputError(f"unknown correction {correction!r}; known: {', '.join(CORRECTIONS)}")
    times = _comparisons(against) if correction == BONFERRONI else 1
    result: dict[str, dict[str, list[str]]] = {}
    for run, of_run in evaluation.values.items():
        baselines = sorted(set(against.get(run, ())), key=numbers.__getitem__)
        result[run] = {}
        for measure in evaluation.measures:
            signs = []
            for baseline in baselines:
                test = paired_t_test(of_run[measure], evaluation.values[baseline][measure])
                sign = test._replace(p=min(1.0, test.p * times)).mark(alpha)
                signs.append((sign, str(numbers[baseline])))
            grouped = groupby(signs, key=lambda one: one[0])
            result[run][measure] = [sign + ",".join(number for _, number in group) for sign, group in grouped]
    return result


def _check(evaluation: Evaluation, against: Against) -> None:
    for run, baselines in against.items():
        for name in (run, *baselines):
            if name not in evaluation.summaries:
                raise InputError(
                    f"{name} is to be compared, but it is not among the runs: {', '.join(evaluation.summaries)}"
                )
        if run in baselines:
            raise InputError(f"{run} is its own baseline; compare it with another run")


def _comparisons(against: Against) -> int:
    """How many comparisons there are on each measure."""
    return sum(len(set(baselines)) for baselines in against.values())


def _is_best(evaluation: Evaluation, measure: str, value: float) -> bool:
    return value == max(summary[measure] for summary in evaluation.summaries.values())


def _value(value: float, best: bool, marks: list[str]) -> str:
    return _with_superscript(f"**{value:.3f}**" if best else f"{value:.3f}", marks)


def _with_superscript(text: str, marks: list[str]) -> str:
    return f"{text} <sup>{','.join(marks)}</sup>" if marks else text


def _meaning(evaluation: Evaluation, against: Against, alpha: float, correction: str) -> str:
    count = _comparisons(against)
    if not count:
        return ""
    corrected = f"after Bonferroni correction for {count} comparisons a measure"
    return (
        "\n+ higher, - lower, = no significant difference from the baseline of that number: two-tailed paired t-test "
        f"over {len(evaluation.queries)} queries, p < {alpha:g} "
        f"{corrected if correction == BONFERRONI else 'without correction'}; the highest values are in bold\n"
    )
