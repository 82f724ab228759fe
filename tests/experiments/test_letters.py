"""Letters by tests worked out by hand, and table 1 of the PACRR paper."""

import numpy as np
import pytest

from experiments.letters import legend, letters, markdown
from rerank_plugin.base.errors import InputError
from rerank_plugin.evaluation.evaluation import evaluate
from tests.evaluation.runs import ranked

# Of "some" the differences from "base" are .1 .2 .1 .4: p 0.066 (see test_significance). All queries of "more" differ
# from "base" by the same, so p is 0; its differences from "some" are .15 .05 .15 -.15: mean .05, s .141, t .707, p .53.
BASE = np.array([0.125, 0.25, 0.375, 0.5])
VALUES = {"base": BASE, "some": BASE + [0.1, 0.2, 0.1, 0.4], "more": BASE + 0.25, "less": BASE - 0.125, "same": BASE}


def test_upper_case_at_95_and_lower_case_at_90_percent():
    assert letters(VALUES, {"base": "B"}) == {"base": "", "some": "(b)", "more": "(B)", "less": "(B)", "same": ""}
    # In the order of the baselines, whichever case they are given in; nothing says which way they differ.
    found = letters(VALUES, {"some": "s", "more": "M", "base": "b"})
    assert found == {"base": "(sM)", "some": "(b)", "more": "(B)", "less": "(SMB)", "same": "(sM)"}
    assert letters(VALUES, {}) == dict.fromkeys(VALUES, "")


def test_the_limits_of_the_paper():
    """Four differences have p 0.05 at t 3.182 and 0.1 at t 2.353: with mean m and s 1, t is 2m."""
    spread = np.array([-1.5, -0.5, 0.5, 1.5]) / np.sqrt(5 / 3)  # s 1
    found = {f"{t}": spread + t / 2 for t in (2.34, 2.36, 3.17, 3.19)}
    marks = letters({"q": np.zeros(4), **found}, {"q": "Q"})
    assert marks == {"q": "", "2.34": "", "2.36": "(q)", "3.17": "(q)", "3.19": "(Q)"}


@pytest.mark.parametrize(
    "against, message",
    [
        ({"x": "X"}, "x has the letter X, but it is not among base, some, more, less, same"),
        ({"base": "B", "some": "b"}, "some and base have the same letter, B"),
        ({"base": "AB"}, "base has the letter 'AB': give a letter from A to Z"),
        ({"base": ""}, "base has the letter ''"),
        ({"base": "1"}, "base has the letter '1'"),
        ({"base": "ß"}, "base has the letter 'ß'"),
    ],
)
def test_bad_letters(against, message):
    with pytest.raises(InputError, match=message):
        letters(VALUES, against)


def test_table_1():
    judgments = {f"q{number}": {"a": 1} for number in range(4)}
    good, bad = ranked("a", "b"), ranked("b", "a")
    runs = {
        "good": dict.fromkeys(judgments, good),  # RR 1 1 1 1
        "mi|xed": {**dict.fromkeys(judgments, good), "q3": bad},  # RR 1 1 1 .5
        "bad": dict.fromkeys(judgments, bad),  # RR .5 .5 .5 .5
    }
    # mixed - bad: .5 .5 .5 0: mean .375, s .25, t 3, and with 3 degrees of freedom p .0577
    # P@1: 1, .75, 0: the same differences doubled. good - mixed: 0 0 0 .5: t 1
    evaluation = evaluate(judgments, runs, ["RR", "P@1", "P@2"])
    assert markdown(evaluation, {"bad": "b", "mi|xed": "M"}) == (
        "|  | RR | P@1 | P@2 |\n"
        "| --- | ---: | ---: | ---: |\n"
        "| good | **1.000** (B) | **1.000** (B) | **0.500** |\n"
        "| mi\\|xed | 0.875 (b) | 0.750 (b) | **0.500** |\n"
        "| bad | 0.500 (m) | 0.000 (m) | **0.500** |\n"
        "\n"
        "Letters: a significant difference, in either direction, from B bad, M mi|xed (two-tailed paired t-test over "
        "4 queries, upper case p < 0.05, lower case p < 0.1, no correction). The highest values are in bold.\n"
    )
    assert markdown(evaluation, {}).endswith("| **0.500** |\n\nThe highest values are in bold.\n")
    assert legend({}, "4 queries") == ""
