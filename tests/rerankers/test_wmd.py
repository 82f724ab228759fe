"""Word Mover's Distance ([D18] 4.3.2): computed by hand, and compared with a plain implementation."""

import logging
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rerank_plugin import rerankers
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.models import checkpoint
from rerank_plugin.rerankers import scorer, wmd
from rerank_plugin.rerankers.wmd import STOP_WORDS, WordMoversDistance, least_distances, relaxed_cost, transport_cost
from rerank_plugin.text import word_vectors
from rerank_plugin.text.tokenizer import tokenize
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors
from tests import small
from tests.rerankers import plain_wmd


def index_of(folder, titles):
    documents = [(f"d{row}", title, "heart in every abstract") for row, title in enumerate(titles)]
    return small.build_index(folder, documents)


def scores(reranker, text, rows=None):
    return reranker.score(Query("q", text), small.candidates(reranker.index, rows))


def bounds(reranker, text):
    """Bounds of all titles, without exact distances."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wmd, "least_distances", lambda lower, exact, count: lower)
        return reranker.distances(*reranker.query_words(text), small.candidates(reranker.index), 1)


def first_k_are_exact(full, top, text, rows=None):
    """Check that the first k scores are exact and the others upper bounds; return how many are not exact."""
    expected, actual = scores(full, text, rows), scores(top, text, rows)
    candidates = small.candidates(full.index, rows)
    best = candidates.order(expected)[: top.exact_top]
    np.testing.assert_array_equal(candidates.order(actual)[: top.exact_top], best)
    np.testing.assert_array_equal(actual[best], expected[best])
    assert (actual >= expected).all() and np.isfinite(actual).all()
    return (actual > expected).sum()


# On a line that runs through the plane, 5 apart: red at (0, 0), meat at (3, 4), cancer at (6, 8); wine 5 off the line.
LINE = WordVectors(
    Vocabulary(["red", "meat", "cancer", "wine", "of"]),
    np.array([[50, 50], [0, 0], [3, 4], [6, 8], [-4, 3], [0, 1]], np.float32),
)
BY_HAND = [  # query, title, distance, relaxed distance: the larger of the mean distances from query to title and back
    ("red", "meat", 5, 5),
    ("Red", "red?", 0, 0),
    ("red meat", "meat red", 0, 0),
    ("red meat", "meat cancer", 5, 2.5),  # both move by 5, or one stays and the other moves by 10
    ("red", "meat cancer", 7.5, 7.5),  # half of red to each
    ("red meat", "red meat cancer", 2.5, 5 / 3),  # a sixth of meat to red, a third of cancer to meat
    ("red meat", "red red meat", 5 / 6, 0),  # masses 2/3 and 1/3 against halves: a sixth moves
    ("red red meat", "red meat", 5 / 6, 0),
    ("red red meat", "meat cancer", 35 / 6, 10 / 3),  # 2/3 of red and half of it all move by 5; from cancer: 5/2
    ("red", "wine wine wine", 5, 5),
    ("red tofu", "tofu meat", 5, 5),  # tofu has no vector and is ignored
    ("meat", "red wine", 0.5 * 5 + 0.5 * math.sqrt(50), 0.5 * 5 + 0.5 * math.sqrt(50)),  # wine to meat: (7, 1)
    ("red", "tofu", math.inf, math.inf),
]


@pytest.mark.parametrize("query, title, distance, bound", BY_HAND)
def test_by_hand(tmp_path, query, title, distance, bound):
    index = index_of(tmp_path / "forward", [title])
    reranker = WordMoversDistance(index, LINE)
    expected = -distance if math.isfinite(distance) else reranker.floor
    assert scores(reranker, query)[0] == pytest.approx(expected, abs=1e-6)
    assert bounds(reranker, query) == pytest.approx([bound])
    texts, known = (tokenize(query), tokenize(title)), dict(zip(LINE.vocabulary.words[1:], LINE.matrix[1:]))
    assert plain_wmd.distance(*texts, known) == pytest.approx(distance, abs=1e-6)
    assert plain_wmd.relaxed(*texts, known) == pytest.approx(bound)


def problem(n, m, kind, most, seed):
    """Costs of any kind, also with ties, and counts of words."""
    generator = np.random.default_rng(seed)
    if kind == "ties":
        costs = generator.integers(0, 4, (n, m)).astype(np.float64)
    elif kind == "any":
        costs = generator.uniform(0, 10.0 ** generator.integers(-3, 4), (n, m))
    else:
        sources, sinks = generator.normal(size=(n, 5)), generator.normal(size=(m, 5))
        if kind == "same words":
            sources[: min(n, m)] = sinks[: min(n, m)]
        costs = np.linalg.norm(sources[:, None] - sinks[None], axis=2)
    return costs, generator.integers(1, most + 1, n), generator.integers(1, most + 1, m)


@given(
    st.integers(1, 12),
    st.integers(1, 12),
    st.sampled_from(["distances", "ties", "any", "same words"]),
    st.sampled_from([1, 2, 7]),
    st.integers(0, 2**32 - 1),
)
@example(70, 90, "distances", 3, 70)
@example(150, 12, "distances", 3, 150)
@example(1, 200, "distances", 3, 1)
def test_the_cost_is_the_same_both_ways_and_the_relaxed_cost_is_a_bound(n, m, kind, most, seed):
    costs, supplies, demands = problem(n, m, kind, most, seed)
    exact = transport_cost(costs, supplies, demands)
    back = transport_cost(np.ascontiguousarray(costs.T), demands, supplies)
    assert back == pytest.approx(exact, rel=1e-9, abs=1e-9 * max(costs.max(), 1e-3))
    bound = relaxed_cost(costs, supplies, demands)
    assert 0 <= bound <= exact * (1 + 1e-9) + 1e-12
    if 1 in (n, m):
        assert bound == pytest.approx(exact, rel=1e-9)


KNOWN = "red meat cancer wine the of in heart attack risk".split()
titles = st.lists(st.sampled_from([*KNOWN, "xylitol", "quokka"]), max_size=12)
queries = st.lists(st.sampled_from([*KNOWN, "xylitol", "unheard"]), max_size=9)


@given(
    st.lists(titles, min_size=1, max_size=80),
    queries,
    st.integers(0, 1000),
    st.booleans(),
    st.sampled_from([frozenset(), STOP_WORDS]),
    st.sampled_from([1, 2, 3, 10, 100]),
)
def test_the_twin_and_the_first_k_agree(tmp_path_factory, documents, query, seed, flat, left_out, k):
    """Flat: word vectors lie on a grid, so that distances tie and many titles often have the k-th best distance."""
    index = index_of(tmp_path_factory.mktemp("wmd") / "forward", [" ".join(title) for title in documents])
    vectors = small.word_vectors(KNOWN, dimension=2 if flat else 4, seed=seed)
    if flat:
        vectors = WordVectors(vectors.vocabulary, np.round(vectors.matrix))
    reranker = WordMoversDistance(index, vectors, left_out)
    known = {word: vector for word, vector in zip(KNOWN, vectors.matrix[1:]) if word not in left_out}
    rows, text = range(len(documents))[:4], " ".join(query)
    expected = np.array([plain_wmd.distance(query, documents[row], known) for row in rows])

    if known.keys().isdisjoint(query):
        assert np.isinf(expected).all()
        np.testing.assert_array_equal(scores(reranker, text), small.candidates(index).first_stage_scores)
        return
    distances = reranker.distances(*reranker.query_words(text), small.candidates(index, rows))
    np.testing.assert_allclose(distances, expected, rtol=1e-9, atol=1e-9)
    scored = scores(reranker, text, rows)
    assert scored.dtype == np.float32 and np.isfinite(scored).all()
    np.testing.assert_allclose(scored, np.where(np.isinf(expected), reranker.floor, -distances), rtol=1e-6)
    assert scored.min() >= reranker.floor and (scored > reranker.floor).tolist() == np.isfinite(expected).tolist()
    first_k_are_exact(reranker, WordMoversDistance(index, vectors, left_out, exact_top=k), text)
    relaxed = [plain_wmd.relaxed(query, title, known) for title in documents]
    np.testing.assert_allclose(bounds(reranker, text), relaxed, atol=1e-9)


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """Titles of 0 to 20 words, some of which have no vector."""
    generator = np.random.default_rng(6)
    words = np.array([f"word{number}x" for number in range(80)])
    titles = [" ".join(words[generator.integers(0, 80, generator.integers(0, 21))]) for _ in range(300)]
    index = index_of(tmp_path_factory.mktemp("many") / "forward", titles)
    return index, small.word_vectors(list(words[:60]), dimension=9, seed=2)


QUERY = "word3x word7x word7x word70x word41x word15x"


@pytest.mark.parametrize("k", [1, 20, 1000])
def test_the_first_k_of_many_are_exact_and_most_others_are_not_solved(collection, k):
    full, top = (WordMoversDistance(*collection, exact_top=count) for count in (None, k))
    not_solved = [first_k_are_exact(full, top, text) for text in (QUERY, "word3x", "word1x word2x word2x")]
    assert not_solved[0] > 30 if k <= 20 else not_solved == [0, 0, 0]


def test_threads_score_at_once(collection):
    """Several queries on one reranker, each in its own thread."""
    reranker = WordMoversDistance(*collection)
    numbers = np.random.default_rng(9).integers(0, 60, (24, 6))
    queries = [" ".join(f"word{number}x" for number in row) for row in numbers]
    expected = [scores(reranker, text) for text in queries]
    with ThreadPoolExecutor(4) as pool:
        for actual, alone in zip(pool.map(lambda text: scores(reranker, text), queries), expected):
            np.testing.assert_array_equal(actual, alone)


def test_titles_are_solved_until_the_next_bound_is_worse():
    """The third best of 1,000 is known after two batches, of 3 titles and of those whose bounds are not worse."""
    exact = np.arange(1000) / 8.0
    solved = []

    def solve(places):
        solved.extend(places.tolist())
        return exact[places]

    distances = least_distances(exact * 0.5, solve, 3)
    assert solved == [0, 1, 2, 3, 4]  # the bound of 4 is the distance of 2
    np.testing.assert_array_equal(distances[:5], exact[:5])
    np.testing.assert_allclose(distances[5:], exact[5:] * 0.5, rtol=1e-8)
    solved.clear()
    np.testing.assert_array_equal(least_distances(np.zeros(1000), solve, 3), exact)
    assert sorted(solved) == list(range(1000))
    assert least_distances(np.zeros(0), solve, 3).shape == (0,)


HALFWAY = 1 + 2.0**-24  # the next float64 is another float32


@pytest.mark.parametrize(
    "bounds, exact",
    [([1.0, 1 + 3e-8], [1.0, 2.0]), ([0.5, np.nextafter(HALFWAY, 2)], [HALFWAY, HALFWAY])],
    ids=["a tie as float32", "the distance itself, rounded"],
)
def test_bounds_that_cannot_be_told_from_the_best_distance_are_solved(bounds, exact):
    distances = least_distances(np.array(bounds), lambda places: np.array(exact)[places], 1)
    assert distances.tolist() == exact


@pytest.mark.parametrize("count", [0, -1])
def test_at_least_one_title_is_exact(collection, count):
    with pytest.raises(InputError, match=f"first {count} titles"):
        WordMoversDistance(*collection, exact_top=count)


def test_the_last_place_is_below_any_distance(tmp_path):
    """Also of two words as far apart as their lengths allow."""
    vectors = WordVectors(Vocabulary(["red", "meat"]), np.array([[0, 0], [1e6, 0], [-1e6, 0]], np.float32))
    index = index_of(tmp_path / "forward", ["red", "meat", "tofu"])
    red, meat, tofu = scores(WordMoversDistance(index, vectors), "red")
    assert red == 0 and meat == -2e6 and tofu < meat


def test_a_query_without_known_words_is_named_once(index, vectors, caplog):
    reranker = WordMoversDistance(index, vectors)
    with caplog.at_level(logging.WARNING):
        for text in ("xylitol quokka", "", "unheard") * 2:
            reranker.score(Query(f"q {text}", text), small.candidates(index))
    assert len(caplog.records) == 3 and "q xylitol quokka" in caplog.records[0].getMessage()


def test_the_memory_of_named_queries_is_bounded(index, vectors, monkeypatch, caplog):
    """Three are remembered and not named again; a fourth begins anew, so that the first is named a second time."""
    monkeypatch.setattr(scorer, "MOST_TOLD", 3)
    reranker, candidates = WordMoversDistance(index, vectors), small.candidates(index)
    with caplog.at_level(logging.WARNING):
        for name in ("a", "b", "c", "a", "c", "d", "d", "a", "b", "c"):
            left = reranker.score(Query(name, "unheard"), candidates)
            assert left.tolist() == candidates.first_stage_scores.tolist() and len(reranker.unknown_queries) <= 3
    assert [record.getMessage().split()[1] for record in caplog.records] == ["a:", "b:", "c:", "d:", "a:", "b:", "c:"]


def test_lucene_s_stop_words():
    assert len(STOP_WORDS) == 33 and all(tokenize(word) == [word] for word in STOP_WORDS)


def test_a_models_checkpoint_holds_word_vectors_too(index, vectors, tmp_path):
    checkpoint.save_checkpoint(tmp_path / "delta", small.delta(vectors), vectors, {})
    word_vectors.save(vectors, tmp_path / "words", {})
    for place in ("delta", "words"):
        reranker = rerankers.load(f"wmd-title:{tmp_path / place}", index)
        expected = scores(WordMoversDistance(index, vectors), "heart attack of women")
        np.testing.assert_array_equal(scores(reranker, "heart attack of women"), expected)
    for name, stop_words, exact_top in (("nostop", STOP_WORDS, None), ("top20", frozenset(), 20)):
        reranker = rerankers.load(f"wmd-title-{name}:{tmp_path / 'words'}", index)
        assert (reranker.name, reranker.stop_words, reranker.exact_top) == (f"wmd-title-{name}", stop_words, exact_top)
    with pytest.raises(InputError, match="config.json"):
        rerankers.load(f"delta:{tmp_path / 'words'}", index)
    (tmp_path / "words" / "embeddings.safetensors").unlink()
    with pytest.raises(InputError, match="embeddings.safetensors"):
        rerankers.load(f"wmd-title:{tmp_path / 'words'}", index)
