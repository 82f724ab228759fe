"""Judged documents as candidates, and as a filter of other candidates."""

import logging

import numpy as np
import pytest

from rerank_plugin.corpora import Query
from rerank_plugin.files.errors import InputError
from rerank_plugin.ranking.pipeline import rank
from rerank_plugin.retrieval.given_run import GivenRun
from rerank_plugin.retrieval.judged import JudgedDocuments, JudgedOnly, judged_rows

RUN = {"q1": (["MED-1", "b", "100", "x.2"], np.array([4.0, 3.0, 2.0, 1.0], np.float32))}
JUDGMENTS = {"q1": {"10": 0, "b": 2, "é": -1, "B": 0.5, "aa": 1, "nobody": 1}, "q2": {"1": 1, "noone": 0, "nobody": 0}}


def test_candidates_by_judgments_stand_by_decreasing_id(index, caplog):
    with caplog.at_level(logging.WARNING):
        stage = JudgedDocuments(JUDGMENTS, index.forward, "some.qrels")
    assert caplog.messages == ["some.qrels: 2 of 8 judged documents are not in the index and are left out, as noone"]
    found = stage.search(Query("q1", "anything"), 1)
    assert found.ids == ["é", "b", "aa", "B", "10"]
    assert found.first_stage_scores.tolist() == [0.0] * 5 and found.first_stage_scores.dtype == np.float32
    assert rank(Query("q1", "x"), found, None).doc_ids == found.ids
    assert stage.search(Query("q2", "x"), 1).ids == ["1"]
    assert len(stage.search(Query("q3", "not judged"), 1)) == 0


def test_no_depth_cuts_judged_candidates(index, documents):
    everything = {"q": {document.id: 0 for document in documents}}
    found = JudgedDocuments(everything, index.forward, "all").search(Query("q", "x"), 1)
    assert found.ids == sorted((document.id for document in documents), key=str.encode, reverse=True)


@pytest.mark.parametrize("judgments", [{"q": {"nobody": 1, "noone": 1}}, {}])
def test_judgments_of_another_collection_are_refused(index, judgments):
    with pytest.raises(InputError, match="some.qrels: none of its . judged documents is in the index"):
        JudgedDocuments(judgments, index.forward, "some.qrels")


def test_judged_candidates_keep_their_scores_and_order(index):
    judgments = {"q1": {"100": 0, "MED-1": 1, "aa": 1}, "q2": {"1": 1}}
    stage = JudgedOnly(GivenRun(RUN, index.forward, "some.run"), judged_rows(judgments, index.forward, "some.qrels"))
    found = stage.search(Query("q1", "x"), 3)
    assert found.ids == ["MED-1", "100"] and found.first_stage_scores.tolist() == [4.0, 2.0]
    assert len(stage.search(Query("q3", "not in the run"), 3)) == 0
    assert stage.search(Query("q1", "x"), 2).ids == ["MED-1"]  # the depth cuts first
