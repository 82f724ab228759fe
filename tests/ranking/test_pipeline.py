"""The way of a query: candidates from a first stage or a run, a reranker's scores, the final order."""

import numpy as np
import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.ranking.pipeline import OpenPipeline, rank, rank_all
from rerank_plugin.rerankers import Scorer
from rerank_plugin.retrieval.lucene import LuceneConfig
from tests.ranking.scorers import ByLength

TEXTS = ["stroke cancer aspirin", "malaria", "the of", "cancer", "aspirin", "twins", "", "statins", "renal failure"]
QUERIES = [Query(str(number), text) for number, text in enumerate(TEXTS * 3)]


class Giving:
    """Gives what it was told, whatever is asked."""

    name = "giving"

    def __init__(self, scores):
        self.scores = scores

    def score(self, query, candidates):
        return np.array(self.scores)


@pytest.fixture(scope="module")
def source(index):
    return OpenPipeline(index, index.first_stage(LuceneConfig()), 5).candidates


def test_without_a_reranker_the_first_stage_stands(index, source):
    ranking = rank(QUERIES[0], source(QUERIES[0]), None)
    assert ranking.order.tolist() == list(range(5))
    assert ranking.doc_ids == ranking.candidates.ids
    np.testing.assert_array_equal(ranking.ranked_scores, ranking.candidates.first_stage_scores)


def test_a_reranker_s_scores_decide(index, source):
    ranking = rank(QUERIES[0], source(QUERIES[0]), ByLength())
    pairs = list(zip(ranking.ranked_scores.tolist(), (id.encode() for id in ranking.doc_ids)))
    assert pairs == sorted(pairs, reverse=True) and len(pairs) == 5 and ranking.scores.dtype == np.float32
    lengths = dict(zip(ranking.candidates.ids, ranking.candidates.lengths.tolist()))
    assert [lengths[id] for id in ranking.doc_ids] == ranking.ranked_scores.tolist()


@pytest.mark.parametrize("scores", [[1.0, 2.0], [[1.0]] * 5, 3.0, []])
def test_as_many_scores_as_candidates_or_an_error_that_names_the_query(source, scores):
    with pytest.raises(InputError, match="for 5 candidates of query 0"):
        rank(QUERIES[0], source(QUERIES[0]), Giving(scores))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_no_number_is_an_error_that_names_document_and_query(index, source, wrong):
    candidates = source(QUERIES[0])
    with pytest.raises(
        InputError, match=f"reranker 'giving' scores document {candidates.ids[2]} for query 0 as NaN or inf"
    ):
        rank(QUERIES[0], candidates, Giving([1, 2, wrong, 4, wrong]))
    candidates = Candidates(index.forward, [0, 1], [1.0, wrong])
    with pytest.raises(
        InputError, match=f"the first stage scores document {candidates.ids[1]} for query 0 as NaN or inf"
    ):
        rank(QUERIES[0], candidates, None)


def check_all(rankings, source, reranker):
    """The rankings are those of the queries one by one."""
    assert [ranking.query for ranking in rankings] == QUERIES
    for each in rankings:
        expected = rank(each.query, source(each.query), reranker)
        assert each.doc_ids == expected.doc_ids
        np.testing.assert_array_equal(each.ranked_scores, expected.ranked_scores)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("reranker", [None, ByLength()])
def test_many_queries_come_in_order_as_one_by_one(source, threads, reranker):
    check_all(list(rank_all(QUERIES, source, reranker, threads)), source, reranker)


def test_an_error_while_fetching_reaches_the_caller_at_its_query(source):
    def failing(query):
        if query.id == "7":
            raise InputError("query 7 is bad")
        return source(query)

    ranked = []
    with pytest.raises(InputError, match="query 7 is bad"):
        ranked.extend(ranking.query.id for ranking in rank_all(QUERIES, failing, None))
    assert ranked == [str(number) for number in range(7)]


class Together(ByLength, Scorer):
    """Counts how many queries it is given at once, and cannot score one of them."""

    scores_together = True

    def __init__(self, faulty=None):
        self.faulty, self.counts = faulty, []

    def score_many(self, queries, candidates):
        self.counts.append(len(queries))
        if self.faulty in [query.id for query in queries]:
            raise InputError(f"cannot score {self.faulty}")
        return [self.score(query, each) for query, each in zip(queries, candidates)]


@pytest.mark.parametrize("together", [1, 2, 7, 100])
def test_queries_scored_together_rank_as_alone(source, together):
    reranker = Together()
    rankings = list(rank_all(QUERIES, source, reranker, together=together))
    check_all(rankings, source, ByLength())
    # a query that found nothing ("the of" and the empty one) is not sent to the reranker
    filled = sum(len(ranking.order) > 0 for ranking in rankings)
    assert sum(reranker.counts) == filled < len(QUERIES)
    assert len(reranker.counts) == -(-len(QUERIES) // together) and max(reranker.counts) <= together


def test_what_comes_before_a_fault_is_not_lost(source):
    """The fourth of a batch of eight cannot be scored: the first three are there."""
    ranked = []
    with pytest.raises(InputError, match="cannot score 3"):
        ranked.extend(ranking.query.id for ranking in rank_all(QUERIES, source, Together(faulty="3"), together=8))
    assert ranked == ["0", "1", "2"]
