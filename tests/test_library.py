"""The library's public names: there when they are used."""

import json
import re

import numpy as np
import pytest

import rerank_plugin as rp
from rerank_plugin import evaluate
from rerank_plugin.files.runs import RankedList
from tests.processes import ROOT, run
from tests.test_startup import HEAVY, imported


def test_every_public_name_is_there():
    assert [name for name in rp.__all__ if getattr(rp, name).__name__ != name] == []
    assert set(rp.__all__) <= set(dir(rp))


def test_type_checkers_read_the_same_names():
    stub = (ROOT / "rerank_plugin" / "__init__.pyi").read_text("utf-8")
    named = {name: module for module, name in re.findall(r"^from (\S+) import \w+ as (\w+)$", stub, re.MULTILINE)}
    assert named == rp._PUBLIC


def test_another_name_is_not():
    with pytest.raises(AttributeError, match="module 'rerank_plugin' has no attribute 'Sercher'"):
        rp.Sercher


def test_commands_and_folders_are_still_modules():
    code = "from rerank_plugin import *; from rerank_plugin import index, train, evaluate; print(train.__name__, rank)"
    assert run("-c", code).startswith("rerank_plugin.train <function rank")


def test_records_and_runs_need_no_torch_and_no_java():
    code = "import rerank_plugin as rp; rp.Query, rp.Document, rp.InputError, rp.read_run, rp.write_run, rp.Index"
    assert not imported(code) & HEAVY


def test_the_package_is_imported_at_once():
    code = "import time; t = time.perf_counter(); import rerank_plugin; print(time.perf_counter() - t)"
    assert min(float(run("-c", code)) for _ in range(3)) < 0.2


@pytest.fixture
def runs(tmp_path):
    made = {
        "good": {
            "1": RankedList(["a", "b", "c"], np.array([3, 2, 1], np.float32)),
            "2": RankedList(["d"], np.ones(1, np.float32)),
        },
        "bad": {"1": RankedList(["c", "b", "a"], np.array([3, 2, 1], np.float32))},
    }
    for name, ranked in made.items():
        rp.write_run(tmp_path / f"{name}.run", ranked, name)
    return tmp_path, made


QRELS = {"1": {"a": 2, "b": 1}, "2": {"d": 1}, "3": {"e": 1}}


def test_an_evaluation_is_what_the_command_prints(runs, capsys):
    folder, made = runs
    qrels = folder / "qrels.txt"
    qrels.write_text("".join(f"{query} 0 {id} {grade}\n" for query, of in QRELS.items() for id, grade in of.items()))
    paths = [str(folder / "good.run"), str(folder / "bad.run")]
    evaluate.main(["--qrels", str(qrels), *paths, "--format", "json", "--per-query", "--baseline", paths[1]])
    printed = json.loads(capsys.readouterr().out)
    assert rp.evaluate_runs(qrels, paths, baseline=paths[1], per_query=True) == printed
    named = rp.evaluate_runs(QRELS, {**made, "file": paths[0]}, ["nDCG@10", "AP"])
    assert named["runs"]["good"] == {name: printed["runs"][paths[0]][name] for name in ("nDCG@10", "AP")}
    assert named["runs"]["file"] == named["runs"]["good"] and "tests" not in named


def test_a_query_that_found_nothing_counts_as_0(runs):
    made = runs[1]["good"] | {"3": RankedList([], np.zeros(0, np.float32))}
    found = rp.evaluate_runs(QRELS, {"empty": made, "missing": runs[1]["good"]}, ["nDCG@10", "AP", "ERR@20", "NumRet"])
    assert found["runs"]["empty"] == found["runs"]["missing"]


def test_ids_and_grades_of_tables_are_read(runs, tmp_path):
    """Ids are whole numbers where a column has digits only; grades are numpy's, or texts as a file has them."""
    made, ids = runs[1]["good"], {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
    numbered = {
        int(query): RankedList([ids[id] for id in found.doc_ids], found.scores) for query, found in made.items()
    }
    expected = rp.evaluate_runs(QRELS, {"run": made}, ["nDCG@10", "AP", "P@5"])
    for id_type, grade_type in ((np.int64, np.int64), (int, str), (str, np.float32), (np.uint8, float)):
        qrels = {
            id_type(query): {id_type(ids[id]): grade_type(grade) for id, grade in judged.items()}
            for query, judged in QRELS.items()
        }
        assert rp.evaluate_runs(qrels, {"run": numbered}, ["nDCG@10", "AP", "P@5"]) == expected
    rp.write_run(tmp_path / "numbered.run", numbered, "t")
    assert rp.read_run(tmp_path / "numbered.run")["2"].doc_ids == ["4"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"qrels": {"1": {"a": "high"}}}, "qrels: query 1, document a: the grade 'high' is no finite number"),
        ({"qrels": {"1": {"a": np.nan}}}, "the grade nan is no finite number"),
        ({"qrels": {"1": ["a"]}}, "qrels are {query id: {document id: grade}}; found list"),
        ({"qrels": [("1", "a", 1)]}, "qrels are {query id: {document id: grade}}; found list"),
        ({"qrels": {1.5: {"a": 1}}}, "qrels: the id 1.5 is of type float: give a text"),
        ({"qrels": {"1": {"a": 1}, 1: {"b": 1}}}, "qrels: the id 1 is there as a text and as a number"),
        ({"qrels": "nowhere.txt"}, "nowhere.txt"),
        ({"runs": "a.run"}, "give [path] for a single run"),
        ({"runs": []}, "there is no run to evaluate"),
        ({"measures": "AP"}, "measures are a list of names: give ['AP']"),
        ({"measures": ["nDGC"]}, "measure 'nDGC': no such measure"),
        ({"baseline": "other"}, "the baseline other is not among the runs"),
        ({"alpha": 2}, "the level of significance 2 must be between 0 and 1"),
        ({"runs": {"good": "nowhere.run"}}, "nowhere.run"),
        ({"runs": {"good": {"1": {"a": 1.0}}}}, "good: a run is {query id: RankedList(doc_ids, scores)}; found dict"),
        ({"runs": {"good": 3}}, "good: a run is {query id: RankedList(doc_ids, scores)}; found int"),
    ],
)
def test_what_cannot_be_evaluated(runs, arguments, message):
    with pytest.raises(rp.InputError) as error:
        rp.evaluate_runs(**{"qrels": QRELS, "runs": runs[1], **arguments})
    assert message in str(error.value) and "--" not in str(error.value)


@pytest.mark.parametrize("run, found", [(None, "NoneType"), ([], "list"), ({"1": [rp.Query("a", "b")]}, "list")])
def test_what_is_no_run_is_not_written(tmp_path, run, found):
    with pytest.raises(rp.InputError, match=f"x.run: a run is .*; found {found}"):
        rp.write_run(tmp_path / "x.run", run, "t")
    assert not list(tmp_path.iterdir())


def test_an_index_of_records(tmp_path):
    documents = [rp.Document("1", "Statins", "An abstract."), rp.Document("2", "Aspirin", "")]
    index = rp.build_index(iter(documents), tmp_path / "index")
    assert len(index) == 2 and index.folder == tmp_path / "index" and index
    with pytest.raises(rp.InputError, match="exists already"):
        rp.build_index(documents, tmp_path / "index")
    assert len(rp.build_index(documents[:1], tmp_path / "index", overwrite=True)) == 1
    assert [hit.title for hit in rp.Searcher(tmp_path / "index").search("statins")] == ["Statins"]


@pytest.mark.parametrize(
    "corpus, message",
    [
        ("nowhere", "nowhere"),
        ([("1", "a", "b")], "a document is a record of id, title and abstract"),
        ([rp.Document("1", None, "b")], "a document is a record of id, title and abstract, which are texts"),
        ([rp.Document("a b", "a", "b")], "the document id 'a b' is empty, has white space"),
        ([], "no document to index"),
    ],
)
def test_what_cannot_be_indexed(tmp_path, corpus, message):
    with pytest.raises(rp.InputError) as error:
        rp.build_index(corpus, tmp_path / "index")
    assert message in str(error.value) and not (tmp_path / "index").exists()
