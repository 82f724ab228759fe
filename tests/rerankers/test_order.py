"""Equal scores are ordered by decreasing document id, whatever the order of the candidates."""

import numpy as np
import pytest
import torch

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.ranking.pipeline import rank
from rerank_plugin.rerankers import score_many
from rerank_plugin.rerankers.neural import NeuralReranker
from tests import small

QUERY = Query("q1", "heart")
DECREASING = ["é", "b", "a7", "Z", "MED-3", "MED-14", "9", "2", "100", "10"]  # in bytes, as strcmp has them


class Scoring:
    """A third party's reranker; ``scores`` is a function of the number of candidates."""

    def __init__(self, scores):
        self.scores = scores

    def score(self, query, candidates):
        return self.scores(len(candidates))


def shuffled(index, seed):
    return small.candidates(index, np.random.default_rng(seed).permutation(len(index)))


TIES = {
    "0": lambda count: np.zeros(count, np.float32),
    "-7.25": lambda count: np.full(count, -7.25, np.float32),
    "1e-38": lambda count: np.full(count, 1e-38, np.float32),
    "positive and negative zero": lambda count: np.where(np.arange(count) % 2, 0.0, -0.0).astype(np.float32),
    "one float32": lambda count: 1 + 1e-9 * np.arange(count),  # in which scores are compared
}


@pytest.mark.parametrize("scores", TIES.values(), ids=TIES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_equal_scores_are_ordered_by_decreasing_document_id(index, scores, seed):
    candidates = shuffled(index, seed)
    assert rank(QUERY, candidates, Scoring(scores)).doc_ids == DECREASING
    assert index.ids.take(candidates.rows[candidates.order(scores(len(index)))]) == DECREASING


def test_a_model_of_zeros_orders_by_decreasing_document_id(index, vectors):
    model = small.delta(vectors)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    reranker = NeuralReranker(model, vectors.vocabulary, index)
    assert rank(QUERY, shuffled(index, 3), reranker).doc_ids == DECREASING


def test_scores_come_first(index):
    candidates = small.candidates(index, [0, 1, 2, 3], [1, 2, 2, -1])  # ids 9, 10, a7, 100
    ranking = rank(QUERY, candidates, None)
    assert ranking.doc_ids == ["a7", "10", "9", "100"]
    assert ranking.ranked_scores.tolist() == [2, 2, 1, -1]


@pytest.mark.parametrize(
    "scores, message",
    [
        *((np.full(2, value, np.float32), "document 100 for query q1") for value in (np.nan, np.inf, -np.inf)),
        *((np.zeros(shape, np.float32), "q1") for shape in ((2, 1), (3,), ())),
    ],
)
def test_what_is_no_score_of_each_document_is_refused(index, scores, message):
    with pytest.raises(InputError, match=message):
        rank(QUERY, small.candidates(index, [3, 1]), Scoring(lambda count: scores))


def test_no_candidates(index):
    ranking = rank(QUERY, small.candidates(index, []), Scoring(np.ones))
    assert ranking.doc_ids == [] and ranking.ranked_scores.shape == (0,)


def test_a_third_party_s_reranker_is_called_query_by_query(index):
    class ByRow(Scoring):
        def score(self, query, candidates):
            return candidates.rows.astype(np.float32) + len(query.text)

    actual = score_many(ByRow(0), [QUERY, Query("q2", "")], [small.candidates(index, rows) for rows in ([3, 1], [])])
    assert [scores.tolist() for scores in actual] == [[8, 6], []]
