"""Judged documents as candidates, as a user asks for them: --first-stage judged:J and --judged-only J."""

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.run_writer import RunWriter
from rerank_plugin.files.runs import read_run
from rerank_plugin.search import main
from tests.test_startup import imported

QRELS = "q1 0 a 1\nq1 0 b 0\nq1 0 B 2\nq2 0 77 1\nq2 0 nobody 1\n"


@pytest.fixture
def workspace(tmp_path, monkeypatch, index_folder):
    """A folder with queries, judgments and a run over the documents of conftest."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qrels").write_text(QRELS)
    (tmp_path / "q.tsv").write_text("q1\tstroke\nq2\theart failure\nq3\tmalaria\n")
    (tmp_path / "a.run").write_text("q1 Q0 1 1 9 t\nq1 Q0 B 2 8 t\nq1 Q0 a 3 7 t\nq2 Q0 2 1 9 t\nq3 Q0 2 1 9 t\n")
    return tmp_path


def search(index_folder, *arguments):
    main(["--index", str(index_folder), "--queries", "q.tsv", "--output", "out.run", "--overwrite", *arguments])
    return {query: ranking.doc_ids for query, ranking in read_run("out.run").items()}


def test_the_judged_documents_by_decreasing_id(workspace, index_folder, capsys):
    run = search(index_folder, "--first-stage", "judged:qrels", "--depth", "1")
    assert run == {"q1": ["b", "a", "B"], "q2": ["77"]}
    assert [line.split()[-1] for line in open("out.run")] == ["judged"] * 4
    assert capsys.readouterr().err.splitlines() == [
        "qrels: 1 of 5 judged documents are not in the index and are left out, as nobody",
        "1 queries found no document: q3",
    ]


def test_the_judged_documents_re_ranked(workspace, index_folder):
    run = search(index_folder, "--first-stage", "judged:qrels", "--reranker", "bm25-title")
    # b's title is the shorter of the two with the word; a has it in its abstract only
    assert run["q1"] == ["b", "B", "a"]


def test_the_judged_documents_of_a_run_and_of_a_first_stage(workspace, index_folder):
    assert search(index_folder, "--run", "a.run", "--judged-only", "qrels") == {"q1": ["B", "a"]}
    assert {line.split()[-1] for line in open("out.run")} == {"judged-only"}
    assert search(index_folder, "--run", "a.run", "--judged-only", "qrels", "--depth", "2") == {"q1": ["B"]}
    assert search(index_folder, "--judged-only", "qrels").keys() == {"q1", "q2"}


def test_judged_documents_need_no_java(workspace, index_folder):
    """In a Python of its own: here the tests' Java may run already."""
    line = f"--index {index_folder} --queries q.tsv --output o.run --first-stage judged:qrels --reranker bm25-title"
    modules = imported(f"from rerank_plugin.search import main; main({line.split()!r})")
    assert not {"jnius", "pyserini"} & modules and (workspace / "o.run").exists()


def test_other_judgments_are_other_settings(workspace, index_folder, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(RunWriter, "write_ranked", stop)
        with pytest.raises(KeyboardInterrupt):
            search(index_folder, "--first-stage", "judged:qrels")
    with pytest.raises(InputError, match='judgments was "qrels" and is "./qrels"'):
        search(index_folder, "--first-stage", "judged:./qrels", "--resume")
    assert search(index_folder, "--first-stage", "judged:qrels", "--resume").keys() == {"q1", "q2"}


RUN = "--queries q.tsv --output o --run a.run"


@pytest.mark.parametrize(
    "arguments, culprit",
    [
        ("--query stroke --first-stage judged:qrels", "--query has no judgments"),
        ("--query stroke --judged-only qrels", "--query has no judgments"),
        (RUN, "--run needs --reranker or --judged-only"),
        ("--queries q.tsv --output o --first-stage judged:", "'judged:' needs judgments: judged:JUDGMENTS"),
        (f"{RUN} --reranker docid --first-stage judged:q", "give --judged-only J instead"),
        (f"{RUN} --judged-only qrels --fuse qld", "run:RUN"),
    ],
)
def test_options_that_need_or_exclude_one_another(workspace, index_folder, refused, arguments, culprit):
    assert culprit in refused(f"search --index {index_folder} {arguments}")
