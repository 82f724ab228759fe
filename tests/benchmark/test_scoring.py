"""The timed work of a reranker, with rerankers that record their calls."""

import time
from dataclasses import replace

import numpy as np
import pytest

from rerank_plugin.benchmark.measured_rerankers import MeasuredReranker, largest_difference
from rerank_plugin.benchmark.measuring import Meter
from rerank_plugin.benchmark.rows import FAST, PLAIN
from rerank_plugin.benchmark.scoring import Setup, query_by_query, query_numbers, scoring_case, scoring_rows
from rerank_plugin.rerankers import Scorer


class Recording:
    """Scores by row number; records the queries and rows of every call."""

    name = "recording"

    def __init__(self, seconds=0.0, error=0.0):
        self.seconds, self.error, self.calls = seconds, error, []

    def score(self, query, candidates):
        assert "starts" not in vars(candidates), "the candidates were gathered before"
        self.calls.append((query.id, tuple(candidates.rows.tolist())))
        time.sleep(self.seconds)
        return candidates.starts.astype(np.float32) * np.float32(1 + self.error)


class Together(Recording, Scorer):
    scores_together = True

    def score_many(self, queries, candidates):
        self.calls.append([query.id for query in queries])
        return [candidates[0].starts] * len(queries)


@pytest.fixture
def setup():
    return Setup(Meter(0.2, 8), "cpu", 1, "a machine")


def test_both_paths_score_one_query_after_the_other_and_never_the_same_candidates_twice_in_a_row(collection, setup):
    paths = {PLAIN: Recording(0.01), FAST: Recording(0.002)}
    half = replace(setup, precision="bfloat16")
    plain, fast = scoring_rows(MeasuredReranker("recording", paths, 0.25), collection, 10, 1, half)
    for reranker in paths.values():
        assert {query for query, _ in reranker.calls} == {query.id for query in collection.queries}
        assert {len(rows) for _, rows in reranker.calls} == {10}
        assert all(call != following for call, following in zip(reranker.calls, reranker.calls[1:]))
    assert (plain.path, fast.path) == (PLAIN, FAST)
    assert (plain.precision, fast.precision) == ("float32", "bfloat16")
    assert plain.ratio_to_plain == 1
    assert fast.ratio_to_plain == pytest.approx(plain.median_ms / fast.median_ms)
    assert plain.median_ms >= 10 and fast.median_ms >= 2
    assert fast.reranker == "recording" and fast.depth == 10 and fast.candidates == 10 and fast.documents == 60
    assert fast.largest_difference == 0.25 and fast.measured_queries is None


def test_a_batch_takes_the_next_queries_in_order(collection):
    assert [query_numbers(call, 4, 6) for call in (0, 1, -1)] == [[0, 1, 2, 3], [4, 5, 0, 1], [2, 3, 4, 5]]
    reranker = Recording()
    scoring_case(reranker, collection, 10, 4)(1)()
    assert [query for query, _ in reranker.calls] == [collection.queries[number].id for number in (4, 5, 0, 1)]


def test_work_on_one_query_a_call_takes_the_next_one_each_time():
    case = query_by_query("abc", str.upper)
    assert [case(call)() for call in (-1, 0, 1, 4)] == ["C", "A", "B", "B"]


def test_a_slow_plain_path_is_timed_on_a_part_of_the_batch(collection):
    slow, fast = Recording(0.02), Recording(0.0001)
    setup = Setup(Meter(0.3, 5), "cpu", 1, "a machine")
    plain_row, fast_row = scoring_rows(
        MeasuredReranker("recording", {PLAIN: slow, FAST: fast}, None), collection, 5, 40, setup
    )
    assert 1 <= plain_row.measured_queries < 40 and fast_row.measured_queries is None
    assert plain_row.median_ms >= 40 * 20
    assert plain_row.queries_per_second <= 50
    assert plain_row.queries_per_second == pytest.approx(40 * 1000 / plain_row.mean_ms)


def test_a_reranker_with_one_path_has_one_row(collection, setup):
    (row,) = scoring_rows(MeasuredReranker("recording", {PLAIN: Recording()}, None), collection, 10, 4, setup)
    assert row.path == PLAIN and row.ratio_to_plain == 1


def test_queries_of_a_batch_are_scored_together_where_the_reranker_can(collection):
    reranker = Together()
    assert scoring_case(reranker, collection, 10, 3)(0)() == 3
    assert reranker.calls == [[query.id for query in collection.queries[:3]]]


@pytest.mark.parametrize(
    "paths, expected",
    [({PLAIN: 0, FAST: 0.125}, 0.125), ({PLAIN: 0, FAST: 0}, 0), ({PLAIN: 0}, None)],
    ids=["one", "none", "one path"],
)
def test_the_largest_difference_is_relative_to_the_largest_score(collection, paths, expected):
    rerankers = {path: Recording(error=error) for path, error in paths.items()}
    assert largest_difference(rerankers, collection, 20) == pytest.approx(expected)
