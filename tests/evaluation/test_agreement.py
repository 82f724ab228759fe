"""Kendall's tau by hand, and what evaluate says about two runs that rank alike."""

import json
import math

import numpy as np
import pytest

from rerank_plugin.evaluation.agreement import agreement
from rerank_plugin.files.runs import RankedList, write_run


def ranked(ids):
    return RankedList(list(ids), np.arange(len(ids), 0, -1, dtype=np.float32))


def by_hand(first, second):
    """Concordant less discordant pairs of the common documents, over all pairs."""
    common = [one for one in first if one in second]
    pairs = [(a, b) for at, a in enumerate(common) for b in common[at + 1 :]]
    return sum(1 if second.index(a) < second.index(b) else -1 for a, b in pairs) / len(pairs)


@pytest.mark.parametrize(
    "first, second", [("abcd", "abcd"), ("abcd", "dcba"), ("abcd", "bacd"), ("abxcd", "cabyd"), ("ab", "zab")]
)
def test_tau_by_hand(first, second):
    found = agreement({"q": ranked(first)}, {"q": ranked(second)})
    assert found.queries == 1 and found.tau == pytest.approx(by_hand(first, second))


def test_means_are_over_queries_with_something_in_common():
    run = {"q1": ranked("abcd"), "q2": ranked("ab"), "q3": ranked("ab"), "q4": ranked("a")}
    other = {"q1": ranked("abdc"), "q2": ranked("ba"), "q3": ranked("yz"), "q4": ranked("a")}
    found = agreement(run, other)
    assert (found.queries, found.tau, found.top) == (2, pytest.approx((4 / 6 - 1) / 2), 1.0)
    nothing = agreement(run, {})
    assert nothing.queries == 0 and math.isnan(nothing.tau)


def test_the_top_that_is_shared():
    first, second = [f"d{n}" for n in range(20)], [f"d{n}" for n in range(5, 25)]
    assert agreement({"q": ranked(first)}, {"q": ranked(second)}).top == 0.5


def test_the_command_reports_it(tmp_path, capsys):
    from rerank_plugin import evaluate

    (tmp_path / "qrels").write_text("q1 0 a 1\nq1 0 b 0\n")
    write_run(tmp_path / "base.run", {"q1": ranked("abc")}, "base")
    write_run(tmp_path / "other.run", {"q1": ranked("acb")}, "other")
    runs = [str(tmp_path / "base.run"), str(tmp_path / "other.run")]
    arguments = [*runs, "--qrels", str(tmp_path / "qrels"), "--baseline", runs[0], "--agreement", "--measures", "P@1"]
    evaluate.main(arguments)
    assert "0.3333" in capsys.readouterr().out
    evaluate.main([*arguments, "--format", "json"])
    found = json.loads(capsys.readouterr().out)["agreement"]
    assert found == {runs[1]: {"kendall_tau": pytest.approx(1 / 3), "same_top_10": 1.0, "queries": 1}}
    with pytest.raises(SystemExit):
        evaluate.main([*runs, "--qrels", str(tmp_path / "qrels"), "--agreement"])
