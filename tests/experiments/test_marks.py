"""The paper's table, with tests worked out by hand."""

import numpy as np
import pytest

from experiments.marks import baseline_numbers, marked_table, significance_marks
from rerank_plugin.base.errors import InputError
from rerank_plugin.evaluation.evaluation import Evaluation

# Five queries. Differences from a, and t = mean / (s / sqrt 5) of the paired test with 4 degrees of freedom, whose
# two-tailed limits are 2.776 at 95%, 4.604 at 99% and 5.598 at 99.5%:
#   b - a = .1 .2 .3 .2 .2: mean .2, s .0707, t  6.32 (p .0032)
#   c - a = .0 .1 .2 .1 .1: mean .1, s .0707, t  3.16 (p .0341)
#   d - a = -b's            mean -.2,         t -6.32
#   c - b = -.1 everywhere                    t minus infinity
#   d - b: mean -.4, s .1414, t -6.32;   d - c: mean -.3, s .1414, t -4.74 (p .0090)
A = np.array([0.5, 0.5, 0.5, 0.5, 0.5])
B = np.array([0.6, 0.7, 0.8, 0.7, 0.7])
VALUES = {"a": A, "b": B, "c": np.array([0.5, 0.6, 0.7, 0.6, 0.6]), "d": 1 - B}
AGAINST = {"b": ["a"], "c": ["b", "a"], "d": ["a", "b", "c"]}


def evaluation(values=VALUES, measures=("AP",)):
    values = {run: dict.fromkeys(measures, of_run) for run, of_run in values.items()}
    summaries = {run: {name: float(part.mean()) for name, part in of_run.items()} for run, of_run in values.items()}
    nothing = {run: [] for run in values}
    unmatched = {run: {} for run in values}
    return Evaluation(list("12345"), list(measures), values, summaries, nothing, nothing, unmatched, None, {}, {})


def test_the_table_as_in_the_paper():
    assert marked_table(evaluation(), AGAINST) == (
        "|  | AP |\n"
        "| --- | ---: |\n"
        "| a <sup>1</sup> | 0.500 |\n"
        "| b <sup>2</sup> | **0.700** <sup>+1</sup> |\n"
        "| c <sup>3</sup> | 0.600 <sup>=1,-2</sup> |\n"
        "| d | 0.300 <sup>-1,2,3</sup> |\n"
        "\n"
        "+ higher, - lower, = no significant difference from the baseline of that number: two-tailed paired t-test "
        "over 5 queries, p < 0.01 without correction; the highest values are in bold\n"
    )


def test_another_level():
    marks = significance_marks(evaluation(), AGAINST, alpha=0.05)
    assert [marks[run]["AP"] for run in "abcd"] == [[], ["+1"], ["+1", "-2"], ["-1,2,3"]]


def test_numbers_follow_the_rows_whatever_the_order_of_the_comparisons():
    assert baseline_numbers(evaluation(), {"d": ["c", "b"], "c": ["b"]}) == {"b": 1, "c": 2}
    marks = significance_marks(evaluation(), {"d": ["c", "b", "c"]}, alpha=0.05)
    assert marks["d"]["AP"] == ["-1,2"]


def test_equal_best_values_are_all_bold_and_nothing_is_marked_without_comparisons():
    text = marked_table(evaluation({"a|b": A, "b": A, "c": A - 0.1}, ("AP", "P@5")), {})
    assert text == (
        "|  | AP | P@5 |\n"
        "| --- | ---: | ---: |\n"
        "| a\\|b | **0.500** | **0.500** |\n"
        "| b | **0.500** | **0.500** |\n"
        "| c | 0.400 | 0.400 |\n"
    )


@pytest.mark.parametrize(
    "against, message",
    [
        ({"x": ["a"]}, "x is not among the runs: a, b, c, d"),
        ({"a": ["b", "x"]}, "x is not among the runs"),
        ({"a": ["a"]}, "a is its own baseline"),
    ],
)
def test_unknown_runs_and_baselines(against, message):
    with pytest.raises(InputError, match=message):
        marked_table(evaluation(), against)
