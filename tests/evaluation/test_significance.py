"""The paired t-test and its correction; Kendall's tau by hand."""

import math
import warnings

import numpy as np
import pytest

from rerank_plugin.evaluation.significance import Comparison, agreement, compare, paired_t_test
from tests.evaluation.runs import ranked

BASE = np.array([0.1, 0.2, 0.3, 0.4])
HIGHER = BASE + np.array([0.1, 0.2, 0.1, 0.4])


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def test_by_hand():
    # Differences 0.1 0.2 0.1 0.4: mean 0.2, sample variance (0.01 + 0 + 0.01 + 0.04) / 3 = 0.02
    # t = 0.2 / sqrt(0.02 / 4) = 2.828427; with 3 degrees of freedom the two-tailed p is
    # 1 - 2/pi * (atan(u) + u / (1 + u^2)), u = t / sqrt(3) = 1.632993:  1 - 2/pi * (1.021329 + 0.445362) = 0.066276
    result = paired_t_test(HIGHER, BASE)
    assert result == pytest.approx((0.2, 2.828427, 0.066276), abs=1e-6)
    assert paired_t_test(BASE, HIGHER) == pytest.approx((-0.2, -2.828427, 0.066276), abs=1e-6)


@pytest.mark.parametrize("values, baseline", [(BASE, BASE.copy()), ([0, 0, 0], [0, 0, 0]), ([0.75], [0.25]), ([], [])])
def test_identical_runs_and_single_queries_show_nothing(values, baseline):
    difference = sum(values) - sum(baseline)
    assert paired_t_test(np.array(values), np.array(baseline)) == Comparison(difference, 0.0, 1.0)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_same_difference_everywhere(sign):
    assert paired_t_test(sign * np.ones(5), np.zeros(5)) == Comparison(sign, sign * math.inf, 0.0)
    assert paired_t_test(BASE + sign * 0.1, BASE).p < 1e-9  # not quite the same after rounding


def test_bonferroni_counts_the_runs_that_are_compared():
    """And not the measures."""
    raw = paired_t_test(HIGHER, BASE).p
    values = {"base": BASE, "a": HIGHER, "b": BASE, "c": BASE * 2}
    of = {run: {"AP": of_run, "P@5": of_run} for run, of_run in values.items()}
    result = compare(of, "base")
    assert list(result) == ["a", "b", "c"]
    assert result["a"]["AP"].p == pytest.approx(3 * raw) and result["b"]["AP"].p == 1.0
    assert result["a"]["AP"].t == pytest.approx(2.828427, abs=1e-6)
    assert compare({"base": of["base"], "a": of["a"]}, "base")["a"]["AP"].p == pytest.approx(raw)
    assert compare({"base": of["base"]}, "base") == {}
    many = {str(number): of["a"] for number in range(20)} | {"base": of["base"]}
    assert compare(many, "base")["0"]["AP"].p == 1.0  # not 1.33


def test_marks():
    assert Comparison(0.2, 3.0, 0.04).mark(0.05) == "+"
    assert Comparison(-0.2, -3.0, 0.04).mark(0.05) == "-"
    assert Comparison(0.2, 3.0, 0.04).mark(0.01) == Comparison(0.2, 3.0, 0.05).mark(0.05) == "="


def kendall(first, second):
    """Concordant less discordant pairs of the common documents, over all pairs."""
    common = [one for one in first if one in second]
    pairs = [(a, b) for at, a in enumerate(common) for b in common[at + 1 :]]
    return sum(1 if second.index(a) < second.index(b) else -1 for a, b in pairs) / len(pairs)


@pytest.mark.parametrize(
    "first, second", [("abcd", "abcd"), ("abcd", "dcba"), ("abcd", "bacd"), ("abxcd", "cabyd"), ("ab", "zab")]
)
def test_tau_kendall(first, second):
    found = agreement({"q": ranked(*first)}, {"q": ranked(*second)})
    assert found.queries == 1 and found.tau == pytest.approx(kendall(first, second))


def test_means_are_over_queries_with_something_in_common():
    run = {"q1": ranked(*"abcd"), "q2": ranked(*"ab"), "q3": ranked(*"ab"), "q4": ranked(*"a")}
    other = {"q1": ranked(*"abdc"), "q2": ranked(*"ba"), "q3": ranked(*"yz"), "q4": ranked(*"a")}
    found = agreement(run, other)
    assert (found.queries, found.tau, found.top) == (2, pytest.approx((4 / 6 - 1) / 2), 1.0)
    nothing = agreement(run, {})
    assert nothing.queries == 0 and math.isnan(nothing.tau)


def test_the_top_that_is_shared():
    first, second = [f"d{n}" for n in range(20)], [f"d{n}" for n in range(5, 25)]
    assert agreement({"q": ranked(*first)}, {"q": ranked(*second)}).top == 0.5
    assert agreement({"q": ranked(*"abcd")}, {"q": ranked(*"ba")}).top == 0.5  # of the longer one
