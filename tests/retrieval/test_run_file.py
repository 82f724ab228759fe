"""Candidates that are given: the documents of a run, and judged ones, also as a filter of other candidates."""

import logging

import numpy as np
import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Query
from rerank_plugin.files.runs import RankedList, write_run
from rerank_plugin.ranking.pipeline import rank
from rerank_plugin.retrieval.judged import JudgedDocuments, JudgedOnly, judged_rows
from rerank_plugin.retrieval.register import configure
from rerank_plugin.retrieval.run_file import RunFile

RUN = {
    "q1": (["MED-1", "b", "100", "x.2"], np.array([4.0, 3.0, 2.0, 1.0], np.float32)),
    "q2": (["MED-1", "nobody", "b", "noone"], np.array([4.0, 3.0, 2.0, 1.0], np.float32)),
}
JUDGMENTS = {"q1": {"10": 0, "b": 2, "é": -1, "B": 0.5, "aa": 1, "nobody": 1}, "q2": {"1": 1, "noone": 0, "nobody": 0}}


@pytest.fixture(scope="module")
def given(index):
    return RunFile(RUN, index.forward, "some.run")


def test_candidates_of_a_run(given):
    candidates = given.search(Query("q1", "anything"), 3)
    assert candidates.ids == ["MED-1", "b", "100"]
    assert candidates.first_stage_scores.tolist() == [4.0, 3.0, 2.0]
    assert len(given.search(Query("q3", "not in the run"), 3)) == 0


def test_a_run_of_another_collection_is_refused(given):
    with pytest.raises(InputError, match="some.run: query q2 ranks 2 documents .* first 'nobody'"):
        given.search(Query("q2", "x"), 10)
    assert given.search(Query("q2", "x"), 1).ids == ["MED-1"]  # beyond the depth: unread


def test_a_run_of_other_queries_is_refused(index):
    given = RunFile({query: RankedList(*ranked) for query, ranked in RUN.items()}, index.forward, "some.run")
    searched = [Query("q2", "x"), Query("q3", "x")]
    assert given.below(searched, 3) == (1, 4) and given.below([], 3) == (0, 0)
    with pytest.raises(InputError, match=r"some.run: none of its 2 queries \(q1, ...\) is searched \(q3, ...\)"):
        given.below(searched[1:], 3)


def test_a_run_by_name(index, given, tmp_path):
    write_run(tmp_path / "a.run", {"q1": RankedList(*RUN["q1"])}, "t")
    candidates = index.first_stage(configure(f"run:{tmp_path}/a.run")).search(Query("q1", "x"), 3)
    assert candidates.ids == given.search(Query("q1", "x"), 3).ids


def test_candidates_by_judgments_stand_by_decreasing_id(index, caplog):
    with caplog.at_level(logging.WARNING):
        stage = JudgedDocuments(JUDGMENTS, index.forward, "some.qrels")
    assert caplog.messages == ["some.qrels: 2 of 8 judged documents are not in the index and are left out, as noone"]
    candidates = stage.search(Query("q1", "anything"), 1)
    assert candidates.ids == ["é", "b", "aa", "B", "10"]
    assert candidates.first_stage_scores.tolist() == [0.0] * 5 and candidates.first_stage_scores.dtype == np.float32
    assert rank(Query("q1", "x"), candidates, None).doc_ids == candidates.ids
    assert stage.search(Query("q2", "x"), 1).ids == ["1"]
    assert len(stage.search(Query("q3", "not judged"), 1)) == 0


@pytest.mark.parametrize("judgments", [{"q": {"nobody": 1, "noone": 1}}, {}])
def test_judgments_of_another_collection_are_refused(index, judgments):
    with pytest.raises(InputError, match="some.qrels: none of its . judged documents is in the index"):
        JudgedDocuments(judgments, index.forward, "some.qrels")


def test_judged_candidates_keep_their_scores_and_order(index, given):
    judgments = {"q1": {"100": 0, "MED-1": 1, "aa": 1}, "q2": {"1": 1}}
    stage = JudgedOnly(given, judged_rows(judgments, index.forward, "some.qrels"))
    candidates = stage.search(Query("q1", "x"), 3)
    assert candidates.ids == ["MED-1", "100"] and candidates.first_stage_scores.tolist() == [4.0, 2.0]
    assert len(stage.search(Query("q3", "not in the run"), 3)) == 0
    assert stage.search(Query("q1", "x"), 2).ids == ["MED-1"]  # the depth cuts first
