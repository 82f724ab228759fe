"""The documents of a given run as candidates."""

import numpy as np
import pytest

from rerank_plugin.corpora import Query
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.runs import RankedList, write_run
from rerank_plugin.retrieval.given_run import GivenRun
from rerank_plugin.retrieval.register import configure

RUN = {
    "q1": (["MED-1", "b", "100", "x.2"], np.array([4.0, 3.0, 2.0, 1.0], np.float32)),
    "q2": (["MED-1", "nobody", "b", "noone"], np.array([4.0, 3.0, 2.0, 1.0], np.float32)),
}


@pytest.fixture(scope="module")
def given(index):
    return GivenRun(RUN, index.forward, "some.run")


def test_candidates_of_a_run(given):
    found = given.search(Query("q1", "anything"), 3)
    assert found.ids == ["MED-1", "b", "100"]
    assert found.first_stage_scores.tolist() == [4.0, 3.0, 2.0]
    assert len(given.search(Query("q3", "not in the run"), 3)) == 0


def test_a_run_of_another_collection_is_refused(given):
    with pytest.raises(InputError, match="some.run: query q2 ranks 2 documents .* first 'nobody'"):
        given.search(Query("q2", "x"), 10)
    assert given.search(Query("q2", "x"), 1).ids == ["MED-1"]  # beyond the depth: unread


def test_a_run_by_name(index, given, tmp_path):
    write_run(tmp_path / "a.run", {"q1": RankedList(*RUN["q1"])}, "t")
    found = index.first_stage(configure(f"run:{tmp_path}/a.run")).search(Query("q1", "x"), 3)
    assert found.ids == given.search(Query("q1", "x"), 3).ids
