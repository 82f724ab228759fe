"""Rerankers distilled from a sentence encoder: its grades against a plain computation, and the command."""

import json

import numpy as np
import pytest

import rerank_plugin as rp
from rerank_plugin import distill
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.rerankers import load
from rerank_plugin.retrieval.register import configure
from rerank_plugin.training.teacher_grades import TeacherGrades
from tests.conftest import DOCUMENTS
from tests.training.commanded import validation_killed, weights_of

QUERIES = {"q1": "stroke", "q2": "malaria in children", "q3": "cholesterol", "q4": "breast cancer"}
JUDGED = {"v1": ("heart attack", "1"), "v2": ("statins and muscle pain", "MED-10")}


QUERY_LIST = [Query(id, text) for id, text in QUERIES.items()]


@pytest.fixture(scope="module")
def collection(index_folder):
    return Index(index_folder)


@pytest.fixture(scope="module")
def candidates(collection):
    stage = collection.first_stage(configure("bm25"))
    return {query.id: stage.search(query, 5) for query in QUERY_LIST}


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_grades_are_the_cosines_and_the_scores_of_the_first_stage(minilm, collection, candidates, weight):
    grades = TeacherGrades(minilm, weight)(collection.forward, QUERY_LIST, candidates)
    texts = {doc.id: f"{doc.title} {doc.abstract}".strip() for doc in DOCUMENTS}
    for query in QUERY_LIST:
        graded = candidates[query.id]
        vectors = minilm.model.encode([query.text, *(texts[id] for id in graded.ids)])
        parts = np.stack([vectors[1:] @ vectors[0], graded.first_stage_scores])
        parts = (parts - parts.min(axis=1)[:, None]) / np.ptp(parts, axis=1)[:, None]
        expected = dict(zip(graded.ids, weight * parts[0] + (1 - weight) * parts[1]))
        assert len(expected) > 1 and grades[query.id] == pytest.approx(expected, abs=0.01)  # vectors of half precision


def test_a_reranker_can_give_the_rest_of_the_grade(minilm, collection, candidates):
    """Each document has its own score, also beside the teacher's, and not that of the first stage."""
    graded, rest = candidates["q1"], {}
    scores = load("bm25-title", collection.forward).score(QUERY_LIST[0], graded)
    expected = dict(zip(graded.ids, (scores - scores.min()) / np.ptp(scores)))
    teachers, own, rest, both = (
        TeacherGrades(minilm, *how)(collection.forward, QUERY_LIST[:1], candidates)["q1"]
        for how in ((1.0,), (0.0,), (0.0, "bm25-title"), (0.4, "bm25-title"))
    )
    assert rest == pytest.approx(expected) and rest != pytest.approx(own, abs=0.1)
    assert both == pytest.approx({id: 0.4 * teachers[id] + 0.6 * grade for id, grade in expected.items()})


def test_a_weight_beyond_one_is_refused(minilm):
    with pytest.raises(InputError, match="weight 1.5"):
        TeacherGrades(minilm, 1.5)


@pytest.fixture
def command(minilm, index_folder, tmp_path):
    """Options of a distillation on the small index."""
    (tmp_path / "queries.tsv").write_text("".join(f"{id}\t{text}\n" for id, text in QUERIES.items()))
    (tmp_path / "judged.tsv").write_text("".join(f"{id}\t{text}\n" for id, (text, _) in JUDGED.items()))
    (tmp_path / "judged.qrels").write_text("".join(f"{id} 0 {document} 1\n" for id, (_, document) in JUDGED.items()))
    return (
        f"--index {index_folder} --queries {tmp_path}/queries.tsv --validation {tmp_path}/judged.tsv,"
        f"{tmp_path}/judged.qrels --cache {minilm.cache} --depth 20 --epochs 2 --output {tmp_path}/student --student"
    ).split()


@pytest.mark.parametrize("student", ["delta", "pacrr"])
def test_the_command_makes_a_reranker(command, tmp_path, index_folder, student, capsys):
    distill.main([*command, student])
    assert "best epoch" in capsys.readouterr().out
    made = json.loads((tmp_path / "student" / "config.json").read_text())
    assert (made["model"], made["training"]["loss"], made["training"]["teacher_weight"]) == (student, "margin", 0.5)
    epochs = [json.loads(line) for line in (tmp_path / "student" / "log.jsonl").read_text().splitlines()]
    assert epochs[1]["loss"] < epochs[0]["loss"]
    with rp.Searcher(index_folder, reranker=str(tmp_path / "student")) as searcher:
        assert len(searcher.search("stroke")) > 1


def test_resuming(command, tmp_path):
    distill.main([*command, "delta"])
    expected = weights_of(tmp_path / "student")
    command[command.index("--output") + 1] = str(tmp_path / "again")
    with pytest.MonkeyPatch.context() as patch, validation_killed(patch, 2):
        distill.main([*command, "delta"])
    distill.main([*command, "delta", "--resume"])
    assert weights_of(tmp_path / "again") == expected


@pytest.mark.parametrize("left_out", ["index", "queries", "validation"])
def test_missing_inputs_are_named(command, left_out, capsys):
    at = command.index(f"--{left_out}")
    with pytest.raises(SystemExit):
        distill.main([*command[:at], *command[at + 2 :], "delta"])
    assert f"the student delta needs --{left_out}" in capsys.readouterr().err
