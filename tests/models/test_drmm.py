"""DRMM against numbers worked out by hand and its plain twin; the fused path against the module."""

import copy
import json
import logging
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rerank_plugin import rerankers
from rerank_plugin.features.inputs import InputBuilder, Inputs
from rerank_plugin.features.interactions import candidate_words
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.kernels.parallel import Workspace
from rerank_plugin.models.checkpoints import save_checkpoint
from rerank_plugin.models.drmm.fused import FusedDrmm, _whole_vectors
from rerank_plugin.models.drmm.model import Drmm, DrmmConfig, bins_of, histograms, precise_cosines
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors
from rerank_plugin.training.pairs import make_pools
from tests import guarded, small
from tests.models import plain_drmm

QUERY = Query("q1", "aspirin heart attack xylitol")  # xylitol is in the index, not in the vocabulary: UNK
QUERIES = [
    QUERY,
    Query("q2", "cancer"),
    Query("q3", "Women who smoke, risk of stroke"),
    Query("q4", "migraine zyzzyva nowhere migraine"),
    Query("q5", "quokka xylitol"),  # unknown words alone, which are matched all the same
]
EMPTY = [row for row, (_, title, abstract) in enumerate(small.DOCUMENTS) if not title + abstract]

both_paths = pytest.mark.parametrize("fast", [False, True], ids=["module", "fused"])


def scatter(model, seed):
    """Weights that make the scores of different documents differ, without driving every tanh to its ends."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for layer in model.layers:
            layer.weight.normal_(0, 1.5 / layer.in_features**0.5)
            layer.bias.normal_(0, 0.3)
        model.gate.uniform_(-1.5, 1.5)
    return model.eval()


def drmm(vectors, seed=1, **hyper_parameters):
    return scatter(Drmm(DrmmConfig(**hyper_parameters), torch.from_numpy(vectors.matrix)), seed)


def reranker(index, vectors, fast, seed=1, batch_size=1024, threads=1, **hyper_parameters):
    options = RerankerOptions(batch_size=batch_size, fast=fast, threads=threads)
    return NeuralReranker(drmm(vectors, seed, **hyper_parameters), vectors.vocabulary, index, options)


def scores_of(index, one, query=QUERY, rows=None):
    return one.score(query, small.candidates(index, rows))


def assert_same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


# ------------------------------------------------------------------------------------------------------- by hand


def golden_inputs():
    """Query words a = (1, 0) and b = (0, 1), then padding. Documents: "a c c d ?" (? is unknown), and none.

    c = (3, 4), d = (-4, 3). IDFs are ln 2 and 0.
    """
    ids, unknown, padding = {"a": 1, "b": 2, "c": 3, "d": 4}, 0, 1  # padding is called a: only the mask may say
    return Inputs(
        documents=torch.tensor([[ids["a"], ids["c"], ids["c"], ids["d"], unknown, padding], [padding] * 6]),
        document_mask=torch.tensor([[True] * 5 + [False], [False] * 6]),
        queries=torch.tensor([[ids["a"], ids["b"], padding]] * 2),
        query_mask=torch.tensor([[True, True, False]] * 2),
        features=torch.zeros(2, 0),
        document_terms=torch.tensor([[11, 13, 13, 14, 15, -1], [-1] * 6]),
        query_terms=torch.tensor([[11, 12, -1]] * 2),
        query_idf=torch.tensor([[math.log(2), 0, 0]] * 2),
    )


VECTORS = torch.tensor([[5.0, 5], [1, 0], [0, 1], [3, 4], [-4, 3]])  # UNK first, with a vector that must not count


def test_golden_histograms():
    """Five bins: [-1, -.5) [-.5, 0) [0, .5) [.5, 1) and the word itself.

    a: itself 1, c .6, d -.8, unknown 0. b: a 0, c .8, d .6, unknown 0.
    """
    model, inputs = Drmm(DrmmConfig(bins=5), VECTORS), golden_inputs()
    counts = histograms(model.query_bins(inputs), inputs.document_mask, 5)
    assert counts[0, :2].tolist() == [[1, 0, 1, 2, 1], [0, 0, 2, 3, 0]]
    assert not counts[1].any()


def test_golden_score():
    """One hidden unit that reads the bins with weights 0, 0, 1, 2, 3 and bias -1; output weight 2, bias 0.5; gate 1.

    a: log10 of 2, 3 and 2 for bins 2, 3, 4: 0.30103 + 2 * 0.47712 + 3 * 0.30103 - 1 = 1.15836, tanh 0.82048;
       2 * 0.82048 + 0.5 = 2.14096, tanh 0.97275.
    b: log10 of 3 and 4: 0.47712 + 2 * 0.60206 - 1 = 0.68124, tanh 0.59237; 1.68474, tanh 0.93346.
    Shares: 2 to 1, of exp(ln 2) and exp(0). Score 2/3 * 0.97275 + 1/3 * 0.93346 = 0.95966.
    The empty document: tanh(-1) = -0.76159; 2 * -0.76159 + 0.5 = -1.02319, tanh -0.77116, for both words.
    """
    model = Drmm(DrmmConfig(bins=5, hidden=(1,)), VECTORS).eval()
    with torch.no_grad():
        model.layers[0].weight.copy_(torch.tensor([[0.0, 0, 1, 2, 3]]))
        model.layers[0].bias.fill_(-1)
        model.layers[1].weight.fill_(2)
        model.layers[1].bias.fill_(0.5)
        assert model(golden_inputs()).tolist() == pytest.approx([0.95966, -0.77116], abs=2e-5)


def test_golden_gates():
    """exp(2 ln 2) : exp(0) = 4 : 1; the padded slot, whose IDF of 0 would have a share, has none."""
    model = Drmm(DrmmConfig(), VECTORS)
    with torch.no_grad():
        model.gate.fill_(2)
    assert model.gates(golden_inputs())[0].tolist() == pytest.approx([0.8, 0.2, 0])


def test_a_query_without_words_scores_nothing():
    inputs = golden_inputs()
    inputs = inputs._replace(query_mask=torch.zeros_like(inputs.query_mask))
    assert scatter(Drmm(DrmmConfig(), VECTORS), 0)(inputs).tolist() == [0, 0]


def test_the_papers_sizes():
    """162 parameters ([D18] 4.3.4); about 450 in [K]."""

    def parameters(**hyper_parameters):
        return sum(one.numel() for one in Drmm(DrmmConfig(**hyper_parameters), VECTORS).parameters())

    assert parameters() == 162
    assert parameters(hidden=(14,)) == 450
    assert (DrmmConfig().bins, DrmmConfig().document_words) == (30, 200)


# ------------------------------------------------------------------------------------------------ borders of bins


@pytest.mark.parametrize(
    ("bins", "cosine", "expected"),
    [
        (30, -1.0, 0),
        (30, -1.0000002, 0),  # rounding may leave the interval
        (30, 0.0, 14),
        (30, 1.0, 28),  # not the same word
        (30, 1.0000002, 28),
        (30, 2 * 7 / 29 - 1 + 1e-5, 7),
        (30, 2 * 7 / 29 - 1 - 1e-5, 6),
        (31, 0.0, 15),
        (31, -4e-7, 15),  # as good as 0
        (31, -6e-7, 14),
        (2, -1.0, 0),
        (2, 1.0, 0),
    ],
)
def test_golden_bins(bins, cosine, expected):
    assert bins_of(torch.tensor([cosine], dtype=torch.float64), bins).tolist() == [expected]


@pytest.mark.parametrize("bins", [3, 5, 6, 11, 21, 26, 41, 51, 101])
def test_borders_belong_to_the_bin_above_whatever_rounding_does(bins):
    """Borders that are multiples of 1e-6, and cosines that miss them by what single precision misses."""
    borders = torch.linspace(-1, 1, bins, dtype=torch.float64)[:-1]
    for error in (-1e-7, -1e-15, 0, 1e-15, 1e-7):
        assert bins_of(borders + error, bins).tolist() == list(range(bins - 1))


def test_bins_are_as_wide_as_the_authors():
    """int((s + 1) / 2 * 29), away from borders."""
    cosines = np.random.default_rng(0).uniform(-1, 1, 2000)
    places = (cosines + 1) / 2 * 29
    cosines, places = cosines[np.abs(places - places.round()) > 1e-3], places[np.abs(places - places.round()) > 1e-3]
    assert bins_of(torch.from_numpy(cosines), 30).tolist() == places.astype(int).tolist()


def test_different_words_with_one_vector_are_no_exact_match():
    """Cosine 1, but another word: the last bin but one. The same unknown word is an exact match."""
    inputs = golden_inputs()._replace(
        documents=torch.tensor([[1, 2, 3, 0, 0, 0]]),
        document_terms=torch.tensor([[21, 22, 23, 24, 25, 26]]),
        document_mask=torch.ones(1, 6, dtype=torch.bool),
        queries=torch.tensor([[1, 0]]),
        query_terms=torch.tensor([[21, 25]]),
        query_mask=torch.ones(1, 2, dtype=torch.bool),
    )
    vectors = torch.tensor([[1.0, 2], [0.1, 0.7], [0.1, 0.7], [0.3, 2.1]])
    bins = Drmm(DrmmConfig(bins=30), vectors).query_bins(inputs)
    assert bins[0, 0].tolist() == [29, 28, 28, 14, 14, 14]
    assert bins[0, 1].tolist() == [14, 14, 14, 14, 29, 14]


def test_cosines_do_not_depend_on_the_length_of_vectors():
    """Numbers whose squares single precision cannot hold."""
    inputs = golden_inputs()
    expected = precise_cosines(VECTORS, inputs)
    for factor in (1e-30, 1e30):
        torch.testing.assert_close(precise_cosines(VECTORS * factor, inputs), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("dimension", [1, 2, 3, 16, 17, 200])
@pytest.mark.parametrize("kind", ["normal", "one", "half"])
def test_whole_vectors_are_off_by_no_more_than_is_said(dimension, kind):
    random = np.random.default_rng(dimension)
    vectors = random.normal(size=(300, dimension))
    if kind == "one":  # one large number, and small ones that are rounded away
        vectors[:, 1:] *= 1e-4
    elif kind == "half":  # all numbers of one size: rounding goes the same way everywhere
        vectors = np.sign(vectors)
    whole, scale, error = _whole_vectors(torch.from_numpy(vectors.astype(np.float32)))
    whole = whole.astype(np.int64)
    products = whole @ whole.T
    assert np.abs(products).max() < 2**31  # the kernel adds in 32 bits
    units = vectors.astype(np.float32).astype(np.float64)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    assert np.abs(products * scale - units @ units.T).max() <= error < 0.01


def grid_vectors(random, count, dimension):
    """Small whole numbers: cosines repeat, and many lie on borders of bins."""
    return random.integers(-3, 4, (count, dimension)).astype(np.float32)


def near_borders(random, count, bins):
    """Vectors in a plane whose cosines with the first are borders of bins, give or take less and less."""
    borders = np.linspace(-1, 1, bins)[random.integers(bins, size=count)]
    cosines = np.clip(borders + random.normal(size=count) * 10.0 ** random.integers(-9, -2, count), -1, 1)
    vectors = np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1) * random.uniform(0.5, 2, (count, 1))
    vectors[0] = [1.7, 0]
    return vectors.astype(np.float32)


@pytest.mark.parametrize("bins", [2, 5, 11, 30, 31, 101, 2001])
@pytest.mark.parametrize("kind", ["grid", "plane", "normal"])
def test_fused_bins_are_the_modules_to_the_last_count(tmp_path, bins, kind):
    random = np.random.default_rng(bins)
    known = [f"w{number}" for number in range(600)]
    matrix = {
        "grid": lambda: grid_vectors(random, 601, 3),
        "plane": lambda: np.concatenate([np.ones((1, 2)), near_borders(random, 600, bins)]).astype(np.float32),
        "normal": lambda: random.normal(size=(601, 40)).astype(np.float32),
    }[kind]()
    index = small.build_index(tmp_path / "forward", [("d", " ".join(known), "x0 x1 w3"), ("e", "x0 w1 w0", "")])
    model = Drmm(DrmmConfig(bins=bins, document_words=1000, query_words=9), torch.from_numpy(matrix))
    builder = InputBuilder(index, Vocabulary(known), 1000, 9, ())
    terms = index.query("w0 w1 w2 x0 nowhere w0 w77 w78")
    query, candidates = builder.query(terms), small.candidates(index)
    inputs = builder.build(terms, query, candidates)
    expected = model.query_bins(inputs).numpy()  # [2, M, N]
    words = candidate_words(builder, candidates, Workspace())
    found = FusedDrmm(model, builder, 1).bins(query, words)  # [U, m]
    assert len(np.unique(found)) > min(bins, 20) // 2
    for row, length in enumerate(words.lengths):
        np.testing.assert_array_equal(found[words.places[row, :length]].T, expected[row, :8, :length])


# ------------------------------------------------------------------------------------------------------- the twin


def words_with_vectors(texts, vectors):
    ids = vectors.vocabulary.lookup(texts)
    return [(text, vectors.matrix[id].tolist() if id else None) for text, id in zip(texts, ids)]


def plain_scores(index, model, vectors, query, documents):
    """The twin's scores, from texts alone."""
    config = model.config
    texts = [list(index.query(f"{title} {abstract}").terms) for _, title, abstract in documents]
    words = index.query(query.text).terms[: config.query_words]
    containing = [sum(word in text for text in texts) for word in words]
    idfs = [math.log(1 + (len(texts) - df + 0.5) / (df + 0.5)) for df in containing]
    layers = [(layer.weight.tolist(), layer.bias.tolist()) for layer in model.layers]
    return [
        plain_drmm.score(
            words_with_vectors(text[: config.document_words], vectors), words_with_vectors(words, vectors), idfs,
            config.bins, layers, model.gate.item(),
        )
        for text in texts
    ]  # fmt: skip


CONFIGURATIONS = [
    {},
    {"bins": 31, "hidden": ()},
    {"bins": 7, "hidden": (3, 17, 2), "document_words": 5, "query_words": 3},
    {"bins": 2, "hidden": (20,), "document_words": 1, "query_words": 1},
]


@both_paths
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=str)
@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.id)
def test_the_plain_model_gives_the_same_from_texts(index, vectors, fast, configuration, query):
    one = reranker(index, vectors, fast, **configuration)
    expected = plain_scores(index, one.model, vectors, query, small.DOCUMENTS)
    assert np.ptp(expected) > 0.02
    np.testing.assert_allclose(scores_of(index, one, query), expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@both_paths
@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("risk of a stroke in women and the heart", "risk stroke women heart"),
        ("the quokka is with xylitol", "quokka xylitol"),
        ("not of this", "not of this"),  # there is nothing else to go by
        ("heart attack", "heart attack"),
        ("of the risk of the failure of the heart", "risk failure heart"),  # cut afterwards
    ],
)
def test_stop_words_are_taken_out_of_queries(index, vectors, fast, text, kept):
    """The scores are those of the query without them; without the setting they count."""
    removing = reranker(index, vectors, fast, query_words=4, query_stopwords="remove")
    keeping = reranker(index, vectors, fast, query_words=4)
    found, expected = scores_of(index, removing, Query("q", text)), scores_of(index, keeping, Query("q", kept))
    assert found.tolist() == expected.tolist()
    twin = plain_scores(index, removing.model, vectors, Query("q", kept), small.DOCUMENTS)
    np.testing.assert_allclose(found, twin, rtol=0, atol=1e-5 * np.abs(twin).max())
    if text != kept:
        assert np.abs(found - scores_of(index, keeping, Query("q", text))).max() > 1e-4
    words = removing.builder.query(index.query(text))
    assert words.cut == 0 and words.mask.sum() == len(kept.split())


def test_training_reads_queries_without_stop_words(index, vectors):
    one = reranker(index, vectors, False, query_stopwords="remove")
    every = small.candidates(index)
    pools = make_pools([Query("q", "the risk of stroke")], {"q": {"9": 1, "10": 0}}, {"q": every}, one.builder)
    assert len(pools) == 1 and pools[0].words.mask.sum() == 2
    assert pools[0].words.terms[:2].tolist() == index.terms.find(["risk", "stroke"]).tolist()


# -------------------------------------------------------------------------------------- what must not change a score


@pytest.fixture(scope="module")
def reference(index, vectors):
    """The module's scores of all documents for QUERY; they differ from one another by far over 1e-6."""
    scores = scores_of(index, reranker(index, vectors, False))
    assert scores.dtype == np.float32 and scores.shape == (len(index),)
    assert np.min(np.diff(np.sort(scores))) > 1e-5 and np.ptp(scores) > 0.1
    return scores


@both_paths
def test_more_padding(index, vectors, reference, fast):
    longest = int(small.candidates(index).lengths.max())
    for document_words, query_words in [(longest, 4), (longest + 1, 5), (77, 31), (500, 16)]:
        one = reranker(index, vectors, fast, document_words=document_words, query_words=query_words)
        assert_same(scores_of(index, one), reference)


@both_paths
def test_other_batch_mates_and_orders(index, vectors, reference, fast):
    one, random = reranker(index, vectors, fast), np.random.default_rng(0)
    for size in [1, 1, 2, 3, 5, 9, 10]:
        rows = random.choice(len(index), size, replace=False)
        assert_same(scores_of(index, one, rows=rows), reference[rows])
    assert_same(scores_of(index, one, rows=[3, 0, 3]), reference[[3, 0, 3]])


@both_paths
@pytest.mark.parametrize("batch_size", [1, 3, 1024])
def test_batch_size(index, vectors, reference, fast, batch_size):
    assert_same(scores_of(index, reranker(index, vectors, fast, batch_size=batch_size)), reference)


@both_paths
def test_two_calls_and_other_queries_between(index, vectors, reference, fast):
    one = reranker(index, vectors, fast)
    for query in QUERIES:
        scores_of(index, one, query)
    for _ in range(2):
        assert_same(scores_of(index, one), reference)


@both_paths
def test_one_word_query(index, vectors, fast):
    """Its word has the whole share, whatever its IDF and however many slots are padded."""
    found = [scores_of(index, reranker(index, vectors, fast, query_words=m), Query("q", "heart")) for m in (1, 2, 16)]
    assert np.ptp(found[0]) > 0.02
    assert_same(found[1], found[0])
    assert_same(found[2], found[0])


@both_paths
def test_order_of_words_changes_nothing(index, vectors, fast):
    one = reranker(index, vectors, fast)
    found = scores_of(index, one, Query("q", "aspirin women stroke"))
    assert_same(scores_of(index, one, Query("q", "stroke aspirin women")), found)


@both_paths
@pytest.mark.parametrize("text", ["nowhere", "nowhere neverland", "", "?!"])
def test_a_query_that_is_nowhere_keeps_the_first_stage(index, vectors, fast, text, caplog):
    with caplog.at_level(logging.WARNING):
        found = scores_of(index, reranker(index, vectors, fast), Query("q7", text))
    assert found.tolist() == small.candidates(index).first_stage_scores.tolist()
    assert "q7" in caplog.text


@both_paths
def test_unknown_words_are_matched_by_identity(index, vectors, fast):
    """The model knows neither 'xylitol' nor 'quokka'; the one document that has them stands out, all others tie but for
    their lengths."""
    found = scores_of(index, reranker(index, vectors, fast), Query("q", "xylitol"))
    row = [id for id, _, _ in small.DOCUMENTS].index("2")
    assert np.abs(np.delete(found, row) - found[row]).min() > 1e-4


@both_paths
def test_empty_document(index, vectors, fast):
    """All histograms are empty, so its score is the same for every query; it is finite."""
    found = np.concatenate([scores_of(index, reranker(index, vectors, fast), query, EMPTY) for query in QUERIES])
    assert np.isfinite(found).all() and np.ptp(found) < 1e-6 and abs(found[0]) > 1e-3


@both_paths
def test_cutting_texts_changes_scores(index, vectors, reference, fast):
    for cut in ({"document_words": 3}, {"query_words": 2}):
        assert np.abs(scores_of(index, reranker(index, vectors, fast, **cut)) - reference)[0] > 1e-4


@both_paths
def test_no_candidates(index, vectors, fast):
    found = scores_of(index, reranker(index, vectors, fast), rows=[])
    assert found.shape == (0,) and found.dtype == np.float32


@both_paths
@pytest.mark.parametrize("where", ["layer", "gate"])
def test_nan_weights_name_document_and_query(index, vectors, fast, where):
    one = reranker(index, vectors, fast)
    with torch.no_grad():
        (one.model.gate if where == "gate" else one.model.layers[0].bias).fill_(float("nan"))
    with pytest.raises(InputError) as raised:
        one.score(Query("q17", "heart risk"), small.candidates(index, [8, 1]))
    assert "MED-14" in str(raised.value) and "q17" in str(raised.value)


# ---------------------------------------------------------------------------------------- the fused path, by chance


def random_collection(folder, random, dimension, kind):
    """An index of documents of any lengths, word vectors for some of its words, and words to ask for."""
    known = [f"w{number}" for number in range(random.integers(1, 15))]
    vocabulary = Vocabulary([*known, "m0"])  # m0 is in no document
    matrix = random.normal(size=(len(vocabulary), dimension)).astype(np.float32)
    if kind == "grid":
        matrix = grid_vectors(random, len(vocabulary), dimension)
    elif kind == "scaled":
        matrix *= (10.0 ** random.uniform(-20, 15, (len(vocabulary), 1))).astype(np.float32)
    documents = []
    for number in range(random.integers(1, 9)):
        said = random.choice([*known, "x0", "x1"], random.choice([0, 1, 2, 3, random.integers(0, 90)]))
        border = random.integers(0, len(said) + 1)
        documents.append((f"d{number}", " ".join(said[:border]), " ".join(said[border:])))
    index = small.build_index(Path(folder) / "forward", documents)
    return index, WordVectors(vocabulary, matrix), [*known, "m0", "x0", "n0"]  # x0 is UNK, n0 nowhere


hyper_parameters = st.fixed_dictionaries(
    {
        "bins": st.sampled_from([2, 3, 5, 11, 16, 17, 30, 31, 64]),
        "hidden": st.lists(st.integers(1, 40), max_size=3).map(tuple),
        "document_words": st.integers(1, 70),
        "query_words": st.integers(1, 18),
    }
)


def scores_in_double_precision(model, inputs):
    torch.set_default_dtype(torch.float64)
    try:
        found = copy.deepcopy(model).double()(inputs)
    finally:
        torch.set_default_dtype(torch.float32)
    assert found.dtype == torch.float64
    return found.numpy()


def test_fused_scores_are_the_modules():
    """To 1e-5 of the largest score; where the module's own rounding is worse than that, to four times its error."""
    spreads, rounding = [], []

    @settings(max_examples=120, deadline=None)
    @given(
        seed=st.integers(0, 2**32 - 1),
        sizes=hyper_parameters,
        kind=st.sampled_from(["normal", "grid", "scaled"]),
        dimension=st.integers(1, 40),
        threads=st.integers(1, 3),
    )
    def check(seed, sizes, kind, dimension, threads):
        random = np.random.default_rng(seed)
        with tempfile.TemporaryDirectory() as folder:
            index, vectors, words = random_collection(folder, random, dimension, kind)
            text = " ".join(random.choice(words, random.integers(1, sizes["query_words"] + 3)))
            rows = random.integers(len(index), size=random.integers(1, 40))
            model = drmm(vectors, seed % 1000, **sizes)
            builder = InputBuilder(index, vectors.vocabulary, sizes["document_words"], sizes["query_words"], ())
            terms, candidates = index.query(text), small.candidates(index, rows)
            query = builder.query(terms)
            with torch.inference_mode():
                inputs = builder.build(terms, query, candidates)
                expected, exact = model(inputs).numpy(), scores_in_double_precision(model, inputs)
            found = FusedDrmm(model, builder, threads).score(terms, query, candidates)
        largest = np.abs(expected).max()
        assert found.dtype == np.float32 and found.shape == expected.shape
        allowed = max(1e-5 * max(largest, 1e-3), 4 * np.abs(expected - exact).max())  # scores may cancel out to little
        np.testing.assert_allclose(found, expected, rtol=0, atol=allowed)
        rounding.append(allowed / max(largest, 1e-3))
        if len(set(rows.tolist())) > 1:
            spreads.append(np.ptp(expected) / max(largest, 1e-3))

    check()
    assert np.mean(np.array(rounding) > 1.001e-5) < 0.1
    assert np.mean(np.array(spreads) > 0.01) > 0.5  # documents of no words have no spread


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """140 documents, so that threads and parts have something to share, with the models over them."""
    random = np.random.default_rng(7)
    words = [f"w{number}" for number in range(300)]
    texts = [" ".join(random.choice(words, random.integers(0, 60))) for _ in range(140)]
    index = small.build_index(tmp_path_factory.mktemp("library") / "f", [(f"d{i}", t, "") for i, t in enumerate(texts)])
    return index, small.word_vectors(words[:250], 24, 5), Query("q", "w3 w77 w299 w100 w3")


def test_threads_and_candidates_change_not_a_bit(library):
    index, vectors, query = library
    expected = scores_of(index, reranker(index, vectors, True), query)
    assert np.ptp(expected) > 0.05
    for threads in (2, 3):
        many = reranker(index, vectors, True, threads=threads)
        for rows in (np.arange(140), np.arange(140)[::-1], [5], [139, 0, 7, 7], np.arange(37)):
            assert scores_of(index, many, query, rows).tolist() == expected[rows].tolist()


def test_what_is_in_memory_before_changes_not_a_bit(library, monkeypatch):
    index, vectors, query = library
    expected = scores_of(index, reranker(index, vectors, True), query)
    poison = guarded.Poisoned()
    monkeypatch.setattr(Workspace, "array", lambda *arguments: poison.array(*arguments))
    one = reranker(index, vectors, True)
    for rows in (np.arange(140), [5], [139, 0, 7, 7]):
        assert scores_of(index, one, query, rows).tolist() == expected[rows].tolist()
    assert len(poison.given) >= 15 and not poison.overrun()


# -------------------------------------------------------------------------------------------- checkpoints, training


@both_paths
def test_a_checkpoint_gives_the_same_scores(tmp_path, index, vectors, fast):
    sizes = {"bins": 12, "hidden": (4, 3), "document_words": 9, "query_words": 5}
    model = drmm(vectors, **sizes)
    save_checkpoint(tmp_path / "saved", model, vectors, {})
    one = rerankers.load(f"drmm:{tmp_path / 'saved'}", index, RerankerOptions(fast=fast))
    assert one.model.config == model.config
    expected = scores_of(index, reranker(index, vectors, fast, **sizes))
    assert scores_of(index, one).tolist() == expected.tolist()
    assert "vectors" not in json.dumps(sorted(model.state_dict()))


def test_training_lowers_the_loss(index, vectors):
    """Documents that say 'heart' over those that do not; the fused path follows the weights."""
    model = Drmm(DrmmConfig(), torch.from_numpy(vectors.matrix))
    one = NeuralReranker(model, vectors.vocabulary, index)
    query = Query("q", "heart")
    before = one.score(query, small.candidates(index))
    builder, terms = one.builder, index.query(query.text)
    inputs = builder.build(terms, builder.query(terms), small.candidates(index))
    says = torch.tensor(["heart" in f"{title} {abstract}".lower() for _, title, abstract in small.DOCUMENTS])
    optimizer, losses = torch.optim.Adam(model.parameters(), 0.01), []
    model.train()
    for _ in range(60):
        scores = model(inputs)
        loss = (1 - scores[says][:, None] + scores[~says][None, :]).clamp_min(0).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
    assert all(torch.isfinite(one).all() for one in model.parameters())
    model.eval()
    one.refresh()
    after = one.score(query, small.candidates(index))
    assert np.abs(after - before).max() > 0.1
    assert after[says.numpy()].min() > after[~says.numpy()].max()


def test_only_layers_and_gate_are_trained(vectors):
    model = drmm(vectors)
    assert {name.split(".")[0] for name, _ in model.named_parameters()} == {"layers", "gate"}
    assert model.regularized() == {}


def test_the_gate_learns(index, vectors):
    model = drmm(vectors)
    builder = InputBuilder(index, vectors.vocabulary, 30, 7, ())
    terms = index.query("heart of quokka")
    model(builder.build(terms, builder.query(terms), small.candidates(index))).sum().backward()
    assert abs(model.gate.grad.item()) > 1e-4


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"bins": 1}, "1 bins"),
        ({"hidden": (5, 0)}, "at least 1"),
        ({"document_words": 0}, "at least 1"),
        ({"query_words": 0}, "at least 1"),
        ({"lexical_features": ("bm25_title",)}, "no lexical features"),
        ({"query_stopwords": "yes"}, "query_stopwords is 'yes'"),
    ],
)
def test_wrong_hyper_parameters(wrong, said):
    with pytest.raises(InputError, match=said):
        DrmmConfig(**wrong)
