"""Rerankers one after another against sorting in plain Python; what stays behind keeps its order, below all others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.models.attribution import Attribution, ScorePart
from rerank_plugin.ranking.cascade import Cascade, ScoringStage, Stage
from rerank_plugin.ranking.pipeline import rank
from rerank_plugin.rerankers import Scorer

QUERY = Query("q", "stroke")


def cascade_of(*stages):
    return Cascade([ScoringStage(*stage) for stage in stages])


class ByTable(Scorer):
    """Scores a document by its row in a table."""

    name = "table"

    def __init__(self, scores):
        self.scores = np.array(scores, np.float32)

    def score(self, query, candidates):
        return self.scores[candidates.rows]


@pytest.mark.parametrize(
    "spec, stage",
    [
        ("delta", Stage("delta")),
        ("bert:a@b@20", Stage("bert:a@b", 20)),
        ("bert:a@b", Stage("bert:a@b")),
        ("a@2/", Stage("a@2/")),
        ("@20", Stage("@20")),
        ("delta+0.5", Stage("delta", None, 0.5)),
        ("a+2+0.25@20", Stage("a+2", 20, 0.25)),
        ("a+0.5/", Stage("a+0.5/")),
    ],
)
def test_the_last_at_sign_says_how_many_and_the_last_plus_the_weight_before(spec, stage):
    assert (Stage.parse(spec), str(Stage.parse(spec))) == (stage, spec)


def test_a_stage_of_nothing_is_refused():
    with pytest.raises(InputError, match="delta@0: a reranker must score at least 1"):
        Stage.parse("delta@0")
    with pytest.raises(InputError, match="less than 1"):
        Stage("delta", before=1.0)


def test_worked_example(index):
    """BM25's 9, 8, 7, 6; the first stage keeps all, and the second scores the best two of it."""
    candidates = Candidates(index.forward, [3, 2, 1, 0], [9, 8, 7, 6])
    stages = [(ByTable([1, 5, 4, 3]), None), (ByTable([0, -2, 6, 0]), 2)]
    assert cascade_of(*stages).score(QUERY, candidates).tolist() == pytest.approx(
        [-2, 6, -2, -4]
    )  # 3 and 1, two apart as before
    assert cascade_of(*stages).name == "table,table@2"
    assert cascade_of((ByTable([0, 0, 0, 1]), 1)).score(QUERY, candidates).tolist() == pytest.approx([1, 1, 0, -1])


def test_a_stage_reads_its_documents_in_the_order_of_the_first_stage(index):
    """Features may read it; and the cascade reads no more words than its shortest-sighted stage."""
    first, second = ByTable([1, 5, 4, 3]), ByTable([0, 0, 0, 0])
    first.passage_words, second.passage_words, read = 7, 5, []
    second.score = lambda query, candidates: read.append(candidates.rows.tolist()) or np.zeros(2, np.float32)
    cascade = cascade_of((first, None), (second, 2))
    cascade.score(QUERY, Candidates(index.forward, [3, 2, 1, 0], [9, 8, 7, 6]))
    assert read == [[2, 1]] and cascade.passage_words == 5


def test_a_weighted_sum_by_hand_and_its_attribution(index):
    """Of the best three, BM25's 9, 8, 7 are 1, 1/2, 0, and the scores 3, 4, 5 are 0, 1/2, 1; BM25's 6 stays behind."""

    class Summed(ByTable):
        def attribute(self, query, candidates, place):
            words, parts = np.array([self.scores[candidates.rows[place]] - 3]), (ScorePart("feature", 7, 1.0),)
            return Attribution(2.0, known=np.ones(1, bool), words=words, query_words=words, parts=parts)

    candidates = Candidates(index.forward, [3, 2, 1, 0], [9, 8, 7, 6])
    cascade = cascade_of((Summed([9, 5, 4, 3]), 3, 0.25))
    scores = cascade.score(QUERY, candidates)
    assert scores.tolist() == pytest.approx([0.25, 0.75 / 2 + 0.25 / 2, 0.75, 0.25])
    for place in range(3):
        attribution = cascade.attribute(QUERY, candidates, place)
        assert attribution.total == pytest.approx(float(scores[place]))
        assert attribution.parts[-1] == ScorePart("score_before", 1 - place / 2, 0.25 * (1 - place / 2))
    assert cascade.attribute(QUERY, candidates, 3) is None and cascade.name == "table+0.25@3"
    equal = cascade_of((Summed([3, 3, 3, 3]), None, 0.25))
    assert equal.attribute(QUERY, candidates, 0).total == pytest.approx(float(equal.score(QUERY, candidates)[0]))


tables = st.lists(
    st.lists(st.sampled_from([-3.4e38, -1.0, 0.0, 0.5, 1e-30, 3.4e38]), min_size=8, max_size=8), min_size=1
)


@given(tables, st.data())
def test_the_order_is_that_of_sorting_the_best_again_and_again(index, tables, data):
    """Ties in every stage by decreasing id; scores decrease strictly from what was left behind on."""
    first, *later = tables
    keeps = [data.draw(st.one_of(st.none(), st.integers(1, 10))) for _ in later]
    rows = np.random.default_rng(len(tables)).permutation(8)
    candidates = Candidates(index.forward, rows, np.float32(first)[rows]).best()
    ids = index.forward.ids.take(np.arange(8))

    def ordered(documents, table):
        return sorted(documents, key=lambda row: (np.float32(table[row]), ids[row].encode()), reverse=True)

    expected = ordered(rows.tolist(), first)
    for table, keep in zip(later, keeps):
        expected[:keep] = ordered(expected[:keep], table)
    cascade = cascade_of(*((ByTable(table), keep) for table, keep in zip(later, keeps)))
    ranking = rank(QUERY, candidates, cascade)
    assert candidates.rows[ranking.order].tolist() == expected
    assert np.isfinite(ranking.scores).all()


def test_a_document_is_explained_by_the_last_stage_that_scored_it(index):
    class Telling(ByTable):
        def attribute(self, query, candidates, place):
            return self.scores[0], int(candidates.rows[place])

    found = Candidates(index.forward, [3, 2, 1, 0], [9, 8, 7, 6])
    cascade = cascade_of((Telling([1, 5, 4, 3]), 3), (Telling([2, 0, 6, 0]), 2))
    assert [cascade.attribute(QUERY, found, place) for place in range(4)] == [(1, 3), (2, 2), (2, 1), None]
    again = cascade_of((Telling([1, 5, 4, 3]), 1), (Telling([2, 0, 6, 0]), None))
    assert again.attribute(QUERY, found, 3) == (2, 0)  # behind the first, and scored by the second


def test_a_stage_that_scores_nan_is_named(index):
    candidates = Candidates(index.forward, [1, 0], [9, 8])
    with pytest.raises(InputError, match="'table' scores document .* for query q as NaN"):
        cascade_of((ByTable([np.nan, 1]), None)).score(QUERY, candidates)
