"""Fused runs and tuned weights, by hand and through the command."""

import json

import numpy as np
import pytest

from rerank_plugin import fuse
from rerank_plugin import options as commandline
from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import judgments
from rerank_plugin.evaluation import run_fusion as fusing
from rerank_plugin.evaluation.run_fusion import Fusion
from rerank_plugin.files.runs import RankedList, read_run
from tests.evaluation.runs import ranked

QRELS = "q1 0 r1 1\nq1 0 n1 0\nq2 0 r2 2\nq2 0 n2 0\nq3 0 r3 1\n"
# Alone, A ranks q1 well and B q2; q3 is only in A. Fused with more weight for A, both are ranked well.
A = "q1 Q0 r1 1 9 a\nq1 Q0 n1 2 3 a\nq1 Q0 x 3 0 a\nq2 Q0 n2 1 5 a\nq2 Q0 r2 2 4 a\nq2 Q0 x 3 0 a\nq3 Q0 r3 1 1 a\n"
B = "q2 Q0 r2 1 .9 b\nq2 Q0 n2 2 .1 b\nq1 Q0 n1 1 .5 b\nq1 Q0 r1 2 .4 b\nq1 Q0 y 3 .1 b\n"


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.run").write_text(A)
    (tmp_path / "b.run").write_text(B)
    (tmp_path / "qrels").write_text(QRELS)
    return tmp_path


def test_two_runs_by_hand():
    first = {"q": RankedList(["a", "b", "c"], np.array([9, 5, 1], np.float32))}
    runs = [first, {"q": ranked("b", "d"), "only": ranked("z")}]  # scores 2 and 1
    fused = fusing.fuse(runs, Fusion.of("rrf", None, 60, 2))
    assert fused["q"].doc_ids == ["b", "a", "d", "c"] and list(fused) == ["q", "only"]
    np.testing.assert_allclose(fused["q"].scores, [1 / 62 + 1 / 61, 1 / 61, 1 / 62, 1 / 63], rtol=1e-6)
    linear = fusing.fuse(runs, Fusion.of("linear", [0.3], 60, 2))["q"]
    assert linear.doc_ids == ["b", "a", "d", "c"]  # d and c tie: the larger id first
    np.testing.assert_allclose(linear.scores, [0.3 * 0.5 + 0.7, 0.3, 0, 0], rtol=1e-6)
    assert fusing.fuse(runs, Fusion.of("rrf", None, 60, 2), depth=1)["q"].doc_ids == ["b", "a"]


def test_the_grid_holds_equal_weights_first_and_all_that_add_up_to_1():
    assert fusing._grid(2, 4) == [(0.5, 0.5), (0.0, 1.0), (0.25, 0.75), (0.75, 0.25), (1.0, 0.0)]
    three = fusing._grid(3, 10)
    assert three[0] == (1 / 3,) * 3 and len(three) == 67 and len(set(three)) == 67
    assert all(abs(sum(weights) - 1) < 1e-9 for weights in three)
    with pytest.raises(InputError, match="coordinate ascent"):
        fusing._grid(6, 50)


def test_ascent_finds_the_top_of_a_hill():
    target = (0.2, 1.0, 0.6)

    def value(weights):
        return -sum((weight - best) ** 2 for weight, best in zip(weights, target))

    seen = []
    for _ in fusing._ascent(lambda weights: seen.append(weights) or value(weights), 3, 10):
        pass
    assert max(seen, key=value) == pytest.approx(target)


def test_tuning_equals_a_loop(workspace):
    runs = [read_run("a.run"), read_run("b.run")]
    tuning = fusing.tune(runs, judgments("qrels"), ["AP"], "linear", 0.25)
    assert [tried.fusion.weights for tried in tuning.tried] == fusing._grid(2, 4)

    def average_precision(weights):
        """Every query has one relevant document: the mean of 1 / its rank."""
        fused = fusing.fuse(runs, Fusion.of("linear", weights, 60, 2))
        ranks = [fused[f"q{number}"].doc_ids.index(f"r{number}") + 1 for number in (1, 2, 3)]
        return sum(1 / rank for rank in ranks) / 3

    expected = {weights: average_precision(weights) for weights in fusing._grid(2, 4)}
    assert {tried.fusion.weights: tried.value for tried in tuning.tried} == pytest.approx(expected)
    assert tuning.best.value == max(expected.values()) == 1.0
    assert tuning.single == pytest.approx([(1 + 0.5 + 1) / 3, (0.5 + 1 + 0) / 3])
    ascent = fusing.tune(runs, judgments("qrels"), ["AP"], "linear", 0.25, search="ascent")
    assert ascent.best.value == 1.0
    rrf = fusing.tune(runs, judgments("qrels"), ["AP"], "rrf", 0.5, ks=[0, 60])
    assert {tried.fusion.k for tried in rrf.tried} == {0, 60} and len(rrf.tried) == 6


def test_of_several_measures_the_mean_is_tuned(workspace):
    runs = [read_run("a.run"), read_run("b.run")]
    ap, precision, both = (
        fusing.tune(runs, judgments("qrels"), measures, "linear", 0.25).tried
        for measures in (["AP"], ["P@2"], ["AP", "P@2"])
    )
    means = [(a.value + p.value) / 2 for a, p in zip(ap, precision)]
    assert [tried.value for tried in both] == pytest.approx(means)
    assert len({round(a.value - p.value, 6) for a, p in zip(ap, precision)}) > 1


def test_the_command_fuses_and_tunes(workspace, capsys):
    fuse.main(["a.run", "b.run", "--output", "rrf.run", "--output-depth", "2"])
    assert read_run("rrf.run")["q3"].doc_ids == ["r3"]
    assert all(len(ranking.doc_ids) <= 2 for ranking in read_run("rrf.run").values())
    assert {line.split()[-1] for line in open("rrf.run")} == {"rrf"}
    capsys.readouterr()
    tuning = ["a.run", "b.run", "--method", "linear", "--tune", "qrels", "--step", "0.25"]
    fuse.main([*tuning, "--output", "tuned.run"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "a.run: AP 0.8333" and lines[1] == "b.run: AP 0.5000"
    assert sum(line.endswith("best") for line in lines) == 1 and len(lines) == 9
    fuse.main([*tuning, "--format", "json"])
    text = capsys.readouterr().out
    best = json.loads(text)["best"]
    assert lines[-1] == "best: --method linear --weights " + " ".join(f"{weight:.12g}" for weight in best["weights"])
    (workspace / "weights.json").write_text(text)
    fuse.main(["a.run", "b.run", "--tuned", "weights.json", "--output", "again.run"])
    assert open("again.run").read() == open("tuned.run").read()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["a.run", "--output", "x"], "at least two runs"),
        (["a.run", "b.run"], "--output or --tune is required"),
        (["a.run", "b.run", "--output", "x", "--weights", "1", "2", "3"], "3 fusion weights for 2 ranked lists"),
        (["a.run", "b.run", "--output", "x", "--k", "-1"], "the k of reciprocal rank fusion is -1"),
        (["a.run", "b.run", "--output", "x", "--k", "1", "2"], "several values of --k need --tune"),
        (["a.run", "b.run", "--tune", "qrels", "--weights", "1", "2"], "leave out --weights"),
        (["a.run", "b.run", "--tune", "qrels", "--step", "0.3"], "whole part of 1"),
        (["a.run", "b.run", "--tune", "qrels", "--measure", "nonsense"], "nonsense"),
        (["a.run", "b.run", "--output", "x", "--tuned", "qrels"], "qrels holds no tuned weights"),
        (
            ["a.run", "b.run", "--output", "x", "--tuned", "qrels", "--k", "1"],
            "leave out --method, --weights",
        ),
        (["a.run", "other.run", "--output", "x"], "have no query in common"),
        (["a.run", "b.run", "--tune", "other.qrels"], "none of the judged queries is in the runs"),
        (["a.run", "b.run", "--tuned", "three.json", "--output", "x"], "has weights for 3 runs"),
    ],
)
def test_wrong_usage(workspace, capsys, arguments, message):
    (workspace / "three.json").write_text(json.dumps({"best": {"method": "rrf", "weights": [1, 1, 1], "k": 60}}))
    (workspace / "other.run").write_text("q9 Q0 a 1 1 t\n")
    (workspace / "other.qrels").write_text("q9 0 a 1\n")
    with pytest.raises(SystemExit) as status:
        commandline.run(fuse.main, arguments)
    assert status.value.code == 2 and message in capsys.readouterr().err
