"""Table 2 of the PACRR paper by hand, its folders, and figure 3."""

import json

import numpy as np
import pytest

from experiments import many_runs
from rerank_plugin.base.errors import InputError
from rerank_plugin.files.runs import write_run
from tests.evaluation.runs import ranked

JUDGMENTS = {"q": {"rel": 1, "d1": 0}}  # each run has a judged document
AGAINST = {"m": "M", "n": "n"}


def at_rank(rank):
    """A run with the relevant document at this rank; without it for None."""
    return {"q": ranked(*(f"d{place}" if place != rank else "rel" for place in range(1, 9)))}


def runs(*ranks):
    return {name: at_rank(rank) for name, rank in zip("abcd", ranks)}


# RR before 1/2 1/2 1/4 0; by m 1 1/2 1/2 1: +100% 0% +100% and none; by n 1/4 1/4 1/8 0: -50% each, and none.
# Differences of m and n 150 50 150: mean 116.67, s 57.735, t 3.5, df 2, p 1 - 3.5 / sqrt(14.25) = .073
BEFORE = runs(2, 2, 4, None)
AFTER = {"m": runs(1, 2, 2, 1), "n": runs(4, 4, 8, None)}


@pytest.fixture
def evaluated():
    return many_runs.evaluate_bulk(JUDGMENTS, BEFORE, AFTER, ["RR", "P@1"])


def test_table_2(evaluated):
    assert many_runs.report(evaluated, AGAINST).text("markdown") == (
        "|  | RR change | P@1 change | RR improved | P@1 improved |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
        "| m | +66.7% (n) | - | 3 of 4 | 2 of 4 |\n"
        "| n | -50.0% (m) | - | 0 of 4 | 0 of 4 |\n"
        "\n"
        "Change: mean over 4 runs of (after - before) / before, 1 queries. Without 1 runs whose RR was 0: d. Without 4 "
        "runs whose P@1 was 0: a, b, c, d. Letters: a significant difference, in either direction, from M m, N n "
        "(two-tailed paired t-test over the changes of the runs, upper case p < 0.05, lower case p < 0.1, no "
        "correction).\n"
    )
    single = many_runs.evaluate_bulk(JUDGMENTS, runs(2), {"m": runs(1)}, ["RR"])
    assert many_runs.report(single, {}).text("table").splitlines() == [
        "   RR change  RR improved",
        "m    +100.0%       1 of 1",
        "",
        "Change: mean over 1 runs of (after - before) / before, 1 queries.",
    ]


def test_json(evaluated):
    result = json.loads(many_runs.report(evaluated, AGAINST).text("json"))
    assert (result["queries"], result["runs"], list(result["measures"])) == (1, 4, ["RR", "P@1"])
    reciprocal = result["measures"]["RR"]
    assert reciprocal["before"] == {"a": 0.5, "b": 0.5, "c": 0.25, "d": 0} and reciprocal["zero_before"] == ["d"]
    assert reciprocal["after"]["m"] == {
        "average_change": pytest.approx(200 / 3),
        "letters": "(n)",
        "improved": 3,
        "runs": {
            "a": {"after": 1, "change": 100},
            "b": {"after": 0.5, "change": 0},
            "c": {"after": 0.5, "change": 100},
            "d": {"after": 1, "change": None},
        },
    }
    assert result["measures"]["P@1"]["after"]["m"]["average_change"] is None


def test_runs_belong_together_by_name():
    with pytest.raises(InputError, match="m: lacks the run b; re-rank it"):
        many_runs.evaluate_bulk(JUDGMENTS, runs(1, 2), {"m": runs(1)}, ["RR"])
    with pytest.raises(InputError, match="m: its run b is not among the runs before re-ranking"):
        many_runs.evaluate_bulk(JUDGMENTS, runs(1), {"m": runs(1, 2)}, ["RR"])
    turned = dict(reversed(AFTER["m"].items()))
    found = many_runs.evaluate_bulk(JUDGMENTS, BEFORE, {"m": turned}, ["RR"])
    assert found.after["m"]["RR"].tolist() == [1, 0.5, 0.5, 1]


def test_missing_queries_are_named():
    judgments = {**JUDGMENTS, "q2": {"rel": 1}}
    complete = {"q": ranked("rel"), "q2": ranked("rel")}
    found = many_runs.evaluate_bulk(
        judgments, {"a": complete, "b": at_rank(1)}, {"m": {"a": complete, "b": complete}}, ["RR"]
    )
    assert found.before["RR"].tolist() == [1, 0.5]
    assert list(many_runs.warnings(found)) == [
        "before re-ranking: 1 of 2 runs lack judged queries, which count as 0, e.g. b"
    ]


def test_a_folder_of_runs(tmp_path):
    for name in ("b.run", "a.run.gz", ".hidden"):
        write_run(tmp_path / name, at_rank(3), "t")
    (tmp_path / "folder").mkdir()
    folder = many_runs.RunFolder(tmp_path)
    assert list(folder) == ["a.run.gz", "b.run"] and len(folder) == 2 and "c" not in folder
    assert folder["a.run.gz"]["q"].doc_ids == at_rank(3)["q"].doc_ids
    assert many_runs.RunFolder(tmp_path, lambda run: {})["b.run"] == {}
    with pytest.raises(InputError, match="none: no such folder of runs"):
        many_runs.RunFolder(tmp_path / "none")
    with pytest.raises(InputError, match="folder: holds no runs"):
        many_runs.RunFolder(tmp_path / "folder")


def test_each_run_in_a_folder_is_read_once(tmp_path, monkeypatch):
    paths = [tmp_path / folder / f"{name}.run" for folder in ("before", "m", "n") for name in "ab"]
    for path in paths:
        write_run(path, at_rank(1), "t")
    read = []
    monkeypatch.setattr(many_runs, "read_run", lambda path: read.append(path) or at_rank(1))
    before, *after = (many_runs.RunFolder(tmp_path / folder) for folder in ("before", "m", "n"))
    many_runs.evaluate_bulk(JUDGMENTS, before, dict(zip("mn", after)), ["RR"])
    assert sorted(read) == paths


def test_the_figure(tmp_path, evaluated):
    from matplotlib.image import imread

    many_runs.plot_scatter(evaluated, tmp_path / "new" / "figure.png")
    five = {name: runs(None) for name in "abcde"}  # a line for measures has four panels
    many_runs.plot_scatter(many_runs.evaluate_bulk(JUDGMENTS, runs(None), five, ["RR"]), tmp_path / "five.png")
    large, other = imread(tmp_path / "new" / "figure.png"), imread(tmp_path / "five.png")
    assert large.shape[1] == other.shape[1] and large.shape[0] > 1.5 * other.shape[0]
    first, second = np.split(large[:, : large.shape[1] // 2 * 2], 2, axis=1)
    assert first.std() > 0.05 and not np.array_equal(first, second)
