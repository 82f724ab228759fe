"""Validation: the measures of what search would show."""

import numpy as np
import pytest

from rerank_plugin.base.records import Query
from rerank_plugin.files.runs import RankedList
from rerank_plugin.training.validation import HeldOut, Validation, accuracy
from tests import small

HALF = Query("q1", "heart")
WHOLE = Query("q2", "aspirin")
JUDGMENTS = {"q1": {"MED-14": 1, "9": 1}, "q2": {"a7": 2}}


class Titles:
    """Long titles first; the ties are left to the rule."""

    name = "titles"

    def score(self, query, candidates):
        return candidates.title_lengths.astype(np.float32)


def measured(candidates, measures, judged=JUDGMENTS, highest=None):
    queries = [query for query in (HALF, WHOLE) if query.id in judged]
    return Validation(HeldOut(queries, judged, candidates, highest), Titles(), measures)


def test_by_hand(index):
    """Titles of 5 (MED-14), 4 (9), 1 (a7, MED-3; a7 comes first by decreasing id) and 0 (100) words.

    q1: MED-14 9 a7 MED-3 100: AP 1, P@5 2/5. q2, ranked alike: a7 is third: AP 1/3, P@5 1/5.
    """
    rows = index.rows(["MED-3", "100", "9", "a7", "MED-14"])
    validation = measured({id: small.candidates(index, rows) for id in JUDGMENTS}, ["P@5", "AP"])
    for _ in range(2):
        measures = validation()
        assert list(measures) == ["P@5", "AP"]
        assert measures == pytest.approx({"P@5": (2 / 5 + 1 / 5) / 2, "AP": (1 + 1 / 3) / 2})


def test_a_judged_query_without_candidates_counts_as_zero(index):
    candidates = {"q1": small.candidates(index, [8, 0]), "q2": small.candidates(index, [])}
    assert measured(candidates, ["AP"])()["AP"] == pytest.approx(0.5)


def test_accuracy_weighs_both_kinds_alike():
    """Of relevant documents one of two has a score above 0, of the others two of three have none."""
    run = {"q1": RankedList(["a", "b", "c"], np.array([2, 0.5, -1], np.float32))}
    run["q2"] = RankedList(["d", "e"], np.array([0, -3], np.float32))
    judgments = {"q1": {"a": 1, "b": 0}, "q2": {"e": 2}}
    assert accuracy(run, judgments) == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert np.isnan(accuracy(run, {"q1": {"a": 0}}))


def test_accuracy_decides_where_it_stands_first(index):
    candidates = {id: small.candidates(index, index.rows(["9", "a7", "100"])) for id in JUDGMENTS}
    measures = measured(candidates, ["accuracy", "AP"])()
    assert list(measures) == ["accuracy", "AP"] and measures["accuracy"] == (1 + 2 / 4) / 2  # 100 has no title


@pytest.mark.parametrize(("highest", "gain"), [(None, 3 / 4), (2, 3 / 4), (4, 3 / 16)])
def test_the_scale_of_err(index, highest, gain):
    """q2's document of grade 2 at rank 3: gain (2^2 - 1) / 2^2 by its own judgments, / 2^4 on a scale up to 4."""
    candidates = {"q2": small.candidates(index, index.rows(["9", "a7", "MED-14"]))}
    measures = measured(candidates, ["ERR@20"], {"q2": JUDGMENTS["q2"]}, highest)()
    assert measures["ERR@20"] == pytest.approx(gain / 3)
