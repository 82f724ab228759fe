"""Significance letters as in [P], tables 1 to 3, and its table 1.

Each baseline has a letter. ``0.318 (mQ)`` differs significantly from the baselines of m and Q under a two-tailed paired
Student's t-test: upper case at 95% confidence, lower case at 90%, without correction for the number of tests. As in the
paper, a letter does not show the direction of a difference: a run that is worse than a baseline gets its letter, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from string import ascii_letters

import numpy as np

from rerank_plugin import InputError
from rerank_plugin.evaluation.evaluation import Evaluation
from rerank_plugin.evaluation.significance import paired_t_test
from rerank_plugin.files.tables import Report, Table

UPPER_CASE, LOWER_CASE = 0.05, 0.1  # p is below these

MEASURES = ("ERR@20", "NDCG.20")  # of [P] 3.1; its script's nDCG has gain 2^rel - 1

Against = Mapping[str, str]  # baseline: its letter, of either case


def letters(values: Mapping[str, np.ndarray], against: Against) -> dict[str, str]:
    """The letters of each run in brackets, in the order of ``against``, such as ``(DLmQ)``; "" without letters.

    No run is compared with itself.

    Args:
        values: by run, the values of the same n units (such as queries) in the same order, float64 [n].

    Raises:
        InputError: see `check`.
    """
    check(against, values)
    result = {}
    for run, of_run in values.items():
        tests = ((letter, paired_t_test(of_run, values[other]).p) for other, letter in against.items() if other != run)
        text = "".join(letter.upper() if p < UPPER_CASE else letter.lower() for letter, p in tests if p < LOWER_CASE)
        result[run] = text and f"({text})"
    return result


def check(against: Against, runs: Iterable[str]) -> None:
    """Check that every baseline is a run and has its own letter from A to Z.

    Raises:
        InputError: with the letter and the baseline.
    """
    known, seen = list(runs), {}
    for baseline, letter in against.items():
        if baseline not in known:
            raise InputError(f"{baseline} has the letter {letter}, but it is not among {', '.join(known)}")
        if len(letter) != 1 or letter not in ascii_letters:
            raise InputError(f"{baseline} has the letter {letter!r}: give a letter from A to Z")
        if letter.upper() in seen:
            raise InputError(
                f"{baseline} and {seen[letter.upper()]} have the same letter, {letter.upper()}: give each its own"
            )
        seen[letter.upper()] = baseline


def markdown(evaluation: Evaluation, against: Against) -> str:
    """[P], table 1, in Markdown: a row per run, a column per measure, the highest values in bold.

    Raises:
        InputError: see `check`.
    """
    notes = {
        measure: letters({run: of_run[measure] for run, of_run in evaluation.values.items()}, against)
        for measure in evaluation.measures
    }
    explanation = legend(against, f"{len(evaluation.queries)} queries")
    parts = [noted_values(evaluation, notes), f"{explanation}The highest values are in bold.\n"]
    return Report(parts).text("markdown")


def noted_values(
    evaluation: Evaluation, notes: Mapping[str, Mapping[str, str]], labels: Mapping[str, str] | None = None
) -> Table:
    """The values of all runs with three digits, each followed by its note, the highest in bold.

    Args:
        notes: by measure and run.
        labels: labels of runs in the first column; by default their names.
    """
    best = {name: max(summary[name] for summary in evaluation.summaries.values()) for name in evaluation.measures}
    rows = [["", *evaluation.measures]]
    for run, summary in evaluation.summaries.items():
        shown = {name: f"{summary[name]:.3f}" for name in evaluation.measures}
        bold = {name: f"**{text}**" if summary[name] == best[name] else text for name, text in shown.items()}
        rows.append([(labels or {}).get(run, run), *(f"{bold[name]} {notes[name][run]}" for name in bold)])
    return Table(rows)


def legend(against: Against, units: str) -> str:
    """The meaning of letters of tests over ``units`` ("50 queries"): a sentence and a space; "" without baselines."""
    if not against:
        return ""
    names = ", ".join(f"{letter.upper()} {baseline}" for baseline, letter in against.items())
    return (
        f"Letters: a significant difference, in either direction, from {names} (two-tailed paired t-test over {units}, "
        f"upper case p < {UPPER_CASE:g}, lower case p < {LOWER_CASE:g}, no correction). "
    )
