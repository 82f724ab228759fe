"""The command, as a user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rerank_plugin
from rerank_plugin.evaluate import FORMATS, main
from rerank_plugin.evaluation import report

QRELS = "q1 0 a 2\nq1 0 b 1\nq2 0 a 1\nq3 0 c 1\n"
GOOD = "q1 Q0 a 1 9 t\nq1 Q0 b 2 8 t\nq2 Q0 a 1 9 t\nq3 Q0 c 1 1 t\n"
BAD = "q1 Q0 x 1 9 t\nq1 Q0 b 2 8 t\nq2 Q0 x 1 9 t\nq2 Q0 a 2 8 t\nq9 Q0 a 1 1 t\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("qrels", QRELS), ("good.run", GOOD), ("bad.run", BAD)):
        (tmp_path / name).write_text(text)
    return tmp_path


def python(*arguments, folder=None):
    """Another Python that finds the package, installed or not."""
    environment = {**os.environ, "PYTHONPATH": str(Path(rerank_plugin.__file__).parents[1])}
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True)


def command(folder, *arguments):
    return python("-m", "rerank_plugin.evaluate", *arguments, folder=folder)


def test_results_go_to_stdout_and_reports_to_stderr(folder):
    done = command(
        folder, "--qrels", "qrels", "good.run", "bad.run", "--baseline", "bad.run", "--format", "json",
        "--measures", "AP", "RR@10",
    )  # fmt: skip
    assert done.returncode == 0
    result = json.loads(done.stdout)
    assert result["queries"] == 3
    assert result["runs"]["good.run"] == {"AP": 1.0, "RR@10": 1.0}
    # bad.run: q1 (1/2)/2 and 1/2, q2 1/2 and 1/2, q3 missing
    assert result["runs"]["bad.run"] == pytest.approx({"AP": 0.25, "RR@10": 1 / 3})
    assert result["tests"]["baseline"] == "bad.run" and list(result["tests"]["runs"]) == ["good.run"]
    assert result["reported"]["bad.run"] == {"missing": ["q3"], "unjudged": ["q9"]}
    assert done.stderr.splitlines() == [
        "bad.run: 1 of 3 judged queries are missing and count as 0: q3",
        "bad.run: 1 queries without judgments are left out: q9",
    ]


@pytest.mark.parametrize(
    "arguments, culprit",
    [
        (["--qrels", "qrels", "none.run"], "none.run"),
        (["--qrels", "none", "good.run"], "none"),
        (["--qrels", "qrels", "good.run", "--measures", "nDGC@10"], "'nDGC@10'"),
        (["--qrels", "qrels", "good.run", "--measures", "P@0"], "'P@0'"),
        (["--qrels", "qrels", "good.run", "--baseline", "other.run"], "other.run"),
        (["--qrels", "qrels", "good.run", "good.run"], "good.run: is given twice"),
        (["--qrels", "qrels", "good.run", "./good.run"], "./good.run: is given twice"),
        (["--qrels", "qrels", "broken.run"], "broken.run:2: "),
        (["--qrels", "qrels", "strange.run"], "strange.run: none of its 1 queries"),
        (["--qrels", "broken.run", "good.run"], "broken.run"),
        (["--qrels", "qrels", "good.run", "--output", "qrels/report"], "qrels/report: cannot be written"),
    ],
)
def test_bad_input_is_one_line_and_status_2(folder, arguments, culprit):
    (folder / "broken.run").write_text("q1 Q0 a 1 9 t\nq1 Q0 b 2 nan t\n")
    (folder / "strange.run").write_text("77 Q0 a 1 9 t\n")
    done = command(folder, *arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("error: ") and culprit in done.stderr


@pytest.mark.parametrize("alpha", ["0", "1", "x", "nan"])
def test_bad_alpha(folder, alpha, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--qrels", "qrels", "good.run", "--alpha", alpha])
    assert caught.value.code == 2 and "--alpha" in capsys.readouterr().err


@pytest.mark.parametrize("baseline", ["bad.run", "./bad.run"])
def test_a_baseline_from_outside_goes_first(folder, capsys, baseline):
    main(["--qrels", "qrels", "good.run", "--baseline", baseline, "--measures", "AP"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["run", baseline, "good.run"]


def test_a_baseline_among_the_runs_stays_where_it_is(folder, capsys):
    main(["--qrels", "qrels", "good.run", "bad.run", "--baseline", "./bad.run", "--measures", "AP", "--format", "csv"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == ["run", "good.run", "bad.run"]
    assert lines[2].endswith(",,,")


def test_default_measures_formats_and_output(folder, capsys):
    main(["--qrels", "qrels", "good.run", "--format", "markdown", "--per-query", "--output", "new/report.md"])
    assert capsys.readouterr().out == ""
    text = (folder / "new" / "report.md").read_text()
    assert text.startswith("| run | nDCG@10 | nDCG@20 | NDCG.20 | AP | P@5 | R@500 |\n")
    assert "| good.run | q3 | 1.0000 | 1.0000 | 1.0000 | 1.0000 | 0.2000 | 1.0000 |\n" in text


def test_the_formats_offered_are_those_there_are():
    assert FORMATS == tuple(report.FORMATS)


def test_the_same_measure_twice_is_shown_once(folder, capsys):
    main(["--qrels", "qrels", "good.run", "--measures", "AP", "AP", "MAP"])
    assert capsys.readouterr().out.splitlines()[0].split() == ["run", "AP", "MAP"]


def test_the_sample_has_judgments(folder, capsys):
    from rerank_plugin.corpora import judgments

    judged = judgments("sample:test")
    lines = [f"{q} Q0 {d} 1 {grade} t" for q, of_query in judged.items() for d, grade in of_query.items()]
    (folder / "ideal.run").write_text("\n".join(lines))
    main(["--qrels", "sample:test", "ideal.run", "--measures", "nDCG@10", "NDCG.20", "--format", "json"])
    result = json.loads(capsys.readouterr().out)
    assert result["queries"] == len(judged) and result["runs"]["ideal.run"] == {"nDCG@10": 1.0, "NDCG.20": 1.0}


def test_help_needs_nothing_heavy():
    code = (
        "import sys, runpy\n"
        "sys.argv = ['evaluate', '--help']\n"
        "try: runpy.run_module('rerank_plugin.evaluate', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'scipy', 'ir_measures', 'pytrec_eval', 'torch', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert "--baseline" in done.stdout
