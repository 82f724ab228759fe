"""Equal scores are ordered by decreasing document id, whatever the order of the candidates."""

import numpy as np
import pytest
import torch

from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.ranking.pipeline import rank
from rerank_plugin.rerankers import score_many
from rerank_plugin.rerankers.neural import NeuralReranker
from tests import small

QUERY = Query("q1", "heart")
DECREASING = ["é", "b", "a7", "Z", "MED-3", "MED-14", "9", "2", "100", "10"]  # in bytes, as strcmp has them


class Constant:
    name = "constant"

    def __init__(self, value):
        self.value = value

    def score(self, query, candidates):
        return np.full(len(candidates), self.value, np.float32)


def shuffled(index, seed):
    return small.candidates(index, np.random.default_rng(seed).permutation(len(index)))


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, -7.25, 1e-38])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_constant_scorer_orders_by_decreasing_document_id(index, value, seed):
    assert rank(QUERY, shuffled(index, seed), Constant(value)).doc_ids == DECREASING


def test_a_model_of_zeros_orders_by_decreasing_document_id(index, vectors):
    model = small.delta(vectors)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    one = NeuralReranker(model, vectors.vocabulary, index)
    assert rank(QUERY, shuffled(index, 3), one).doc_ids == DECREASING


def test_positive_and_negative_zero_are_a_tie(index):
    class Zeros(Constant):
        def score(self, query, candidates):
            return np.where(np.arange(len(candidates)) % 2, 0.0, -0.0).astype(np.float32)

    assert rank(QUERY, shuffled(index, 4), Zeros(0)).doc_ids == DECREASING


def test_scores_that_are_one_float32_are_a_tie(index):
    """1.000000001 is 1 in float32, in which scores are compared."""

    class Near(Constant):
        def score(self, query, candidates):
            return 1 + 1e-9 * np.arange(len(candidates))

    candidates = shuffled(index, 5)
    assert rank(QUERY, candidates, Near(0)).doc_ids == DECREASING
    order = candidates.order(Near(0).score(QUERY, candidates))
    assert index.ids.take(candidates.rows[order]) == DECREASING


def test_scores_come_first(index):
    candidates = small.candidates(index, [0, 1, 2, 3], [1, 2, 2, -1])  # ids 9, 10, a7, 100
    ranking = rank(QUERY, candidates, None)
    assert ranking.doc_ids == ["a7", "10", "9", "100"]
    assert ranking.ranked_scores.tolist() == [2, 2, 1, -1]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_scorer_without_a_number_is_refused(index, value):
    with pytest.raises(InputError, match="document 100 for query q1"):
        rank(QUERY, small.candidates(index, [3, 1]), Constant(value))


@pytest.mark.parametrize("shape", [(2, 1), (3,), ()])
def test_a_wrong_number_of_scores_is_refused(index, shape):
    class Wrong(Constant):
        def score(self, query, candidates):
            return np.zeros(shape, np.float32)

    with pytest.raises(InputError, match="q1"):
        rank(QUERY, small.candidates(index, [3, 1]), Wrong(0))


def test_no_candidates(index):
    ranking = rank(QUERY, small.candidates(index, []), Constant(1))
    assert ranking.doc_ids == [] and ranking.ranked_scores.shape == (0,)


def test_a_third_party_s_reranker_is_called_query_by_query(index):
    class ByRow(Constant):
        def score(self, query, candidates):
            return candidates.rows.astype(np.float32) + len(query.text)

    found = score_many(ByRow(0), [QUERY, Query("q2", "")], [small.candidates(index, rows) for rows in ([3, 1], [])])
    assert [one.tolist() for one in found] == [[8, 6], []]
