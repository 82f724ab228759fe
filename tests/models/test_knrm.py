"""KNRM against numbers worked out by hand and its plain twin; the fused path against the module."""

import copy
import json
import logging
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rerank_plugin import rerankers
from rerank_plugin.features.inputs import InputBuilder, Inputs
from rerank_plugin.features.interactions import cosine_matrix
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.kernels.parallel import Workspace
from rerank_plugin.models.checkpoints import save_checkpoint
from rerank_plugin.models.knrm.fused import FusedKnrm
from rerank_plugin.models.knrm.model import DEVIATIONS, MEANS, Knrm, KnrmConfig, kernel_features, soft_counts
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors
from tests import guarded, small
from tests.models import plain_knrm

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
    """Weights that make the scores of different documents differ, without driving tanh to its ends."""
    torch.manual_seed(seed)
    with torch.no_grad():
        model.layer.weight.normal_(0, 1)
        model.layer.bias.normal_(0, 0.2)
    return model.eval()


def knrm(vectors, seed=1, **sizes):
    return scatter(Knrm(KnrmConfig(**sizes), torch.from_numpy(vectors.matrix)), seed)


def reranker(index, vectors, fast, seed=1, batch_size=1024, threads=1, **sizes):
    options = RerankerOptions(batch_size=batch_size, fast=fast, threads=threads)
    return NeuralReranker(knrm(vectors, seed, **sizes), vectors.vocabulary, index, options)


def scores_of(index, one, query=QUERY, rows=None):
    return one.score(query, small.candidates(index, rows))


def assert_same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


# ------------------------------------------------------------------------------------------------------- by hand

VECTORS = torch.tensor([[5.0, 5], [1, 0], [0, 1], [3, 4]])  # UNK first, with a vector that must not count
NEAR, FAR = 0.606531, 0.011109  # a kernel one and three deviations from its mean: exp(-1/2), exp(-9/2)


def golden_inputs():
    """Query words a = (1, 0) and b = (0, 1), then padding. Documents: "a c ?" (? is unknown), and none; c = (3, 4)."""
    ids, unknown, padding = {"a": 1, "b": 2, "c": 3}, 0, 1  # padding is called a: only the mask may say
    return Inputs(
        documents=torch.tensor([[ids["a"], ids["c"], unknown, padding], [padding] * 4]),
        document_mask=torch.tensor([[True] * 3 + [False], [False] * 4]),
        queries=torch.tensor([[ids["a"], ids["b"], padding]] * 2),
        query_mask=torch.tensor([[True, True, False]] * 2),
        features=torch.zeros(2, 0),
        document_terms=torch.tensor([[11, 13, 15, -1], [-1] * 4]),
        query_terms=torch.tensor([[11, 12, -1]] * 2),
    )


def golden_counts():
    inputs = golden_inputs()
    return soft_counts(cosine_matrix(VECTORS, inputs), inputs.document_mask)


def test_golden_counts():
    """Cosines of a: 1 (itself), 0.6, 0 (unknown). Of b: 0, 0.8, 0.

    exp(-(5 * 0.1)^2 / 0.02), five deviations from the mean, is 0.0000037.
    """
    counts = golden_counts()
    farther = 3.7e-6
    expected = [
        # 1, 0.9, 0.7, 0.5, 0.3, 0.1, -0.1, -0.3, -0.5
        [1, NEAR + FAR, FAR + NEAR, farther + NEAR + farther, 2 * FAR, farther + NEAR, NEAR, FAR, farther],
        [0, NEAR, NEAR, FAR + 2 * farther, farther + 2 * FAR, 2 * NEAR, 2 * NEAR, 2 * FAR, 2 * farther],
    ]
    np.testing.assert_allclose(counts[0, :2, :9], expected, rtol=0, atol=1.5e-6)
    assert counts[0, :2, 9].numpy() == pytest.approx([2.29e-11, 4.58e-11], rel=1e-2)  # seven deviations: exp(-49/2)
    assert not counts[1].any()


def test_golden_features():
    """Exact matches: ln 1 of a, and ln 1e-10 of b, which has none; of the empty document ln 1e-10 everywhere."""
    features = kernel_features(golden_counts(), golden_inputs().query_mask)
    assert features[0, 0].item() == pytest.approx(-0.2302585)
    # around 0.1: 0.01 * (ln 0.606535 + ln 1.213061) = 0.01 * (-0.499993 + 0.193147)
    assert features[0, 5].item() == pytest.approx(-0.00306846, abs=1e-7)
    assert features[1].tolist() == pytest.approx([-0.460517] * 11)


def test_golden_score():
    """Weights 2 for exact matches, -50 around 0.1: 2 * -0.2302585 + 50 * 0.00306846 + 0.4 = 0.0929060.

    Of the empty document: 48 * 0.460517 + 0.4 = 22.5, of which tanh is 1.
    """
    model = Knrm(KnrmConfig(), VECTORS).eval()
    with torch.no_grad():
        model.layer.weight.zero_()
        model.layer.weight[0, 0], model.layer.weight[0, 5] = 2, -50
        model.layer.bias.fill_(0.4)
        assert model(golden_inputs()).tolist() == pytest.approx([np.tanh(0.0929060), 1.0], abs=1e-6)


def test_the_authors_kernels():
    assert list(zip(MEANS, DEVIATIONS)) == plain_knrm.kernels()
    assert sum(one.numel() for one in Knrm(KnrmConfig(), VECTORS).parameters()) == 12


def test_a_query_without_words_has_the_score_of_the_bias():
    inputs = golden_inputs()
    model = scatter(Knrm(KnrmConfig(), VECTORS), 0)
    found = model(inputs._replace(query_mask=torch.zeros_like(inputs.query_mask)))
    assert found.tolist() == pytest.approx([np.tanh(model.layer.bias.item())] * 2)


# ------------------------------------------------------------------------------------------------------- the twin


def words_with_vectors(texts, vectors):
    ids = vectors.vocabulary.lookup(texts)
    return [(text, vectors.matrix[id].tolist() if id else None) for text, id in zip(texts, ids)]


def plain_scores(index, model, vectors, query, documents):
    """The twin's scores, from texts alone."""
    config, scores = model.config, []
    words = words_with_vectors(index.query(query.text).terms[: config.query_words], vectors)
    for _, title, abstract in documents:
        texts = index.query(f"{title} {abstract}").terms[: config.document_words]
        document = words_with_vectors(texts, vectors)
        scores.append(plain_knrm.score(document, words, model.layer.weight[0].tolist(), model.layer.bias.item()))
    return scores


@both_paths
@pytest.mark.parametrize("sizes", [{}, {"document_words": 5, "query_words": 3}, {"document_words": 1}], ids=str)
@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.id)
def test_the_plain_model_gives_the_same_from_texts(index, vectors, fast, sizes, query):
    one = reranker(index, vectors, fast, **sizes)
    expected = plain_scores(index, one.model, vectors, query, small.DOCUMENTS)
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(scores_of(index, one, query), expected, rtol=0, atol=1e-5 * np.abs(expected).max())


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
def test_a_word_said_twice_counts_twice(index, vectors, fast):
    """Before tanh, and without the bias."""
    one = reranker(index, vectors, fast)
    bias = one.model.layer.bias.item()
    once, twice = (np.arctanh(scores_of(index, one, Query("q", text))) - bias for text in ("heart", "heart heart"))
    np.testing.assert_allclose(twice, 2 * once, rtol=0, atol=2e-6)


@both_paths
@pytest.mark.parametrize("text", ["nowhere", "nowhere neverland", "", "?!"])
def test_a_query_that_is_nowhere_keeps_the_first_stage(index, vectors, fast, text, caplog):
    with caplog.at_level(logging.WARNING):
        found = scores_of(index, reranker(index, vectors, fast), Query("q7", text))
    assert found.tolist() == small.candidates(index).first_stage_scores.tolist()
    assert "q7" in caplog.text


@both_paths
def test_unknown_words_are_matched_by_identity(index, vectors, fast):
    """'xylitol' is in one document only, and no other word is similar to it: the others differ in length alone."""
    one = reranker(index, vectors, fast)
    with torch.no_grad():
        one.model.layer.weight.zero_()
        one.model.layer.weight[0, 0] = 3
    found = scores_of(index, one, Query("q", "xylitol"))
    row = [id for id, _, _ in small.DOCUMENTS].index("2")
    assert found[row] - np.delete(found, row).max() > 0.1 and np.ptp(np.delete(found, row)) < 1e-6


@both_paths
def test_empty_document(index, vectors, fast):
    """No kernel has a match: ln 1e-10 for each query word."""
    one = reranker(index, vectors, fast)
    weights, bias = one.model.layer.weight.sum().item(), one.model.layer.bias.item()
    for query, words in zip(QUERIES, (4, 1, 6, 4, 2)):
        expected = np.tanh(0.01 * np.log(1e-10) * words * weights + bias)
        assert scores_of(index, one, query, EMPTY) == pytest.approx([expected], abs=1e-6)


@both_paths
def test_cutting_texts_changes_scores(index, vectors, reference, fast):
    for cut in ({"document_words": 3}, {"query_words": 2}):
        assert np.abs(scores_of(index, reranker(index, vectors, fast, **cut)) - reference)[0] > 1e-4


@both_paths
def test_no_candidates(index, vectors, fast):
    found = scores_of(index, reranker(index, vectors, fast), rows=[])
    assert found.shape == (0,) and found.dtype == np.float32


@both_paths
@pytest.mark.parametrize("where", ["weight", "bias", "vector"])
def test_nan_weights_name_document_and_query(index, vectors, fast, where):
    own = vectors._replace(matrix=vectors.matrix.copy())
    if where == "vector":
        own.matrix[own.vocabulary.ids["heart"]] = np.nan
    one = reranker(index, own, fast)
    with torch.no_grad():
        if where == "weight":
            one.model.layer.weight[0, 4] = float("nan")
        elif where == "bias":
            one.model.layer.bias.fill_(float("nan"))
    with pytest.raises(InputError) as raised:
        one.score(Query("q17", "heart risk"), small.candidates(index, [8, 1]))
    assert "MED-14" in str(raised.value) and "q17" in str(raised.value)


# ---------------------------------------------------------------------------------------- the fused path, by chance


def random_vectors(random, count, dimension, kind):
    vectors = random.normal(size=(count, dimension))
    if kind == "grid":  # many cosines are 1, 0 or -1
        vectors = random.integers(-1, 2, (count, dimension))
    elif kind == "offset":  # all words are similar
        vectors += 3 * random.normal(size=(1, dimension))
    return vectors.astype(np.float32)


def random_collection(folder, random, dimension, kind):
    """An index of documents of any lengths, word vectors for some of its words, and words to ask for."""
    known = [f"w{number}" for number in range(random.integers(1, 15))]
    vocabulary = Vocabulary([*known, "m0"])  # m0 is in no document
    matrix = random_vectors(random, len(vocabulary), dimension, kind)
    documents = []
    for number in range(random.integers(1, 9)):
        said = random.choice([*known, "x0", "x1"], random.choice([0, 1, 2, 3, 4, random.integers(0, 90)]))
        border = random.integers(0, len(said) + 1)
        documents.append((f"d{number}", " ".join(said[:border]), " ".join(said[border:])))
    index = small.build_index(Path(folder) / "forward", documents)
    return index, WordVectors(vocabulary, matrix), [*known, "m0", "x0", "x1", "n0"]  # x0, x1 are UNK, n0 nowhere


def test_fused_scores_are_the_modules():
    """To 1e-5 of the largest score; where the module's own rounding is worse than that, to four times its error."""
    spreads = []

    @settings(max_examples=120, deadline=None)
    @given(
        seed=st.integers(0, 2**32 - 1),
        document_words=st.integers(1, 70),
        query_words=st.integers(1, 40),
        kind=st.sampled_from(["normal", "grid", "offset"]),
        dimension=st.integers(1, 40),
        threads=st.integers(1, 3),
    )
    def check(seed, document_words, query_words, kind, dimension, threads):
        random = np.random.default_rng(seed)
        with tempfile.TemporaryDirectory() as folder:
            index, vectors, words = random_collection(folder, random, dimension, kind)
            text = " ".join(random.choice(words, random.integers(1, query_words + 3)))
            rows = random.integers(len(index), size=random.integers(1, 40))
            model = knrm(vectors, seed % 1000, document_words=document_words, query_words=query_words)
            builder = InputBuilder(index, vectors.vocabulary, document_words, query_words, ())
            terms, candidates = index.query(text), small.candidates(index, rows)
            query = builder.query(terms)
            inputs = builder.build(terms, query, candidates)
            with torch.inference_mode():
                expected, exact = model(inputs).numpy(), copy.deepcopy(model).double()(inputs).numpy()
            found = FusedKnrm(model, builder, threads).score(terms, query, candidates)
        largest = max(np.abs(expected).max(), 1e-3)
        assert found.dtype == np.float32 and found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * largest + 4 * np.abs(expected - exact).max())
        if len(set(rows.tolist())) > 1:
            spreads.append(np.ptp(expected) / largest)

    check()
    assert np.mean(np.array(spreads) > 0.01) > 0.5  # documents of no words have no spread


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """140 documents, so that threads and parts have something to share, with word vectors and a query."""
    random = np.random.default_rng(7)
    words = [f"w{number}" for number in range(700)]
    texts = [" ".join(random.choice(words, random.integers(0, 60))) for _ in range(140)]
    index = small.build_index(tmp_path_factory.mktemp("library") / "f", [(f"d{i}", t, "") for i, t in enumerate(texts)])
    return index, small.word_vectors(words[:650], 24, 5), Query("q", "w3 w77 w299 w699 w3")


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
    assert len(poison.given) >= 12 and not poison.overrun()


# -------------------------------------------------------------------------------------------- checkpoints, training


@both_paths
def test_a_checkpoint_gives_the_same_scores(tmp_path, index, vectors, fast):
    sizes = {"document_words": 9, "query_words": 5}
    model = knrm(vectors, **sizes)
    save_checkpoint(tmp_path / "saved", model, vectors, {})
    one = rerankers.load(f"knrm:{tmp_path / 'saved'}", index, RerankerOptions(fast=fast))
    assert one.model.config == model.config
    expected = scores_of(index, reranker(index, vectors, fast, **sizes))
    assert scores_of(index, one).tolist() == expected.tolist()
    assert "vectors" not in json.dumps(sorted(model.state_dict()))


def test_training_lowers_the_loss(index, vectors):
    """Documents that say 'heart' over those that do not; the fused path follows the weights."""
    model = Knrm(KnrmConfig(), torch.from_numpy(vectors.matrix))
    one = NeuralReranker(model, vectors.vocabulary, index)
    query = Query("q", "heart")
    before = one.score(query, small.candidates(index))
    builder, terms = one.builder, index.query(query.text)
    inputs = builder.build(terms, builder.query(terms), small.candidates(index))
    says = torch.tensor(["heart" in f"{title} {abstract}".lower() for _, title, abstract in small.DOCUMENTS])
    optimizer, losses = torch.optim.Adam(model.parameters(), 0.1), []
    model.train()
    for _ in range(60):
        scores = model(inputs)
        loss = (1 - scores[says][:, None] + scores[~says][None, :]).clamp_min(0).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    model.eval()
    one.refresh()
    after = one.score(query, small.candidates(index))
    assert np.abs(after - before).max() > 0.1
    assert after[says.numpy()].min() > after[~says.numpy()].max()


def test_only_the_layer_is_trained(vectors):
    model = knrm(vectors)
    assert [name for name, _ in model.named_parameters()] == ["layer.weight", "layer.bias"]
    assert model.regularized() == {}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"document_words": 0}, "at least 1"),
        ({"query_words": 0}, "at least 1"),
        ({"lexical_features": ("bm25_title",)}, "no lexical features"),
    ],
)
def test_wrong_hyper_parameters(wrong, said):
    with pytest.raises(InputError, match=said):
        KnrmConfig(**wrong)
