"""Conv-KNRM against numbers worked out by hand and its plain twin; the fused path against the module."""

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
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.kernels.parallel import Workspace
from rerank_plugin.models.checkpoints import save_checkpoint
from rerank_plugin.models.conv_knrm.fused import FusedConvKnrm
from rerank_plugin.models.conv_knrm.model import ConvKnrm, ConvKnrmConfig, all_of_window, same_ngrams, similarities
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors
from tests import guarded, small
from tests.models import plain_conv_knrm

QUERY = Query("q1", "aspirin heart attack xylitol")  # xylitol is in the index, not in the vocabulary: UNK
QUERIES = [
    QUERY,
    Query("q2", "cancer"),
    Query("q3", "Women who smoke, risk of stroke"),
    Query("q4", "migraine zyzzyva nowhere migraine"),
    Query("q5", "quokka xylitol"),  # unknown words alone, which are matched all the same
    Query("q6", "xylitol zyzzyva nowhere heart"),
]
EMPTY = [row for row, (_, title, abstract) in enumerate(small.DOCUMENTS) if not title + abstract]

both_paths = pytest.mark.parametrize("fast", [False, True], ids=["module", "fused"])


def scatter(model, seed):
    """Weights that make the scores of different documents differ, without driving tanh to its ends."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for layer in model.convolutions:
            layer.weight.normal_(0, 1 / layer.weight[0].numel() ** 0.5)
            layer.bias.normal_(0, 0.1)
        model.layer.weight.normal_(0, 0.3)
        model.layer.weight.sub_(model.layer.weight.mean())  # most kernels are without a match: that must not add up
        model.layer.bias.normal_(0, 0.2)
    return model.eval()


TINY = {"filters": 9, "document_words": 30, "query_words": 7}


def conv_knrm(vectors, seed=1, **sizes):
    return scatter(ConvKnrm(ConvKnrmConfig(**{**TINY, **sizes}), torch.from_numpy(vectors.matrix)), seed)


def reranker(index, vectors, fast, seed=1, batch_size=1024, threads=1, **sizes):
    options = RerankerOptions(batch_size=batch_size, fast=fast, threads=threads)
    return NeuralReranker(conv_knrm(vectors, seed, **sizes), vectors.vocabulary, index, options)


def scores_of(index, one, query=QUERY, rows=None):
    return one.score(query, small.candidates(index, rows))


def assert_same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


# ------------------------------------------------------------------------------------------------------- by hand

VECTORS = torch.tensor([[-1.0, 2], [1, 0], [0, 1], [3, 4]])  # UNK, a, b, c


def golden_model():
    """n = 1: the word itself; n = 2: the sum of its words. The ReLU turns UNK into (0, 2)."""
    model = ConvKnrm(ConvKnrmConfig(filters=2, longest_ngram=2, document_words=4, query_words=3), VECTORS).eval()
    with torch.no_grad():
        for layer in model.convolutions:
            layer.weight.copy_(torch.eye(2)[:, :, None].expand_as(layer.weight))
            layer.bias.zero_()
        model.layer.weight.zero_()
        model.layer.bias.fill_(0.5)
    return model


def golden_inputs(documents, queries):
    """Texts of a, b, c and unknown x, y; padding is b: only the mask may say."""

    def padded(texts, length):
        ids = [["xabc".find(word.replace("y", "x")) for word in text] + [2] * (length - len(text)) for text in texts]
        terms = [["abcxy".find(word) for word in text] + [-1] * (length - len(text)) for text in texts]
        mask = [[True] * len(text) + [False] * (length - len(text)) for text in texts]
        return torch.tensor(ids), torch.tensor(mask), torch.tensor(terms)

    (documents, document_mask, document_terms), (queries, query_mask, query_terms) = (
        padded(documents, 4), padded(queries, 3),
    )  # fmt: skip
    features = torch.zeros(len(documents), 0)
    return Inputs(documents, document_mask, queries, query_mask, features, document_terms, query_terms)


def golden_similarities(model, inputs, query_size, document_size):
    queries = model.ngrams(inputs.queries, inputs.query_mask, query_size)
    documents = model.ngrams(inputs.documents, inputs.document_mask, document_size)
    same = (inputs.query_terms[:, :, None] == inputs.document_terms[:, None, :]) & (inputs.query_terms >= 0)[..., None]
    same = same_ngrams(same, query_size) if query_size == document_size else None
    found = similarities(queries, documents, same)[0]
    return found[queries.mask[0]][:, documents.mask[0]].tolist()


def test_golden_similarities():
    """Query "a b", document "c a": (1, 0) and (0, 1); (0.6, 0.8) and (1, 0); bigrams (1, 1) and (4, 4).

    1 / sqrt 2 = 0.70711; (0.6 + 0.8) / sqrt 2 = 0.98995.
    """
    model, inputs = golden_model(), golden_inputs(["ca"], ["ab"])
    near = pytest.approx
    assert golden_similarities(model, inputs, 1, 1) == [near([0.6, 1]), near([0.8, 0])]
    assert golden_similarities(model, inputs, 1, 2) == [near([0.70711], abs=1e-5), near([0.70711], abs=1e-5)]
    assert golden_similarities(model, inputs, 2, 1) == [near([0.98995, 0.70711], abs=1e-5)]
    assert golden_similarities(model, inputs, 2, 2) == [near([1.0])]


def test_golden_unknown_words():
    """Query "x y", document "y x y b": alone they are similar to themselves; "x b" is (0, 1), and similar to b."""
    model, inputs = golden_model(), golden_inputs(["yxyb"], ["xy"])
    assert golden_similarities(model, inputs, 1, 1) == [[0, 1, 0, 0], [1, 0, 1, 0]]
    assert golden_similarities(model, inputs, 2, 2) == [[0, 1, 0]]
    assert golden_similarities(model, inputs, 1, 2) == [[0, 0, 0]] * 2
    assert golden_similarities(model, inputs, 2, 1) == [[0, 0, 0, 0]]
    known = golden_inputs(["yxyb"], ["b"])
    assert golden_similarities(model, known, 1, 1) == [[0, 0, 0, 1]]
    assert golden_similarities(model, known, 1, 2) == [[0, 0, pytest.approx(1)]]


@pytest.mark.parametrize(
    ("document", "exact"),
    [
        ("ca", [0, None, 0, 0]),  # a is a; b is nothing; "a b" is "c a", and neither a nor c
        ("b", [None, 0, None, None]),
        ("abab", [np.log(2), np.log(2), None, np.log(3)]),  # "b a" is "a b" here
        ("", [None] * 4),
    ],
    ids=repr,
)
def test_golden_exact_features(document, exact):
    """The kernel around 1 of the four views, through weights of 1 each in turn; "ab" is the query.

    ``exact``: logarithms of counts of a, of b, of "ab" with words, of "ab" with bigrams; None for no match.
    """
    model, inputs, none = golden_model(), golden_inputs([document], ["ab"]), np.log(1e-10)
    a, b, cross, both = (none if count is None else count for count in exact)
    expected = [0.01 * (a + b), 0.01 * 2 * none, 0.01 * cross if document == "c" else 0.01 * none, 0.01 * both]
    for view, feature in enumerate(expected):
        with torch.no_grad():
            model.layer.weight.zero_()
            model.layer.weight[0, view * 11] = 1
            assert model(inputs).item() == pytest.approx(np.tanh(feature + 0.5), abs=1e-6)


def test_golden_wide_feature():
    """Query "a", document "c": cosine 0.6, one deviation from the kernel around 0.7: ln exp(-1/2) = -0.5.

    Of bigrams there are none: the query's have features of 0, and the document's are no match for a.
    """
    model, inputs = golden_model(), golden_inputs(["c"], ["a"])
    expected = {0 * 11 + 2: -0.005, 1 * 11 + 2: 0.01 * np.log(1e-10), 2 * 11 + 2: 0, 3 * 11 + 2: 0}
    for column, feature in expected.items():
        with torch.no_grad():
            model.layer.weight.zero_()
            model.layer.weight[0, column] = 2
            assert model(inputs).item() == pytest.approx(np.tanh(2 * feature + 0.5), abs=1e-6)


def test_windows_and_diagonals():
    assert all_of_window(torch.tensor([[True, True, False, True, True, True]]), 2).tolist() == [
        [True, False, False, True, True, False]
    ]
    same = torch.eye(4, dtype=torch.bool)[None]
    assert same_ngrams(same, 3)[0].int().tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0] * 4, [0] * 4]
    assert same_ngrams(same, 1).equal(same)


def test_the_papers_sizes():
    """128 filters of each size, 99 features."""
    model = ConvKnrm(ConvKnrmConfig(), torch.zeros(2, 300))
    assert [tuple(layer.weight.shape) for layer in model.convolutions] == [(128, 300, n) for n in (1, 2, 3)]
    assert tuple(model.layer.weight.shape) == (1, 99)


def test_a_query_without_words_has_the_score_of_the_bias():
    inputs = golden_inputs(["abca", ""], ["ab", "ab"])
    model = scatter(golden_model(), 0)
    found = model(inputs._replace(query_mask=torch.zeros_like(inputs.query_mask)))
    assert found.tolist() == pytest.approx([np.tanh(model.layer.bias.item())] * 2)


# ------------------------------------------------------------------------------------------------------- the twin


def words_with_vectors(texts, vectors):
    ids = vectors.vocabulary.lookup(texts)
    return [(text, vectors.matrix[id].tolist(), id > 0) for text, id in zip(texts, ids)]


def plain_scores(index, model, vectors, query, documents):
    """The twin's scores, from texts alone."""
    config, scores = model.config, []
    convolutions = [(layer.weight.tolist(), layer.bias.tolist()) for layer in model.convolutions]
    layer = (model.layer.weight[0].tolist(), model.layer.bias.item())
    words = words_with_vectors(index.query(query.text).terms[: config.query_words], vectors)
    for _, title, abstract in documents:
        texts = index.query(f"{title} {abstract}").terms[: config.document_words]
        document = words_with_vectors(texts, vectors)
        scores.append(plain_conv_knrm.score(document, words, convolutions, *layer))
    return scores


CONFIGURATIONS = [
    {},
    {"document_words": 5, "query_words": 3, "filters": 17},
    {"document_words": 1, "longest_ngram": 2},
    {"longest_ngram": 1, "filters": 3},
    {"longest_ngram": 4, "filters": 4},
]


@both_paths
@pytest.mark.parametrize("sizes", CONFIGURATIONS, ids=str)
@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.id)
def test_the_plain_model_gives_the_same_from_texts(index, vectors, fast, sizes, query):
    one = reranker(index, vectors, fast, **sizes)
    expected = plain_scores(index, one.model, vectors, query, small.DOCUMENTS)
    assert np.ptp(expected) > 0.05
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
def test_order_of_words_counts_for_longer_ngrams_only(index, vectors, fast):
    for longest, least, most in ((1, 0, 1e-6), (3, 1e-3, 2)):
        one = reranker(index, vectors, fast, longest_ngram=longest)
        found = scores_of(index, one, Query("q", "aspirin women stroke"))
        other = scores_of(index, one, Query("q", "stroke aspirin women"))
        assert least <= np.abs(found - other).max() <= most


@both_paths
@pytest.mark.parametrize("text", ["nowhere", "nowhere neverland", "", "?!"])
def test_a_query_that_is_nowhere_keeps_the_first_stage(index, vectors, fast, text, caplog):
    with caplog.at_level(logging.WARNING):
        found = scores_of(index, reranker(index, vectors, fast), Query("q7", text))
    assert found.tolist() == small.candidates(index).first_stage_scores.tolist()
    assert "q7" in caplog.text


@both_paths
def test_unknown_words_are_matched_by_identity(index, vectors, fast):
    """'Xylitol quokka. Quokka xylitol zyzzyva.' has both words twice and one bigram of two; no other document has any.

    Exact matches of words: ln 2 twice. Of bigrams: ln 1. There are no trigrams to be looked for.
    """
    one = reranker(index, vectors, fast)
    with torch.no_grad():
        one.model.layer.weight.zero_()
        one.model.layer.weight[0, 0], one.model.layer.weight[0, 4 * 11], one.model.layer.weight[0, 8 * 11] = 3, 2, 7
        one.model.layer.bias.zero_()
    found = scores_of(index, one, Query("q", "xylitol quokka"))
    row, none = [id for id, _, _ in small.DOCUMENTS].index("2"), np.log(1e-10)
    assert found[row] == pytest.approx(np.tanh(0.01 * 3 * 2 * np.log(2)), abs=1e-6)
    assert np.delete(found, row) == pytest.approx(np.tanh(0.01 * (3 * 2 + 2) * none), abs=1e-6)


@both_paths
def test_empty_document(index, vectors, fast):
    """No kernel has a match: ln 1e-10 for each n-gram of the query."""
    one = reranker(index, vectors, fast)
    weights, bias = one.model.layer.weight[0].double().reshape(3, -1).sum(dim=1).tolist(), one.model.layer.bias.item()
    for query, words in zip(QUERIES, (4, 1, 6, 4, 2, 4)):
        counts = [max(0, words - size + 1) for size in (1, 2, 3)]
        expected = np.tanh(0.01 * np.log(1e-10) * np.dot(counts, weights) + bias)
        assert scores_of(index, one, query, EMPTY) == pytest.approx([expected], abs=1e-6)


@both_paths
@pytest.mark.parametrize("words", [1, 2, 3, 4])
def test_documents_and_queries_shorter_than_an_ngram(index, vectors, fast, words):
    """Cut to 1 to 4 words, with and without room behind them."""
    text = "heart attack women risk stroke"
    tight = reranker(index, vectors, fast, document_words=words, longest_ngram=4)
    query = Query("q", " ".join(text.split()[:words]))
    found = scores_of(index, tight, query)
    expected = plain_scores(index, tight.model, vectors, query, small.DOCUMENTS)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    row = [id for id, _, _ in small.DOCUMENTS].index("a7")  # one word
    roomy = reranker(index, vectors, fast, document_words=50, query_words=12, longest_ngram=4)
    assert_same(scores_of(index, roomy, query, [row]), found[[row]])


@both_paths
def test_cutting_texts_changes_scores(index, vectors, reference, fast):
    for cut in ({"document_words": 3}, {"query_words": 2}):
        assert np.abs(scores_of(index, reranker(index, vectors, fast, **cut)) - reference)[0] > 1e-4


@both_paths
def test_no_candidates(index, vectors, fast):
    found = scores_of(index, reranker(index, vectors, fast), rows=[])
    assert found.shape == (0,) and found.dtype == np.float32


@both_paths
@pytest.mark.parametrize("where", ["weight", "bias", "filter", "vector"])
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
        elif where == "filter":
            one.model.convolutions[1].weight[3, 2, 1] = float("nan")
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


hyper_parameters = st.fixed_dictionaries(
    {
        "filters": st.integers(1, 40),
        "longest_ngram": st.integers(1, 4),
        "document_words": st.integers(1, 90),
        "query_words": st.integers(1, 18),
    }
)


def test_fused_scores_are_the_modules():
    """To 1e-5 of the largest score; where the module's own rounding is worse than that, to four times its error.

    (Near a cosine of 1 the narrow kernel makes an error of 1e-7 up to a thousand times as large.)
    """
    spreads, exceptions = [], []

    @settings(max_examples=120, deadline=None)
    @given(
        seed=st.integers(0, 2**32 - 1),
        sizes=hyper_parameters,
        kind=st.sampled_from(["normal", "grid", "offset"]),
        dimension=st.integers(1, 20),
        threads=st.integers(1, 3),
        table_bytes=st.sampled_from([0, 2**30]),
    )
    def check(seed, sizes, kind, dimension, threads, table_bytes):
        random = np.random.default_rng(seed)
        with tempfile.TemporaryDirectory() as folder:
            index, vectors, words = random_collection(folder, random, dimension, kind)
            text = " ".join(random.choice(words, random.integers(1, sizes["query_words"] + 3)))
            rows = random.integers(len(index), size=random.integers(1, 40))
            model = conv_knrm(vectors, seed % 1000, **sizes)
            builder = InputBuilder(index, vectors.vocabulary, sizes["document_words"], sizes["query_words"], ())
            terms, candidates = index.query(text), small.candidates(index, rows)
            query = builder.query(terms)
            inputs = builder.build(terms, query, candidates)
            with torch.inference_mode():
                expected, exact = model(inputs).numpy(), copy.deepcopy(model).double()(inputs).numpy()
            found = FusedConvKnrm(model, builder, threads, table_bytes).score(terms, query, candidates)
        largest, error = max(np.abs(expected).max(), 1e-3), np.abs(expected - exact).max()
        assert found.dtype == np.float32 and found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * largest + 4 * error)
        if len(set(rows.tolist())) > 1:
            spreads.append(np.ptp(expected) / largest)
        exceptions.append(np.abs(found - expected).max() > 1e-5 * largest)

    check()
    assert np.mean(np.array(spreads) > 0.01) > 0.5  # documents of no words have no spread
    assert np.mean(exceptions) < 0.05


@pytest.mark.parametrize("filters", [16, 128])
def test_many_cosines_near_one(tmp_path, filters):
    """Words that are all but the same: the narrow kernel is full of what is neither 0 nor 1."""
    random = np.random.default_rng(filters)
    words = [f"w{number}" for number in range(60)]
    matrix = random.normal(size=(1, 30)) + 10.0 ** random.uniform(-4, -0.5, (61, 1)) * random.normal(size=(61, 30))
    vectors = WordVectors(Vocabulary(words), matrix.astype(np.float32))
    texts = [" ".join(random.choice(words, random.integers(0, 60))) for _ in range(30)]
    index = small.build_index(tmp_path / "forward", [(f"d{i}", text, "") for i, text in enumerate(texts)])
    query = Query("q", "w1 w2 w3 w4 w5")
    plain, fused = (reranker(index, vectors, fast, filters=filters, document_words=60) for fast in (False, True))
    expected = scores_of(index, plain, query)
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(scores_of(index, fused, query), expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_a_table_that_is_too_large_is_made_for_each_query(index, vectors):
    """The limit is met to the byte: taps of the words of the index that the model knows, and of UNK."""
    model = conv_knrm(vectors)
    builder = InputBuilder(index, vectors.vocabulary, 30, 7, ())
    words = 1 + sum(word in vectors.vocabulary.ids for word in index.terms.take(range(len(index.terms))))
    size = words * 6 * 16 * 4  # nine filters are padded to 16
    kept, made = FusedConvKnrm(model, builder, 1, size), FusedConvKnrm(model, builder, 1, size - 1)
    assert kept.table.nbytes == size and made.table is None
    for query in QUERIES:
        terms = index.query(query.text)
        found, expected = (one.score(terms, builder.query(terms), small.candidates(index)) for one in (made, kept))
        assert np.ptp(expected) > 0.05
        assert_same(found, expected)


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
    sizes = {"filters": 12, "longest_ngram": 2, "document_words": 9, "query_words": 5}
    model = conv_knrm(vectors, **sizes)
    save_checkpoint(tmp_path / "saved", model, vectors, {})
    one = rerankers.load(f"conv-knrm:{tmp_path / 'saved'}", index, RerankerOptions(fast=fast))
    assert one.model.config == model.config
    expected = scores_of(index, reranker(index, vectors, fast, **sizes))
    assert scores_of(index, one).tolist() == expected.tolist()
    assert "vectors" not in json.dumps(sorted(model.state_dict()))


def test_training_lowers_the_loss(index, vectors):
    """Documents that say 'heart' over those that do not; the fused path follows the weights."""
    model = ConvKnrm(ConvKnrmConfig(**TINY), torch.from_numpy(vectors.matrix))
    one = NeuralReranker(model, vectors.vocabulary, index)
    query = Query("q", "heart")
    before = one.score(query, small.candidates(index))
    builder, terms = one.builder, index.query(query.text)
    inputs = builder.build(terms, builder.query(terms), small.candidates(index))
    says = torch.tensor(["heart" in f"{title} {abstract}".lower() for _, title, abstract in small.DOCUMENTS])
    optimizer, losses = torch.optim.Adam(model.parameters(), 0.03), []
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


def test_convolutions_and_layer_are_trained(index, vectors):
    model = conv_knrm(vectors)
    assert {name.split(".")[0] for name, _ in model.named_parameters()} == {"convolutions", "layer"}
    assert model.regularized() == {}
    builder = InputBuilder(index, vectors.vocabulary, 30, 7, ())
    terms = index.query("heart of quokka risk")
    model(builder.build(terms, builder.query(terms), small.candidates(index))).sum().backward()
    for name, parameter in model.named_parameters():
        assert torch.isfinite(parameter.grad).all() and parameter.grad.abs().max() > 1e-6, name


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"document_words": 0}, "at least 1"),
        ({"query_words": 0}, "at least 1"),
        ({"filters": 0}, "at least 1"),
        ({"longest_ngram": 0}, "at least 1"),
        ({"lexical_features": ("bm25_title",)}, "no lexical features"),
    ],
)
def test_wrong_hyper_parameters(wrong, said):
    with pytest.raises(InputError, match=said):
        ConvKnrmConfig(**wrong)
