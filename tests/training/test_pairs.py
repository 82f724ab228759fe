"""Pools and the pairs drawn from them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.inputs.lexical_features import NAMES
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.training.pairs import draw_documents, draw_pairs, draw_pairs_by_groups, make_pools
from tests import small
from tests.training.learnable import pool_of

IDS = [id for id, _, _ in small.DOCUMENTS]


@pytest.fixture
def reranker(index, vectors):
    return NeuralReranker(small.delta(vectors, lexical_features=NAMES, query_words=4), vectors.vocabulary, index)


def triples(drawn):
    """Drawn pairs as (pool, better, worse)."""
    return list(zip(drawn.pool.tolist(), *drawn.places.tolist(), strict=True))


def relevance_by_id(pool):
    return {IDS[row]: relevance for row, relevance in zip(pool.rows.tolist(), pool.relevance.tolist())}


def make(index, reranker, judged, retrieved=("9", "10", "a7", "b"), documents="candidates", text="heart attack"):
    candidates = {} if retrieved is None else {"q1": small.candidates(index, [IDS.index(id) for id in retrieved])}
    pools = make_pools([Query("q1", text)], {"q1": judged}, candidates, reranker.builder, documents)
    assert all(len(set(pool.rows.tolist())) == len(pool.rows) == len(pool.relevance) for pool in pools)
    return pools


JUDGED = {"b": 2, "Z": 1, "not-in-the-index": 2, "10": 0, "a7": -1, "2": 0}


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ("candidates", {"b": 2, "10": 0, "a7": 0, "9": 0}),  # judged and retrieved, and the unjudged 9
        ("judged", {"b": 2, "Z": 1, "10": 0, "a7": 0, "2": 0}),
        ("all", {"b": 2, "Z": 1, "10": 0, "a7": 0, "2": 0, "9": 0}),
        ("relevant", {"b": 2, "Z": 1}),
        ("collection", {**dict.fromkeys(IDS, 0), "b": 2, "Z": 1}),
    ],
)
def test_documents_of_a_pool(index, reranker, documents, expected):
    """What is not judged, or judged negative, counts as 0; some kinds need no candidates."""
    pools = make(index, reranker, JUDGED, documents=documents)
    if documents not in ("candidates", "all"):
        pools += make(index, reranker, JUDGED, None, documents)
    assert [relevance_by_id(pool) for pool in pools] == [expected] * len(pools)


def test_unknown_kind_of_documents(index, reranker):
    with pytest.raises(InputError, match="'some'; known: candidates, judged, all"):
        make(index, reranker, JUDGED, documents="some")


@pytest.mark.parametrize(
    "case",
    [
        dict(judged={}),
        dict(judged={"Z": 1}),  # relevant, but not retrieved
        dict(judged={"a7": 1}, retrieved=("a7",)),  # nothing to compare it with
        dict(judged=dict.fromkeys(("9", "10", "a7", "b"), 2)),
        dict(judged={"9": 0, "10": -3}),
        dict(judged={"not-in-the-index": 1}),
        dict(judged={"9": 1}, retrieved=()),
        dict(judged={"9": 1}, text="xylitol quokka"),
        dict(judged={"9": 1}, text=""),
    ],
    ids=str,
)
def test_queries_without_pairs_are_left_out(index, reranker, case):
    assert make(index, reranker, **case) == []


def test_a_single_relevant_document_makes_a_pool_of_relevant_documents(index, reranker):
    judged = {"q1": {"9": 1}, "q2": {"9": 0}, "q3": {"not-in-the-index": 1}}
    queries = [Query(id, "heart") for id in (*judged, "not judged")]
    [pool] = make_pools(queries, judged, {}, reranker.builder, "relevant")
    assert (pool.query_id, relevance_by_id(pool)) == ("q1", {"9": 1})


@pytest.mark.parametrize("text", ["heart attack in women", "aspirin quokka", "risk of stroke risk of cancer"])
def test_features_are_those_of_search(index, reranker, text):
    """Bit for bit, for all features and for documents that search scores in another order and with other mates."""
    random = np.random.default_rng(0)
    retrieved = small.candidates(index, random.permutation(len(index)), random.normal(size=len(index)))
    query = Query("q1", text)
    [pool] = make_pools([query], {"q1": {"9": 1, "MED-3": 2, "é": 1}}, {"q1": retrieved}, reranker.builder)
    terms = index.query(text)
    search = reranker.builder.build(terms, reranker.builder.query(terms), retrieved)
    place = {row: i for i, row in enumerate(retrieved.rows.tolist())}
    places = [place[row] for row in pool.rows.tolist()]
    assert pool.features.dtype == np.float32 and pool.features.shape == (len(index), len(NAMES))
    assert pool.features.tobytes() == search.features.numpy()[places].tobytes()
    assert pool.features.any(axis=0).sum() >= len(NAMES) - 4  # nearly all of them say something here
    assert pool.words.ids.tolist() == search.queries[0].tolist()
    assert pool.words.mask.tolist() == search.query_mask[0].tolist()


def test_documents_that_were_not_retrieved_have_first_stage_score_zero(index, reranker):
    [pool] = make(index, reranker, JUDGED, documents="all")
    scores = dict(zip(pool.rows.tolist(), pool.features[:, NAMES.index("first_stage")].tolist()))
    retrieved = small.candidates(index, [IDS.index(id) for id in ("9", "10", "a7", "b")])
    known = dict(zip(retrieved.rows.tolist(), retrieved.first_stage_scores.tolist()))
    assert scores == {row: known.get(row, 0.0) for row in pool.rows.tolist()}


relevances = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=12), min_size=1, max_size=5)


def equal(drawn, other):
    return all(np.array_equal(part, other_part) for part, other_part in zip(drawn, other, strict=True))


@given(pools=relevances, limit=st.integers(1, 20), seed=st.integers(0, 5))
def test_drawn_pairs(pools, limit, seed):
    made = [pool_of(relevance) for relevance in pools]
    drawn, again = (draw_pairs(made, limit, np.random.default_rng(seed)) for _ in range(2))
    assert equal(drawn, again)
    pairs = triples(drawn)
    assert len(set(pairs)) == len(pairs)
    for number, relevance in enumerate(pools):
        mine = [(better, worse) for pool, better, worse in pairs if pool == number]
        assert all(relevance[better] > relevance[worse] for better, worse in mine)
        relevant = sum(level > 0 for level in relevance)
        used = {worse for _, worse in mine if relevance[worse] == 0}
        assert len(used) <= relevant
        # The number of pairs is fixed: all that differ in the balanced set, up to the limit.
        levels = [level for level in relevance if level > 0] + [0] * min(relevance.count(0), relevant)
        possible = sum(a > b for a in levels for b in levels)
        assert len(mine) == min(possible, limit)


def test_every_non_relevant_document_is_drawn_sooner_or_later():
    random = np.random.default_rng(0)
    pools = [pool_of([1] + [0] * 6)]
    assert {int(draw_pairs(pools, 5, random).places[1, 0]) for _ in range(200)} == set(range(1, 7))


@pytest.mark.parametrize(("draw", "relevance"), [(draw_pairs, [1] * 5 + [0] * 5), (draw_pairs_by_groups, [1, 0])])
def test_pairs_of_queries_are_mixed(draw, relevance):
    drawn = draw([pool_of(relevance)] * 2, 25, np.random.default_rng(0))
    assert len(drawn.pool) == 50 and 0 < drawn.pool[:25].sum() < 25


def group_of(grade):
    """[P] 2.2 and 3.1: above 1 is highly relevant, other relevant documents are relevant."""
    return "high" if grade > 1 else "relevant" if grade > 0 else "other"


def documents_with_partners(pools):
    """Better documents that [P] 2.2 can draw, written out plainly, and worse ones of each: {(pool, place): places}."""
    below = {"high": "relevant", "relevant": "other"}
    found = {}
    for number, relevance in enumerate(pools):
        for place, grade in enumerate(relevance):
            worse = [at for at, other in enumerate(relevance) if group_of(other) == below.get(group_of(grade))]
            if worse:
                found[number, place] = worse
    return found


grades = st.lists(st.lists(st.sampled_from([-1, 0, 0.5, 1, 1.5, 2, 4]), min_size=1, max_size=8), min_size=1, max_size=5)


@given(pools=grades, count=st.integers(1, 9), seed=st.integers(0, 5))
def test_pairs_by_groups(pools, count, seed):
    """Every pair is of one query and two neighbouring groups; there are as many as asked for, if there are any."""
    possible, made = documents_with_partners(pools), [pool_of(relevance) for relevance in pools]
    drawn, again = (draw_pairs_by_groups(made, count, np.random.default_rng(seed)) for _ in range(2))
    assert equal(drawn, again) and all(part.dtype == np.int64 for part in drawn)
    assert len(triples(drawn)) == (count * len(pools) if possible else 0)
    for number, better, worse in triples(drawn):
        assert worse in possible[number, better]


def test_groups_are_drawn_in_proportion_to_their_sizes():
    """Over all queries 3 documents are highly relevant and 5 relevant; each is as likely as any other, and so is each
    document that it is better than. (Of the last query, the highly relevant document has no partner.)"""
    pools = [[2, 2, 1, 0, 0], [4, 1, 1], [1, 1, 1, 0], [1, 0, 0, 0, 0], [3, 0]]
    possible = documents_with_partners(pools)
    assert len([at for at in possible if group_of(pools[at[0]][at[1]]) == "high"]) == 3 and len(possible) == 8
    count = 16_000
    drawn = draw_pairs_by_groups([pool_of(relevance) for relevance in pools], count // 5, np.random.default_rng(7))
    share = {}
    for pair in triples(drawn):
        share[pair] = share.get(pair, 0) + 1 / count
    expected = {(*at, worse): 1 / 8 / len(places) for at, places in possible.items() for worse in places}
    assert share.keys() == expected.keys()
    for pair, value in expected.items():
        assert share[pair] == pytest.approx(value, abs=4 * (value / count) ** 0.5), pair  # four standard deviations


def test_half_of_the_single_documents_are_relevant():
    """Of four relevant and five others, at most that many in all; one of each at least."""
    pools = [pool_of([1, 0, 2, 0, 1, 0, 3, 0, 0])]
    for at_most, count in ((4, 2), (5, 2), (1, 1), (100, 4)):
        drawn = draw_documents(pools, at_most, np.random.default_rng(1))
        relevant = pools[0].relevance[drawn.places[0]] > 0
        assert relevant.sum() == (~relevant).sum() == count == len({*drawn.places[0].tolist()}) / 2
