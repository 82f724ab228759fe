"""Several queries at once: the scores of one query at a time, whatever path computes them."""

import logging

import numpy as np
import pytest
import torch

from rerank_plugin.features.lexical_features import LEX3
from rerank_plugin.files.records import Query
from rerank_plugin.rerankers import RerankerOptions, score_many
from rerank_plugin.rerankers.neural import NeuralReranker
from tests import small

QUERIES = [
    Query("q1", "aspirin heart attack xylitol"),
    Query("q2", "cancer"),
    Query("q3", "zyzzyva nowhere"),  # the model knows neither word
    Query("q4", "Women who smoke, risk of stroke"),
    Query("q5", "migraine"),
]
ROWS = [list(range(10)), [3], [5, 1], [9, 0, 4, 2], []]


def reranker(index, vectors, **options):
    model = small.delta(vectors, seed=1, lexical_features=LEX3, filters=5, document_words=9)
    return NeuralReranker(model, vectors.vocabulary, index, RerankerOptions(**options))


def tasks(index):
    return QUERIES, [small.candidates(index, rows) for rows in ROWS]


@pytest.mark.parametrize("options", [{}, {"threads": 1}, {"threads": 3}], ids=str)
def test_fused_scores_are_the_same_bit_for_bit(index, vectors, options):
    one = reranker(index, vectors, **options)
    together = one.score_many(*tasks(index))
    for found, query, candidates in zip(together, *tasks(index)):
        np.testing.assert_array_equal(found, one.score(query, candidates))


@pytest.mark.parametrize("batch_size", [1, 2, 5, 1024])
def test_the_module_scores_common_batches(index, vectors, batch_size):
    plain, fused = reranker(index, vectors, fast=False, batch_size=batch_size), reranker(index, vectors)
    for found, expected in zip(plain.score_many(*tasks(index)), fused.score_many(*tasks(index))):
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_unknown_queries_and_empty_lists_keep_their_place(index, vectors, caplog):
    with caplog.at_level(logging.WARNING):
        found = reranker(index, vectors).score_many(*tasks(index))
    assert [len(one) for one in found] == [len(rows) for rows in ROWS]
    np.testing.assert_array_equal(found[2], small.candidates(index, ROWS[2]).first_stage_scores)
    assert [record.getMessage() for record in caplog.records if "q3" in record.getMessage()]


def test_a_batch_is_as_wide_as_its_longest_document(index, vectors, monkeypatch):
    """Sorted by length, so that short documents are not padded to the longest of all."""
    one = reranker(index, vectors, fast=False, batch_size=2)
    widths, whole = [], one.model.forward

    def watched(inputs):
        widths.append(inputs.documents.shape[1])
        assert inputs.document_mask.sum(dim=1).max() == inputs.documents.shape[1] or inputs.documents.shape[1] == 1
        return whole(inputs)

    monkeypatch.setattr(one.model, "forward", watched)
    one.score(QUERIES[0], small.candidates(index))
    assert widths == sorted(widths, reverse=True) and widths[0] == 9 and widths[-1] == 1  # "Aspirin", and the empty one


def test_a_third_party_s_reranker_is_called_query_by_query(index):
    class ByRow:
        name = "by-row"

        def score(self, query, candidates):
            return candidates.rows.astype(np.float32) + len(query.text)

    found = score_many(ByRow(), *tasks(index))
    assert [one.tolist() for one in found[:2]] == [[row + len(QUERIES[0].text) for row in range(10)], [9.0]]


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_is_close_but_not_equal(index, vectors, precision):
    half = reranker(index, vectors, precision=precision).score_many(*tasks(index))[0]
    whole = reranker(index, vectors).score_many(*tasks(index))[0]
    assert half.dtype == np.float32
    assert 1e-5 < np.abs(half - whole).max() / np.abs(whole).max() < 0.1


def test_training_moves_the_fused_scores(index, vectors):
    one = reranker(index, vectors)
    before = one.score(QUERIES[0], small.candidates(index))
    with torch.no_grad():
        one.model.convolutions[0].weight.mul_(1.5)
    one.refresh()
    after = one.score(QUERIES[0], small.candidates(index))
    assert np.abs(after - before).max() > 1e-3
    plain = NeuralReranker(one.model, vectors.vocabulary, index, RerankerOptions(fast=False))
    np.testing.assert_allclose(after, plain.score(QUERIES[0], small.candidates(index)), atol=1e-5)


def test_a_batch_in_training_mode_is_noticed(index, vectors):
    """An optimizer's step follows it, and some optimizers write weights without a trace."""
    one = reranker(index, vectors)
    one.score(QUERIES[0], small.candidates(index))
    terms = index.query(QUERIES[0].text)
    inputs = one.builder.build(terms, one.builder.query(terms), small.candidates(index))
    one.model.train()(inputs).sum().backward()
    torch.optim.SGD(one.model.parameters(), lr=0.5, fused=True).step()
    one.model.eval()
    plain = NeuralReranker(one.model, vectors.vocabulary, index, RerankerOptions(fast=False))
    expected = plain.score(QUERIES[0], small.candidates(index))
    np.testing.assert_allclose(one.score(QUERIES[0], small.candidates(index)), expected, atol=1e-5)
