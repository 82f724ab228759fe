"""Validation: the measures of what search would show."""

import numpy as np
import pytest

from rerank_plugin.files.records import Query
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.training.validation import HeldOut, Validation
from tests import small
from tests.training import learnable

HALF = Query("q1", "heart")
WHOLE = Query("q2", "aspirin")
JUDGMENTS = {"q1": {"MED-14": 1, "9": 1}, "q2": {"a7": 2}}


class Titles:
    """Long titles first; the ties are left to the rule."""

    name = "titles"

    def score(self, query, candidates):
        return candidates.title_lengths.astype(np.float32)


def test_by_hand(index):
    """Titles of 5 (MED-14), 4 (9), 1 (a7, MED-3; a7 comes first by decreasing id) and 0 (100) words.

    q1: MED-14 9 a7 MED-3 100: AP 1, P@5 2/5. q2, ranked alike: a7 is third: AP 1/3, P@5 1/5.
    """
    rows = index.rows(["MED-3", "100", "9", "a7", "MED-14"])
    candidates = {query.id: small.candidates(index, rows) for query in (HALF, WHOLE)}
    validation = Validation(HeldOut([HALF, WHOLE], JUDGMENTS, candidates), Titles(), ["P@5", "AP"])
    for _ in range(2):
        measures = validation()
        assert list(measures) == ["P@5", "AP"]
        assert measures["P@5"] == pytest.approx((2 / 5 + 1 / 5) / 2)
        assert measures["AP"] == pytest.approx((1 + 1 / 3) / 2)


def test_a_judged_query_without_candidates_counts_as_zero(index):
    candidates = {"q1": small.candidates(index, [8, 0]), "q2": small.candidates(index, [])}
    validation = Validation(HeldOut([HALF, WHOLE], JUDGMENTS, candidates), Titles(), ["AP"])
    assert validation()["AP"] == pytest.approx(0.5)


def test_the_scale_of_err(index):
    """q2's document of grade 2 at rank 3: gain (2^2 - 1) / 2^2 by its own judgments, / 2^4 on a scale up to 4."""
    candidates = {"q2": small.candidates(index, index.rows(["9", "a7", "MED-14"]))}
    for highest, gain in [(None, 3 / 4), (2, 3 / 4), (4, 3 / 16)]:
        held_out = HeldOut([WHOLE], {"q2": JUDGMENTS["q2"]}, candidates, highest)
        validation = Validation(held_out, Titles(), ["ERR@20"])
        assert validation()["ERR@20"] == pytest.approx(gain / 3)


def test_of_a_model(corpus):
    """The same as a measure that is written out plainly, over all documents and the held-out topics."""
    words = learnable.vectors()
    one = NeuralReranker(small.delta(words, seed=4), words.vocabulary, corpus)
    topics = learnable.TOPICS[learnable.TRAINED :]
    queries = learnable.queries(topics)
    judged = {query.id: learnable.judgments()[query.id] for query in queries}
    candidates = {query.id: small.candidates(corpus) for query in queries}
    expected = learnable.mean_average_precision(corpus, one, topics)
    assert 0 < expected < 1
    assert Validation(HeldOut(queries, judged, candidates), one, ["AP"])()["AP"] == pytest.approx(expected)
