"""The command, as a user runs it."""

import json

import pytest

from rerank_plugin import options as commandline
from rerank_plugin.corpora import judgments
from rerank_plugin.evaluate import FORMATS, main
from rerank_plugin.files import tables
from tests.processes import attempt
from tests.test_startup import imported

QRELS = "q1 0 a 2\nq1 0 b 1\nq2 0 a 1\nq3 0 c 1\n"
GOOD = "q1 Q0 a 1 9 t\nq1 Q0 b 2 8 t\nq2 Q0 a 1 9 t\nq3 Q0 c 1 1 t\n"
BAD = "q1 Q0 x 1 9 t\nq1 Q0 b 2 8 t\nq2 Q0 x 1 9 t\nq2 Q0 a 2 8 t\nq9 Q0 a 1 1 t\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("qrels", QRELS), ("good.run", GOOD), ("bad.run", BAD)):
        (tmp_path / name).write_text(text)
    return tmp_path


def reader(main, capsys):
    """A function: the lines of a command on stdout and stderr, against the judgments ``qrels``."""

    def run(line, qrels="qrels"):
        main(["--qrels", qrels, *line.split()])
        return [text.splitlines() for text in capsys.readouterr()]

    return run


@pytest.fixture
def printed(folder, capsys):
    return reader(main, capsys)


@pytest.fixture
def result(printed):
    """The JSON that the command prints."""
    return lambda line, **more: json.loads("".join(printed(f"{line} --format json", **more)[0]))


def test_results_go_to_stdout_and_reports_to_stderr(folder):
    line = "evaluate --qrels qrels good.run bad.run --baseline bad.run --format json --measures AP RR@10"
    status, out, err = attempt(folder, line)
    assert status == 0
    result = json.loads(out)
    assert result["queries"] == 3
    assert result["runs"]["good.run"] == {"AP": 1.0, "RR@10": 1.0}
    # bad.run: q1 (1/2)/2 and 1/2, q2 1/2 and 1/2, q3 missing
    assert result["runs"]["bad.run"] == pytest.approx({"AP": 0.25, "RR@10": 1 / 3})
    assert result["tests"]["baseline"] == "bad.run" and list(result["tests"]["runs"]) == ["good.run"]
    assert result["reported"]["bad.run"] == {"missing": ["q3"], "unjudged": ["q9"], "unmatched": []}
    assert err.splitlines() == [
        "bad.run: 1 of 3 judged queries are missing and count as 0: q3",
        "bad.run: 1 queries without judgments are left out: q9",
    ]


@pytest.mark.parametrize(
    "arguments, culprit",
    [
        ("qrels none.run", "none.run"),
        ("none good.run", "none"),
        ("qrels good.run --measures nDGC@10", "'nDGC@10'"),
        ("qrels good.run --baseline other.run", "other.run"),
        ("qrels good.run good.run", "good.run: is given twice"),
        ("qrels good.run ./good.run", "./good.run: is given twice"),
        ("qrels broken.run", "broken.run:2: "),
        ("qrels strange.run", "strange.run: none of its 1 queries"),
        ("qrels prefixed.run", "prefixed.run: none of its documents (PMID:a, ...) is judged ("),
        ("broken.run good.run", "broken.run"),
        ("qrels good.run --output qrels/report", "qrels/report: cannot be written"),
    ],
)
def test_bad_input_is_one_line_and_status_2(folder, arguments, culprit, capsys):
    (folder / "broken.run").write_text("q1 Q0 a 1 9 t\nq1 Q0 b 2 nan t\n")
    (folder / "strange.run").write_text("77 Q0 a 1 9 t\n")
    (folder / "prefixed.run").write_text("q1 Q0 PMID:a 1 9 t\n")
    with pytest.raises(SystemExit) as caught:
        commandline.run(main, ["--qrels", *arguments.split()])
    out, err = capsys.readouterr()
    assert caught.value.code == 2 and out == ""
    assert err.count("\n") == 1 and err.startswith("error: ") and culprit in err


@pytest.mark.parametrize("baseline", ["bad.run", "./bad.run"])
def test_a_baseline_from_outside_goes_first(printed, baseline):
    lines, _ = printed(f"good.run --baseline {baseline} --measures AP")
    assert [line.split()[0] for line in lines[:3]] == ["run", baseline, "good.run"]


def test_a_baseline_among_the_runs_stays_where_it_is(printed):
    lines, _ = printed("good.run bad.run --baseline ./bad.run --measures AP --format csv")
    assert [line.split(",")[0] for line in lines] == ["run", "good.run", "bad.run"]
    assert lines[2].endswith(",,,")


def test_default_measures_formats_and_output(folder, printed):
    assert printed("good.run --format markdown --per-query --output new/report.md")[0] == []
    text = (folder / "new" / "report.md").read_text()
    assert text.startswith("| run | nDCG@10 | nDCG@20 | NDCG.20 | AP | P@5 | R@500 |\n")
    assert "| good.run | q3 | 1.0000 | 1.0000 | 1.0000 | 1.0000 | 0.2000 | 1.0000 |\n" in text
    assert tables.FORMATS == FORMATS  # every format of the option exists


def test_the_scale_of_err(printed):
    for more, expected in (("", (3 + 1 + 1) / 4 / 3), ("--highest-grade 4", (3 + 1 + 1) / 16 / 3)):
        lines, _ = printed(f"good.run --measures ERR@1 --format csv {more}")
        assert float(lines[-1].split(",")[-1]) == pytest.approx(expected)


def test_the_agreement_with_the_baseline(folder, printed, result):
    (folder / "other.run").write_text("q1 Q0 b 1 2 t\nq1 Q0 x 2 1 t\nq1 Q0 a 3 0 t\n")
    line = "other.run --baseline good.run --agreement --measures P@1"
    assert ["other.run", "-1.0000", "0.6667", "1"] in [row.split() for row in printed(line)[0]]
    assert result(line)["agreement"] == {
        "other.run": {"kendall_tau": -1, "same_top_10": pytest.approx(2 / 3), "queries": 1}
    }


def test_the_same_measure_twice_is_shown_once(printed):
    assert printed("good.run --measures AP AP MAP")[0][0].split() == ["run", "AP", "MAP"]


def test_the_sample_has_judgments(folder, result):
    judged = judgments("sample:test")
    lines = [f"{q} Q0 {d} 1 {grade} t" for q, of_query in judged.items() for d, grade in of_query.items()]
    (folder / "ideal.run").write_text("\n".join(lines))
    found = result("ideal.run --measures nDCG@10 NDCG.20", qrels="sample:test")
    assert found["queries"] == len(judged) and found["runs"]["ideal.run"] == {"nDCG@10": 1.0, "NDCG.20": 1.0}


@pytest.mark.parametrize("command", ["evaluate", "clicks.__main__"])
def test_help_needs_nothing_heavy(command):
    code = f"from rerank_plugin.{command} import arguments; arguments().format_help()"
    assert not {"numpy", "scipy", "ir_measures", "pytrec_eval", "torch", "pandas"} & imported(code)


@pytest.mark.parametrize(
    "arguments, culprit",
    [
        ("", "RUN"),
        ("good.run --agreement", "--agreement needs --baseline"),
        *((f"good.run --alpha {alpha}", "--alpha") for alpha in ("0", "1", "x", "nan")),
    ],
)
def test_options_that_need_or_exclude_one_another(folder, arguments, culprit, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--qrels", "qrels", *arguments.split()])
    assert caught.value.code == 2 and culprit in capsys.readouterr().err
