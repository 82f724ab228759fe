"""Word Mover's Distance ([D18] 4.3.2): by hand, against linear programming, and against a plain twin."""

import logging
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin import rerankers
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.models import checkpoints
from rerank_plugin.rerankers import RerankerOptions, wmd, wmd_fused
from rerank_plugin.rerankers.least_distances import least_distances
from rerank_plugin.rerankers.wmd import STOP_WORDS, WordMoversDistance, relaxed_cost, transport_cost
from rerank_plugin.text import word_vectors
from rerank_plugin.text.tokenizer import tokenize
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors
from tests import small
from tests.rerankers import plain_wmd

FAST, PLAIN = RerankerOptions(threads=1), RerankerOptions(fast=False)
both = pytest.mark.parametrize("options", [FAST, PLAIN], ids=["fused", "plain"])


def index_of(folder, titles):
    return small.build_index(
        folder, [(f"d{row}", title, "heart in every abstract") for row, title in enumerate(titles)]
    )


def scores(reranker, text, rows=None):
    return reranker.score(Query("q", text), small.candidates(reranker.index, rows))


def fused_cost(costs, supplies, demands):
    """The compiled solver on a problem that is smaller than its room, as it is called for titles."""
    problem = wmd_fused.new_problem(len(supplies) + 2, len(demands))
    problem.costs[:], problem.supplies[:] = np.nan, -1
    problem.costs[: len(supplies)], problem.demands[:] = costs, demands * supplies.sum()
    problem.supplies[: len(supplies)] = supplies * demands.sum()
    return wmd_fused.solve(problem, len(supplies)) / (supplies.sum() * demands.sum())


# On a line that runs through the plane, 5 apart: red at (0, 0), meat at (3, 4), cancer at (6, 8); wine 5 off the line.
LINE = WordVectors(
    Vocabulary(["red", "meat", "cancer", "wine", "of"]),
    np.array([[50, 50], [0, 0], [3, 4], [6, 8], [-4, 3], [0, 1]], np.float32),
)
BY_HAND = [  # query, title, distance, relaxed distance: the greater of the mean ways from query to title and back
    ("red", "meat", 5, 5),
    ("red", "Red", 0, 0),
    ("red meat", "meat red", 0, 0),
    ("red meat", "meat cancer", 5, 2.5),  # both move by 5, or one stays and the other moves by 10
    ("red", "meat cancer", 7.5, 7.5),  # half of red to each
    ("red meat", "red meat cancer", 2.5, 5 / 3),  # a sixth of meat to red, a third of cancer to meat
    ("red meat", "red red meat", 5 / 6, 0),  # masses 2/3 and 1/3 against halves: a sixth moves
    ("red red meat", "red meat", 5 / 6, 0),
    ("red red meat", "meat cancer", 35 / 6, 10 / 3),  # 2/3 of red and half of it all move by 5; from cancer: 5/2
    ("red", "wine wine wine", 5, 5),
    ("red tofu", "tofu meat", 5, 5),  # tofu has no vector: it is as if it were not there
    ("meat", "red wine", 0.5 * 5 + 0.5 * math.sqrt(50), 0.5 * 5 + 0.5 * math.sqrt(50)),  # wine to meat: (7, 1)
    ("red", "tofu", math.inf, math.inf),
]


@pytest.mark.parametrize("query, title, distance, bound", BY_HAND)
def test_by_hand(tmp_path, query, title, distance, bound):
    index = index_of(tmp_path / "forward", [title])
    fused, plain = (WordMoversDistance(index, LINE, options) for options in (FAST, PLAIN))
    for one in (fused, plain):
        expected = -distance if math.isfinite(distance) else one.floor
        assert scores(one, query)[0] == pytest.approx(expected, abs=1e-6)
    for found in bounds(fused, query):
        assert found == pytest.approx([bound])
    texts, known = (query.split(), title.lower().split()), dict(zip(LINE.vocabulary.words[1:], LINE.matrix[1:]))
    assert plain_wmd.distance(*texts, known) == pytest.approx(distance, abs=1e-6)
    assert plain_wmd.relaxed(*texts, known) == pytest.approx(bound)


def bounds(reranker, text):
    """Bounds of all titles, compiled and plain: nothing is solved."""
    ids, counts = reranker.query_words(text)
    found = []

    def keep(lower, exact, count):
        found.append(lower.copy())
        return lower

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wmd_fused, "least_distances", keep)
        patch.setattr(wmd, "least_distances", keep)
        for path in (reranker.fused, reranker):
            path.distances(ids, counts, small.candidates(reranker.index), 1)
    return found


@st.composite
def problems(draw):
    """Costs of any kind, also with ties, and counts of words."""
    n, m = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["distances", "ties", "any", "same words"]))
    if kind == "ties":
        costs = generator.integers(0, 4, (n, m)).astype(np.float64)
    elif kind == "any":
        costs = generator.uniform(0, 10.0 ** generator.integers(-3, 4), (n, m))
    else:
        sources, sinks = generator.normal(size=(n, 5)), generator.normal(size=(m, 5))
        if kind == "same words":
            sources[: min(n, m)] = sinks[: min(n, m)]
        costs = np.linalg.norm(sources[:, None] - sinks[None], axis=2)
    most = draw(st.sampled_from([1, 2, 7]))
    return costs, generator.integers(1, most + 1, n), generator.integers(1, most + 1, m)


@given(problems())
def test_the_compiled_solver_agrees_with_linear_programming(problem):
    costs, supplies, demands = problem
    expected = transport_cost(costs, supplies, demands)
    assert fused_cost(costs, supplies, demands) == pytest.approx(expected, rel=1e-9, abs=1e-9 * max(costs.max(), 1e-3))
    turned = fused_cost(np.ascontiguousarray(costs.T), demands, supplies)
    assert turned == pytest.approx(expected, rel=1e-9, abs=1e-9 * max(costs.max(), 1e-3))


@pytest.mark.parametrize("n, m", [(70, 90), (150, 12), (12, 150), (1, 200), (200, 1)])
def test_long_texts(n, m):
    generator = np.random.default_rng(n)
    costs = np.linalg.norm(generator.normal(size=(n, 1, 20)) - generator.normal(size=(1, m, 20)), axis=2)
    supplies, demands = generator.integers(1, 4, n), generator.integers(1, 4, m)
    expected = transport_cost(costs, supplies, demands)
    assert expected > 1 and fused_cost(costs, supplies, demands) == pytest.approx(expected, rel=1e-9)


WORDS = "red meat cancer wine the of in heart attack risk xylitol quokka".split()  # the last two have no vector
UNKNOWN = WORDS[-2:]
titles = st.lists(st.sampled_from(WORDS), max_size=12)


@given(
    st.lists(titles, min_size=1, max_size=8),
    st.lists(st.sampled_from(WORDS + ["unheard"]), max_size=9),
    st.integers(0, 1000),
    st.booleans(),
)
def test_fused_plain_and_the_twin_agree(tmp_path_factory, documents, query, seed, keep_stop_words):
    index = index_of(tmp_path_factory.mktemp("wmd") / "forward", [" ".join(title) for title in documents])
    vectors = small.word_vectors([word for word in WORDS if word not in UNKNOWN], dimension=4, seed=seed)
    left_out = frozenset() if keep_stop_words else STOP_WORDS
    fused, plain = (WordMoversDistance(index, vectors, options, left_out) for options in (FAST, PLAIN))
    known = dict(zip(vectors.vocabulary.words[1:], vectors.matrix[1:]))
    expected = np.array([plain_wmd.distance(query, title, known, left_out) for title in documents])

    ids, counts = fused.query_words(" ".join(query))
    if not len(ids):
        assert np.isinf(expected).all()
        return
    found = fused.fused.distances(ids, counts, small.candidates(index))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found, plain.distances(ids, counts, small.candidates(index)), rtol=1e-9, atol=1e-9)
    one, other = scores(fused, " ".join(query)), scores(plain, " ".join(query))
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
    assert one.dtype == np.float32 and np.isfinite(one).all()
    assert (one[np.isinf(expected)] < one[np.isfinite(expected)].min(initial=np.inf)).all()


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Titles of 0 to 20 words, some of which have no vector."""
    generator = np.random.default_rng(6)
    words = np.array([f"word{number}x" for number in range(80)])
    index = index_of(
        tmp_path_factory.mktemp("many") / "forward",
        [" ".join(words[generator.integers(0, 80, generator.integers(0, 21))]) for _ in range(300)],
    )
    return index, small.word_vectors(list(words[:60]), dimension=9, seed=2)


QUERY = "word3x word7x word7x word70x word41x word15x"


@pytest.fixture(params=[FAST, PLAIN], ids=["fused", "plain"])
def reranker(many, request):
    return WordMoversDistance(*many, request.param)


def test_threads_score_at_once(many):
    """Several queries over one reranker, each in a thread of its own."""
    reranker = WordMoversDistance(*many, FAST)
    queries = [
        " ".join(f"word{number}x" for number in row) for row in np.random.default_rng(9).integers(0, 60, (24, 6))
    ]
    expected = [scores(reranker, text) for text in queries]
    with ThreadPoolExecutor(4) as pool:
        for found, one in zip(pool.map(lambda text: scores(reranker, text), queries), expected):
            np.testing.assert_array_equal(found, one)


def test_what_does_not_matter_in_a_query(reranker):
    rows = range(0, 300, 15)
    expected = scores(reranker, "word3x word7x word41x", rows)
    for same in ("word41x word3x word7x", "Word3x, word7x; WORD41x?", "word3x word7x word41x word3x word7x word41x",
                 "word3x word75x word7x unheard word41x"):  # fmt: skip
        np.testing.assert_allclose(scores(reranker, same, rows), expected, rtol=1e-6)
    assert np.abs(scores(reranker, "word3x word7x word41x word41x", rows) - expected).max() > 0.01


@given(problems())
def test_the_relaxed_cost_is_a_lower_bound(problem):
    costs, supplies, demands = problem
    bound, exact = relaxed_cost(costs, supplies, demands), transport_cost(costs, supplies, demands)
    assert 0 <= bound <= exact * (1 + 1e-9) + 1e-12
    if min(costs.shape) == 1:
        assert bound == pytest.approx(exact, rel=1e-9)


@given(
    st.lists(titles, min_size=1, max_size=80),
    st.lists(st.sampled_from(WORDS[:-2]), min_size=1, max_size=6),
    st.integers(0, 1000),
    st.sampled_from([1, 2, 3, 10, 100]),
    st.booleans(),
)
def test_the_first_k_are_those_of_the_full_computation(tmp_path_factory, documents, query, seed, k, flat):
    """Flat: words lie in a grid, so that distances tie and the k-th best one is often that of many titles."""
    index = index_of(tmp_path_factory.mktemp("top") / "forward", [" ".join(title) for title in documents])
    known = [word for word in WORDS if word not in UNKNOWN]
    vectors = small.word_vectors(known, dimension=2 if flat else 4, seed=seed)
    if flat:
        vectors = WordVectors(vectors.vocabulary, np.round(vectors.matrix))
    candidates, text = small.candidates(index), " ".join(query)
    full, top = (WordMoversDistance(index, vectors, FAST, exact_top=count) for count in (None, k))
    expected, found = scores(full, text), scores(top, text)
    best = candidates.order(expected)[:k]
    np.testing.assert_array_equal(candidates.order(found)[:k], best)
    np.testing.assert_array_equal(found[best], expected[best])
    assert (found >= expected).all() and np.isfinite(found).all()
    where = dict(zip(known, vectors.matrix[1:]))
    for bound in bounds(full, text):
        np.testing.assert_allclose(bound, [plain_wmd.relaxed(query, title, where) for title in documents], atol=1e-9)


@pytest.mark.parametrize(
    ("options", "k"),
    [(FAST, 1), (FAST, 20), (FAST, 300), (FAST, 1000), (RerankerOptions(threads=3), 9), (PLAIN, 5)],
    ids=["one", "twenty", "all", "more", "threads", "plain"],
)
def test_the_first_k_of_many(many, options, k):
    full, top = (WordMoversDistance(*many, options, exact_top=count) for count in (None, k))
    rows = range(0, 300, 3 if options is PLAIN else 1)
    candidates = small.candidates(full.index, rows)
    for text in (QUERY,) if options is PLAIN else (QUERY, "word3x", "word1x word2x word2x", "word8x word75x"):
        expected, found = scores(full, text, rows), scores(top, text, rows)
        best = candidates.order(expected)[:k]
        np.testing.assert_array_equal(candidates.order(found)[:k], best)
        np.testing.assert_array_equal(found[best], expected[best])
    not_solved = (scores(top, QUERY, rows) > scores(full, QUERY, rows)).sum()
    assert not_solved > 30 if k <= 20 else not_solved == 0


def test_titles_are_solved_until_the_next_bound_is_worse():
    """The third best of 1,000 is known after the first round: 3 titles and 32, as far as bounds go."""
    exact = np.arange(1000) / 8.0
    solved = []

    def solve(places):
        solved.extend(places.tolist())
        return exact[places]

    found = least_distances(exact * 0.5, solve, 3)
    assert solved == [0, 1, 2, 3, 4]  # the bound of 4 is the distance of 2
    np.testing.assert_array_equal(found[:5], exact[:5])
    np.testing.assert_allclose(found[5:], exact[5:] * 0.5, rtol=1e-8)
    solved.clear()
    np.testing.assert_array_equal(least_distances(np.zeros(1000), solve, 3), exact)
    assert sorted(solved) == list(range(1000))
    assert least_distances(np.zeros(0), solve, 3).shape == (0,)


def test_bounds_that_cannot_be_told_from_the_best_distance_are_solved():
    """By a float32, in which the bound would tie; and by its rounding, where a bound is the distance itself."""
    exact = np.array([1.0, 2.0])
    found = least_distances(np.array([1.0, 1 + 3e-8]), lambda places: exact[places], 1)
    np.testing.assert_array_equal(found, exact)
    halfway = 1 + 2.0**-24  # the next float64 is another float32
    exact = np.array([halfway, halfway])
    found = least_distances(np.array([0.5, np.nextafter(halfway, 2)]), lambda places: exact[places], 1)
    np.testing.assert_array_equal(found, exact)


def test_first_k_options(many):
    assert WordMoversDistance(*many, FAST, exact_top=7).name == "wmd-title-top7"
    for count in (0, -1):
        with pytest.raises(InputError, match=f"first {count} titles"):
            WordMoversDistance(*many, FAST, exact_top=count)


@both
def test_titles_without_known_words_come_last(index, vectors, options):
    """In small.DOCUMENTS: 'Xylitol quokka' and two empty titles."""
    reranker = WordMoversDistance(index, vectors, options)
    found = scores(reranker, "aspirin after surgery")
    without = [row for row, (_, title, _) in enumerate(small.DOCUMENTS) if title in ("", "Xylitol quokka")]
    assert without == [3, 4, 6] and set(found[without]) == {np.float32(reranker.floor)}
    assert np.delete(found, without).min() > reranker.floor and np.isfinite(found).all()
    order = small.candidates(index).order(found)
    # Decreasing id, in bytes: "é", "2", "100".
    assert [small.DOCUMENTS[row][0] for row in order[-3:]] == ["é", "2", "100"]


@both
def test_the_last_place_is_below_any_distance(tmp_path, options):
    """Also of two words as far apart as their lengths allow."""
    vectors = WordVectors(Vocabulary(["red", "meat"]), np.array([[0, 0], [1e6, 0], [-1e6, 0]], np.float32))
    index = index_of(tmp_path / "forward", ["red", "meat", "tofu"])
    red, meat, tofu = scores(WordMoversDistance(index, vectors, options), "red")
    assert red == 0 and meat == -2e6 and tofu < meat


@both
def test_a_query_without_known_words_leaves_the_order(index, vectors, options, caplog):
    reranker = WordMoversDistance(index, vectors, options)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            for text in ("xylitol quokka", "", "unheard"):
                found = reranker.score(Query(f"q {text}", text), small.candidates(index))
                np.testing.assert_array_equal(found, small.candidates(index).first_stage_scores)
    assert len(caplog.records) == 3 and "q xylitol quokka" in caplog.records[0].getMessage()


@both
def test_stop_words(tmp_path, vectors, options):
    index = index_of(tmp_path / "forward", ["risk of a heart attack", "risk heart attack", "of the and", "women"])
    keeping = WordMoversDistance(index, vectors, options)
    removing = WordMoversDistance(index, vectors, options, STOP_WORDS)
    assert (keeping.name, removing.name) == ("wmd-title", "wmd-title-nostop")
    kept, removed = (scores(one, "the risk of stroke") for one in (keeping, removing))
    assert abs(kept[0] - kept[1]) > 0.01 and removed[0] == removed[1]
    assert removed[2] == np.float32(removing.floor) and kept[2] > keeping.floor
    np.testing.assert_array_equal(removed, scores(removing, "risk stroke"))
    # A query of nothing but stop-words.
    np.testing.assert_array_equal(scores(removing, "of the"), small.candidates(index).first_stage_scores)


def test_lucene_s_stop_words():
    assert len(STOP_WORDS) == 33 and all(tokenize(word) == [word] for word in STOP_WORDS)


def test_a_models_checkpoint_holds_word_vectors_too(index, vectors, tmp_path):
    checkpoints.save_checkpoint(tmp_path / "delta", small.delta(vectors), vectors, {})
    word_vectors.save(vectors, tmp_path / "words", {})
    for place in ("delta", "words"):
        one = rerankers.load(f"wmd-title:{tmp_path / place}", index, FAST)
        expected = scores(WordMoversDistance(index, vectors, FAST), "heart attack of women")
        np.testing.assert_array_equal(scores(one, "heart attack of women"), expected)
    for name, stop_words, exact_top in (("nostop", STOP_WORDS, None), ("top20", frozenset(), 20)):
        one = rerankers.load(f"wmd-title-{name}:{tmp_path / 'words'}", index)
        assert (one.name, one.stop_words, one.exact_top) == (f"wmd-title-{name}", stop_words, exact_top)
    with pytest.raises(InputError, match="config.json"):
        rerankers.load(f"delta:{tmp_path / 'words'}", index)
    (tmp_path / "words" / "embeddings.safetensors").unlink()
    with pytest.raises(InputError, match="embeddings.safetensors"):
        rerankers.load(f"wmd-title:{tmp_path / 'words'}", index)
