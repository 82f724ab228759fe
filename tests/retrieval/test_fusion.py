"""Fusion of ranked lists: worked by hand, against plain loops over dictionaries, and as a first stage."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.retrieval.fusion import FusedStage, FusionConfig, lists_weights, table
from tests import small


def plain_rrf(lists, weights, k):
    """{document: score} of lists [(document, score), ...] in rank order."""
    total = {}
    for ranked, weight in zip(lists, weights):
        for rank, (document, _) in enumerate(ranked, 1):
            total[document] = total.get(document, 0.0) + weight / (k + rank)
    return total


def plain_linear(lists, weights):
    total = {document: 0.0 for ranked in lists for document, _ in ranked}
    for ranked, weight in zip(lists, weights):
        if not ranked:
            continue
        lowest, highest = min(score for _, score in ranked), max(score for _, score in ranked)
        for document, score in ranked:
            total[document] += weight * ((score - lowest) / (highest - lowest) if highest > lowest else 1.0)
    return total


def plain_raw(lists, weights):
    documents = {document for ranked in lists for document, _ in ranked}
    return {
        document: sum(
            weight * dict(ranked).get(document, min((score for _, score in ranked), default=0.0))
            for ranked, weight in zip(lists, weights)
        )
        for document in documents
    }


def fused(lists, method, weights, k=60.0):
    keys = [np.array([document for document, _ in ranked], np.int64) for ranked in lists]
    scores = [np.array([score for _, score in ranked], np.float32) for ranked in lists]
    found = table(keys, scores, method, k)
    return dict(zip(found.keys.tolist(), found.scores(weights).tolist()))


A = [(7, 9.0), (3, 5.0), (4, 1.0)]
B = [(3, 0.8), (5, 0.6)]


def test_sums_are_rounded_once():
    """1 and twice 2**-24: added in single precision, each of these would be lost."""
    lists = [[(7, 5.0)], [(7, 3.0)], [(7, 1.0)]]  # of one document: 1 in each
    assert fused(lists, "linear", (1.0, 2.0**-24, 2.0**-24)) == {7: 1 + 2.0**-23}


def test_reciprocal_ranks_by_hand():
    """Document 3 is second in A and first in B: 1/62 + 1/61."""
    expected = {7: 1 / 61, 3: 1 / 62 + 1 / 61, 4: 1 / 63, 5: 1 / 62}
    assert fused([A, B], "rrf", (1.0, 1.0)) == pytest.approx(expected, rel=1e-6)
    assert fused([A, B], "rrf", (2.0, 0.5), k=0.0) == pytest.approx({7: 2.0, 3: 1.5, 4: 2 / 3, 5: 0.25}, rel=1e-6)


def test_interpolation_by_hand():
    """A becomes 1, 0.5 and 0, B becomes 1 and 0; what a list lacks has 0 there."""
    expected = {7: 0.3, 3: 0.3 * 0.5 + 0.7, 4: 0.0, 5: 0.0}
    assert fused([A, B], "linear", (0.3, 0.7)) == pytest.approx(expected, rel=1e-6)
    # As they are; 0.6 is the smallest of B, 1 that of A.
    expected = {7: 0.9 + 0.6, 3: 0.5 + 0.8, 4: 0.1 + 0.6, 5: 0.1 + 0.6}
    assert fused([A, B, []], "raw", (0.1, 1.0, 1.0)) == pytest.approx(expected, rel=1e-6)


ranked_lists = st.lists(
    st.dictionaries(st.integers(0, 12), st.floats(-100, 100, width=32), max_size=8).map(
        lambda one: sorted(one.items(), key=lambda item: -item[1])
    ),
    min_size=1,
    max_size=4,
)


@given(ranked_lists, st.lists(st.floats(0, 5), min_size=4, max_size=4), st.sampled_from([0.0, 1.0, 60.0]))
def test_the_same_as_plain_loops(lists, weights, k):
    """Empty lists, and such whose scores are all equal, too."""
    weights = weights[: len(lists)]
    assert fused(lists, "rrf", weights, k) == pytest.approx(plain_rrf(lists, weights, k), rel=1e-5, abs=1e-9)
    assert fused(lists, "linear", weights) == pytest.approx(plain_linear(lists, weights), rel=1e-5, abs=1e-6)
    assert fused(lists, "raw", weights) == pytest.approx(plain_raw(lists, weights), rel=1e-5, abs=1e-5)


def test_weights_that_are_left_out_or_refused():
    assert lists_weights("rrf", None, 3) == (1.0, 1.0, 1.0)
    assert lists_weights("linear", (), 2) == (0.5, 0.5)
    assert lists_weights("linear", (0.3,), 2) == (0.3, 0.7)
    assert lists_weights("rrf", (2, 1, 0), 3) == (2.0, 1.0, 0.0)
    for weights, lists in [((0.5,), 3), ((1.5,), 2), ((1, 2, 3), 2), ((-1, 2), 2), ((0, 0), 2), ((np.nan, 1), 2)]:
        with pytest.raises(InputError, match="weights"):
            lists_weights("linear", weights, lists)


# As a first stage.


class Listed:
    """A stage that finds given rows with given scores."""

    def __init__(self, index, rows, scores):
        self.index, self.rows, self.scores, self.depths = index, rows, scores, []

    def search(self, query, depth):
        self.depths.append(depth)
        return Candidates(self.index, np.array(self.rows[:depth], np.int64), np.array(self.scores[:depth], np.float32))


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return small.build_index(tmp_path_factory.mktemp("fusion") / "forward")


def stage(index, lists, **more):
    stages = [Listed(index, *zip(*ranked)) if ranked else Listed(index, (), ()) for ranked in lists]
    config = FusionConfig(tuple("no configurations" for _ in lists), **more)
    return FusedStage(index, stages, config), stages


def test_a_fused_stage_ranks_by_score_and_then_by_decreasing_id(index):
    one, stages = stage(index, [A, B], method="rrf", fusion_depth=3)
    candidates = one.search(Query("q", "any"), 10)
    assert candidates.rows.tolist() == [3, 7, 5, 4] and [one.depths for one in stages] == [[3], [3]]
    assert candidates.first_stage_scores.dtype == np.float32
    # Rows 4 and 5 have score 0: ids "é" and "Z", of which "é" is the larger in bytes
    linear, _ = stage(index, [A, B], method="linear", weights=(0.3, 0.7))
    assert linear.search(Query("q", "any"), 10).rows.tolist() == [3, 7, 4, 5]
    assert linear.search(Query("q", "any"), 3).rows.tolist() == [3, 7, 4]


def test_the_fusion_depth_cuts_each_list_and_0_takes_all(index):
    cut, _ = stage(index, [A, B], fusion_depth=1)
    assert sorted(cut.search(Query("q", "any"), 10).rows.tolist()) == [3, 7]
    whole, stages = stage(index, [A, B], fusion_depth=0)
    assert len(whole.search(Query("q", "any"), 10)) == 4 and stages[0].depths == [len(index)]
    assert len(stage(index, [[], []])[0].search(Query("q", "any"), 10)) == 0


def test_settings_are_refused_by_name():
    for settings, message in [
        ({"method": "sum"}, "unknown fusion 'sum'; known: rrf, linear"),
        ({"k": -1.0}, "the k of reciprocal rank fusion is -1"),
        ({"fusion_depth": -1}, "fusion_depth is -1"),
        ({"weights": (1.0, 2.0, 3.0)}, "3 fusion weights for 2 ranked lists"),
    ]:
        with pytest.raises(InputError, match=message):
            FusionConfig(("a", "b"), **settings)
