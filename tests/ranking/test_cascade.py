"""Rerankers one after another against sorting in plain Python; what stays behind keeps its order, below all others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.ranking.cascade import Cascade, Stage
from rerank_plugin.ranking.pipeline import rank
from rerank_plugin.rerankers import Scorer

QUERY = Query("q", "stroke")


class ByTable(Scorer):
    """Scores a document by its row in a table."""

    name = "table"

    def __init__(self, scores):
        self.scores = np.array(scores, np.float32)

    def score(self, query, candidates):
        return self.scores[candidates.rows]


@pytest.mark.parametrize(
    "spec, reranker, keep",
    [
        ("delta", "delta", None),
        ("bert:a@b@20", "bert:a@b", 20),
        ("bert:a@b", "bert:a@b", None),
        ("a@2/", "a@2/", None),
        ("@20", "@20", None),
    ],
)
def test_the_last_at_sign_before_digits_says_how_many(spec, reranker, keep):
    assert (Stage.parse(spec), str(Stage.parse(spec))) == (Stage(reranker, keep), spec)


def test_a_stage_of_nothing_is_refused():
    with pytest.raises(InputError, match="delta@0: a reranker must score at least 1"):
        Stage.parse("delta@0")


def test_worked_example(index):
    """BM25's 9, 8, 7, 6; the first stage keeps all, and the second scores the best two of it."""
    candidates = Candidates(index.forward, [3, 2, 1, 0], [9, 8, 7, 6])
    stages = [(ByTable([1, 5, 4, 3]), None), (ByTable([0, -2, 6, 0]), 2)]
    assert Cascade(stages).score(QUERY, candidates).tolist() == pytest.approx(
        [-2, 6, -2, -4]
    )  # 3 and 1, two apart as before
    assert Cascade(stages).name == "table,table@2"
    assert Cascade([(ByTable([0, 0, 0, 1]), 1)]).score(QUERY, candidates).tolist() == pytest.approx([1, 1, 0, -1])


def test_a_stage_reads_its_documents_in_the_order_of_the_first_stage(index):
    """Features may read it; and the cascade reads no more words than its shortest-sighted stage."""
    first, second = ByTable([1, 5, 4, 3]), ByTable([0, 0, 0, 0])
    first.passage_words, second.passage_words, read = 7, 5, []
    second.score = lambda query, candidates: read.append(candidates.rows.tolist()) or np.zeros(2, np.float32)
    cascade = Cascade([(first, None), (second, 2)])
    cascade.score(QUERY, Candidates(index.forward, [3, 2, 1, 0], [9, 8, 7, 6]))
    assert read == [[2, 1]] and cascade.passage_words == 5


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
    cascade = Cascade([(ByTable(table), keep) for table, keep in zip(later, keeps)])
    ranking = rank(QUERY, candidates, cascade)
    assert candidates.rows[ranking.order].tolist() == expected
    assert np.isfinite(ranking.scores).all()


def test_a_document_is_explained_by_the_last_stage_that_scored_it(index):
    class Telling(ByTable):
        def attribute(self, query, candidates, place):
            return self.scores[0], int(candidates.rows[place])

    found = Candidates(index.forward, [3, 2, 1, 0], [9, 8, 7, 6])
    cascade = Cascade([(Telling([1, 5, 4, 3]), 3), (Telling([2, 0, 6, 0]), 2)])
    assert [cascade.attribute(QUERY, found, place) for place in range(4)] == [(1, 3), (2, 2), (2, 1), None]
    again = Cascade([(Telling([1, 5, 4, 3]), 1), (Telling([2, 0, 6, 0]), None)])
    assert again.attribute(QUERY, found, 3) == (2, 0)  # behind the first, and scored by the second


def test_a_stage_that_scores_nan_is_named(index):
    candidates = Candidates(index.forward, [1, 0], [9, 8])
    with pytest.raises(InputError, match="'table' scores document .* for query q as NaN"):
        Cascade([(ByTable([np.nan, 1]), None)]).score(QUERY, candidates)
