"""PACRR against the paper's example, numbers worked out by hand and its plain twin; the fused path against both."""

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
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.kernels.parallel import Workspace
from rerank_plugin.models.checkpoints import save_checkpoint
from rerank_plugin.models.pacrr.fused import FILTERS, FusedPacrr, pack_filters
from rerank_plugin.models.pacrr.model import Pacrr, PacrrConfig, firstk, idf_shares, kwindow, strongest
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors
from tests import guarded, small
from tests.models import plain_pacrr

QUERY = Query("q1", "aspirin heart attack xylitol")  # xylitol is in the index, not in the vocabulary: UNK
QUERIES = [
    QUERY,
    Query("q2", "cancer"),
    Query("q3", "Women who smoke, risk of stroke"),
    Query("q4", "migraine zyzzyva nowhere migraine"),
    Query("q5", "quokka xylitol"),  # unknown words alone, which are matched all the same
]
EMPTY = [row for row, (_, title, abstract) in enumerate(small.DOCUMENTS) if not title + abstract]
FIRSTK = {"document_words": 60, "query_words": 7, "filters": 5}
KWINDOW = {**FIRSTK, "distillation": "kwindow", "distilled_words": 6}  # which most documents fill

both_paths = pytest.mark.parametrize("fast", [False, True], ids=["module", "fused"])
both_distillations = pytest.mark.parametrize("sizes", [FIRSTK, KWINDOW], ids=["firstk", "kwindow"])


def scatter(model, seed, scale=1.0, bias=0.3):
    """Weights that make the scores of different documents differ, without driving the gates to their ends.

    Filters of very different lengths, as training makes them: some are never worth computing.
    """
    torch.manual_seed(seed)
    with torch.no_grad():
        for layer in model.convolutions:
            lengths = torch.exp(torch.empty(len(layer.weight)).uniform_(-4, 0))
            layer.weight.normal_(0, scale).mul_(lengths[:, None, None, None])
            layer.bias.normal_(0, bias)
        model.lstm.weight_ih_l0.normal_(0, 0.7)
        model.lstm.weight_hh_l0.normal_(0, 1)
        model.lstm.bias_ih_l0.normal_(0, 0.3)
        model.lstm.bias_hh_l0.normal_(0, 0.3)
    return model.eval()


def pacrr(vectors, seed=1, **sizes):
    return scatter(Pacrr(PacrrConfig(**sizes), torch.from_numpy(vectors.matrix)), seed)


def reranker(index, vectors, fast, seed=1, batch_size=1024, threads=1, **sizes):
    options = RerankerOptions(batch_size=batch_size, fast=fast, threads=threads)
    return NeuralReranker(pacrr(vectors, seed, **sizes), vectors.vocabulary, index, options)


def scores_of(index, one, query=QUERY, rows=None):
    return one.score(query, small.candidates(index, rows))


def assert_same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


# --------------------------------------------------------------------------------------- the paper's example, by hand

# [P] 2.1, a query of two terms, padded to l_q = 3, and a document of six
SIMILARITIES = torch.tensor([[[0.9, 0, 0.7, 0.1, 0.2, 0], [0.1, -0.1, -0.5, 0.8, 0, 0], [0, 0, 0, 0, 0, 0]]])
SIX_WORDS, TWO_TERMS = torch.ones(1, 6, dtype=torch.bool), torch.tensor([[True, True, False]])


def words_of(length, longest):
    return (torch.arange(longest) < length)[None]


def test_the_papers_example_of_firstk():
    found = firstk(SIMILARITIES, SIX_WORDS, 4)
    assert torch.equal(found.matrix[0], torch.tensor([[0.9, 0, 0.7, 0.1], [0.1, -0.1, -0.5, 0.8], [0, 0, 0, 0]]))
    assert found.windows.tolist() == [[True] * 4]


def test_firstk_pads_short_documents_with_zeros():
    found = firstk(SIMILARITIES, words_of(5, 6), 8)
    assert torch.equal(found.matrix[..., :6], SIMILARITIES) and not found.matrix[..., 6:].any()
    assert found.windows.tolist() == [[True] * 5 + [False] * 3]


def test_the_papers_example_of_kwindow_for_single_words():
    """Terms 1, 3, 4 and 5, in this order."""
    found = kwindow(SIMILARITIES, SIX_WORDS, TWO_TERMS, 1, 4)
    assert torch.equal(found.matrix[0], torch.tensor([[0.9, 0.7, 0.1, 0.2], [0.1, -0.5, 0.8, 0], [0, 0, 0, 0]]))
    assert found.windows.tolist() == [[True] * 4]


def test_the_papers_example_of_kwindow_for_pairs():
    """The windows that begin at terms 3 and 4: term 4 is there twice, and term 1, the most similar one, is not."""
    found = kwindow(SIMILARITIES, SIX_WORDS, TWO_TERMS, 2, 4)
    assert torch.equal(found.matrix[0], torch.tensor([[0.7, 0.1, 0.1, 0.2], [-0.5, 0.8, 0.8, 0], [0, 0, 0, 0]]))
    assert found.windows.tolist() == [[True, True]]


def test_kwindow_takes_no_part_of_a_window():
    """Of three words there is room for one window in four columns: averages 1.6/3, 1.5/3, 1.7/3 and 1/3."""
    found = kwindow(SIMILARITIES, SIX_WORDS, TWO_TERMS, 3, 4)
    assert torch.equal(found.matrix[0], torch.tensor([[0.7, 0.1, 0.2, 0], [-0.5, 0.8, 0, 0], [0, 0, 0, 0]]))
    assert found.windows.tolist() == [[True]]


def test_kwindow_of_a_document_that_is_too_short():
    for length, windows in [(0, [False] * 2), (1, [False] * 2), (2, [True, False])]:
        for longest in {max(length, 1), 6}:
            found = kwindow(SIMILARITIES[..., :longest], words_of(length, longest), TWO_TERMS, 2, 4)
            assert found.windows.tolist() == [windows] and found.matrix.shape == (1, 3, 4)
            kept = SIMILARITIES[..., :length] if length == 2 else torch.zeros(1, 3, 0)
            assert torch.equal(found.matrix, torch.nn.functional.pad(kept, (0, 4 - kept.shape[2])))


def test_kwindow_prefers_any_word_to_padding_and_no_padded_term():
    """Dissimilar words are words; a padded term, similar with 0 to everything, makes none of them more similar."""
    similarities = torch.tensor([[[-0.5, -0.2, -0.4, 0, 0], [0, 0, 0, 0, 0]]])
    found = kwindow(similarities, words_of(3, 5), torch.tensor([[True, False]]), 1, 2)
    assert torch.equal(found.matrix[0, 0], torch.tensor([-0.2, -0.4])) and found.windows.all()


def test_kwindow_takes_the_first_of_equal_windows():
    """0.1, 0.1 and 0.5 in three orders, of which float32 finds the first the smallest."""
    row = torch.tensor([0.1, 0.1, 0.5, 0.1, 0.1])
    sums = row.unfold(0, 3, 1).sum(dim=1)
    assert sums[0] < sums.max()
    found = kwindow(row[None, None], words_of(5, 5), torch.tensor([[True]]), 3, 3)
    assert torch.equal(found.matrix[0, 0], row[:3])


def test_idf_shares_of_16_slots_are_of_the_terms_alone():
    idf = torch.tensor([[1.0, 0.8] + [0.0] * 14])
    found = idf_shares(idf, words_of(2, 16))
    assert found[0, :2].tolist() == pytest.approx([1 / (1 + math.exp(-0.2)), 1 / (1 + math.exp(0.2))])
    assert not found[0, 2:].any() and not idf_shares(idf, words_of(0, 16)).any()


def test_strongest_values_are_of_the_document_alone():
    cells = torch.tensor([[[-0.3, -0.1, -0.2, 9.0], [0.5, 0.5, -0.5, 9.0]]])
    windows = torch.tensor([[True, True, True, False]])
    assert torch.equal(strongest(cells, windows, 2)[0], torch.tensor([[-0.1, -0.2], [0.5, 0.5]]))
    assert torch.equal(strongest(cells, windows, 5)[0, 0], torch.tensor([-0.1, -0.2, -0.3, 0, 0]))


@pytest.mark.parametrize("words", [2, 3, 4, 5])
def test_filters_are_centred(words):
    """A filter that sees nothing but the cell it lies on gives the matrix back."""
    model = Pacrr(PacrrConfig(longest_ngram=5, filters=1), torch.zeros(1, 2))
    layer = model.convolutions[words - 2]
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
        layer.weight[0, 0, (words - 1) // 2, (words - 1) // 2] = 1
        matrix = torch.rand(2, 7, 9)
        assert torch.equal(model.convolve(words, matrix), matrix)


def test_windows_of_kwindow_are_read_one_by_one():
    """A filter that sees the first column of its window only; a fifth column is no window of two."""
    model = Pacrr(PacrrConfig(distillation="kwindow", filters=1), torch.zeros(1, 2))
    with torch.no_grad():
        model.convolutions[0].weight.zero_()
        model.convolutions[0].weight[0, 0, 0, 0] = 1
        matrix = torch.rand(1, 3, 5)
        assert torch.equal(model.convolve(2, matrix), matrix[:, :, [0, 2]])


def golden_model():
    """One filter ((1, 2), (3, 4)) - 0.5 and an LSTM with open gates that weighs its inputs with 0.1, 0.2, 0.4."""
    vectors = torch.tensor([[5.0, 5], [1, 0], [0, 1]])
    model = Pacrr(PacrrConfig(document_words=4, query_words=3, filters=1, signals=1, longest_ngram=2), vectors)
    with torch.no_grad():
        model.convolutions[0].weight[0, 0] = torch.tensor([[1.0, 2], [3, 4]])
        model.convolutions[0].bias.fill_(-0.5)
        for parameter in model.lstm.parameters():
            parameter.zero_()
        model.lstm.bias_ih_l0[[0, 1, 3]] = 100.0
        model.lstm.weight_ih_l0[2] = torch.tensor([0.1, 0.2, 0.4])
        model.lstm.weight_hh_l0[2] = 0.5
    return model.eval()


def golden_inputs():
    """Query "a b", then padding. Documents "a b" and none; padding is called a: only the mask may say."""
    return Inputs(
        documents=torch.tensor([[1, 2, 1, 1], [1, 1, 1, 1]]),
        document_mask=torch.tensor([[True, True, False, False], [False] * 4]),
        queries=torch.tensor([[1, 2, 1]] * 2),
        query_mask=torch.tensor([[True, True, False]] * 2),
        features=torch.zeros(2, 0),
        document_terms=torch.tensor([[11, 12, -1, -1], [-1] * 4]),
        query_terms=torch.tensor([[11, 12, -1]] * 2),
        query_idf=torch.tensor([[3.0, 3, 0]] * 2),
    )


def test_golden_score():
    """The matrix is the unit matrix. Of term a the filter gives 1 + 4 - 0.5 and 3 - 0.5, of term b 2 - 0.5 and 1 - 0.5.

    The LSTM reads (1, 4.5, 1/2) and (1, 1.5, 1/2): 0.1 + 0.9 + 0.2 = 1.2, and 0.6 with half of its first output.
    Of the empty document it reads (0, 0, 1/2) twice.
    """
    first = math.tanh(1.2)
    expected = math.tanh(first + math.tanh(0.6 + 0.5 * math.tanh(first)))
    nothing = math.tanh(0.2)
    of_nothing = math.tanh(nothing + math.tanh(0.2 + 0.5 * math.tanh(nothing)))
    with torch.no_grad():
        assert golden_model()(golden_inputs()).tolist() == pytest.approx([expected, of_nothing], abs=1e-6)


def test_a_query_without_words_scores_zero():
    inputs = golden_inputs()
    found = golden_model()(inputs._replace(query_mask=torch.zeros_like(inputs.query_mask)))
    assert found.tolist() == [0, 0]


# ------------------------------------------------------------------------------------------------------- the twin


def words_with_vectors(texts, vectors):
    ids = vectors.vocabulary.lookup(texts)
    return [(text, vectors.matrix[id].tolist() if id else None) for text, id in zip(texts, ids)]


def plain_scores(index, model, vectors, query, documents):
    """The twin's scores, from texts alone but for the IDF."""
    config, scores = model.config, []
    terms = index.query(query.text)
    words = words_with_vectors(terms.terms[: config.query_words], vectors)
    present = [term for term in terms.ids.tolist()[: config.query_words]]
    df = [sum(term in set(index.document_tokens(row).tolist()) for row in range(len(index))) for term in present]
    idf = [math.log(1 + (len(index) - count + 0.5) / (count + 0.5)) for count in df]
    convolutions = [
        list(zip(layer.weight[:, 0].tolist(), layer.bias.tolist())) for layer in model.convolutions
    ]  # fmt: skip
    lstm = model.lstm
    gates = (
        lstm.weight_ih_l0.tolist(),
        lstm.weight_hh_l0[:, 0].tolist(),
        (lstm.bias_ih_l0 + lstm.bias_hh_l0).tolist(),
    )
    distilled = config.distilled_words if config.distillation == "kwindow" else None
    for _, title, abstract in documents:
        texts = index.query(f"{title} {abstract}").terms[: config.document_words]
        document = words_with_vectors(texts, vectors)
        matrix = [[plain_pacrr.similarity(word, other) for other in document] for word in words]
        scores.append(plain_pacrr.score(matrix, idf, convolutions, config.signals, gates, distilled))
    return scores


@both_paths
@pytest.mark.parametrize(
    "sizes",
    [
        FIRSTK,
        KWINDOW,
        {**FIRSTK, "document_words": 5, "query_words": 3, "signals": 4},
        {**FIRSTK, "longest_ngram": 4, "signals": 1},
        {**FIRSTK, "longest_ngram": 1, "document_words": 1},
        {**KWINDOW, "longest_ngram": 5, "distilled_words": 11, "signals": 3},
        {**KWINDOW, "distilled_words": 3, "document_words": 11},
        {**KWINDOW, "distilled_words": 256},
    ],
    ids=lambda sizes: "-".join(str(size) for size in sizes.values()),
)
@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.id)
def test_the_plain_model_gives_the_same_from_texts(index, vectors, fast, sizes, query):
    one = reranker(index, vectors, fast, **sizes)
    expected = plain_scores(index, one.model, vectors, query, small.DOCUMENTS)
    assert np.ptp(expected) > 0.01
    np.testing.assert_allclose(scores_of(index, one, query), expected, rtol=0, atol=1e-5 * np.abs(expected).max())


# -------------------------------------------------------------------------------------- what must not change a score


@pytest.fixture(scope="module")
def references(index, vectors):
    """The module's scores of all documents for QUERY; they differ from one another by far over 1e-6."""
    found = {}
    for sizes in (FIRSTK, KWINDOW):
        scores = scores_of(index, reranker(index, vectors, False, **sizes))
        assert scores.dtype == np.float32 and scores.shape == (len(index),)
        assert np.min(np.diff(np.sort(scores))) > 1e-5 and np.ptp(scores) > 0.1
        found[sizes.get("distillation", "firstk")] = scores
    return found


@pytest.fixture
def reference(references, sizes):
    return references[sizes.get("distillation", "firstk")]


@both_paths
@both_distillations
def test_more_padding(index, vectors, reference, fast, sizes):
    longest = int(small.candidates(index).lengths.max())
    for document_words, query_words in [(longest, 4), (longest + 1, 5), (77, 31), (500, 16)]:
        wider = {**sizes, "document_words": document_words, "query_words": query_words}
        assert_same(scores_of(index, reranker(index, vectors, fast, **wider)), reference)


@both_distillations
def test_more_padding_of_the_module_itself(index, vectors, reference, sizes):
    """Without the adapter, which cuts common padding: words of padding, and terms of padding, that say something."""
    model = pacrr(vectors, **sizes)
    for document_words, query_words in [(50, 4), (61, 9)]:
        builder = InputBuilder(index, vectors.vocabulary, document_words, query_words, ())
        terms = index.query(QUERY.text)
        inputs = builder.build(terms, builder.query(terms), small.candidates(index))
        inputs = inputs._replace(
            documents=inputs.documents.masked_fill(~inputs.document_mask, vectors.vocabulary.ids["heart"]),
            queries=inputs.queries.masked_fill(~inputs.query_mask, vectors.vocabulary.ids["attack"]),
            query_idf=inputs.query_idf.masked_fill(~inputs.query_mask, 7.0),
        )
        long_text = inputs.take(slice(0, 1))._replace(  # keeps the others from being cut to their own length
            document_mask=torch.ones(1, document_words, dtype=torch.bool),
            query_mask=torch.ones(1, query_words, dtype=torch.bool),
        )
        both = Inputs.joined([inputs, long_text])
        with torch.no_grad():
            assert_same(model(both)[:-1].numpy(), reference)
            assert_same(model(inputs).numpy(), reference)


@both_paths
@both_distillations
def test_other_batch_mates_and_orders(index, vectors, reference, fast, sizes):
    one, random = reranker(index, vectors, fast, **sizes), np.random.default_rng(0)
    for size in [1, 1, 2, 3, 5, 9, 10]:
        rows = random.choice(len(index), size, replace=False)
        assert_same(scores_of(index, one, rows=rows), reference[rows])
    assert_same(scores_of(index, one, rows=[3, 0, 3]), reference[[3, 0, 3]])


@both_paths
@both_distillations
@pytest.mark.parametrize("batch_size", [1, 3, 1024])
def test_batch_size(index, vectors, reference, fast, sizes, batch_size):
    assert_same(scores_of(index, reranker(index, vectors, fast, batch_size=batch_size, **sizes)), reference)


@both_paths
@both_distillations
def test_two_calls_and_other_queries_between(index, vectors, reference, fast, sizes):
    one = reranker(index, vectors, fast, **sizes)
    for query in QUERIES:
        scores_of(index, one, query)
    for _ in range(2):
        assert_same(scores_of(index, one), reference)


@both_paths
@both_distillations
def test_one_word_query(index, vectors, fast, sizes):
    query = Query("q", "heart")
    found = [scores_of(index, reranker(index, vectors, fast, **{**sizes, "query_words": m}), query) for m in (1, 2, 16)]
    assert np.ptp(found[0]) > 0.02
    assert_same(found[1], found[0])
    assert_same(found[2], found[0])


@both_paths
@both_distillations
def test_order_of_query_words_matters(index, vectors, fast, sizes):
    one = reranker(index, vectors, fast, **sizes)
    found = scores_of(index, one, Query("q", "aspirin women stroke"))
    assert np.abs(scores_of(index, one, Query("q", "stroke aspirin women")) - found).max() > 1e-3


@both_paths
@pytest.mark.parametrize("text", ["nowhere", "nowhere neverland", "", "?!"])
def test_a_query_that_is_nowhere_keeps_the_first_stage(index, vectors, fast, text, caplog):
    with caplog.at_level(logging.WARNING):
        found = scores_of(index, reranker(index, vectors, fast, **FIRSTK), Query("q7", text))
    assert found.tolist() == small.candidates(index).first_stage_scores.tolist()
    assert "q7" in caplog.text


@both_paths
@both_distillations
def test_unknown_words_are_matched_by_identity(index, vectors, fast, sizes):
    """'xylitol' is in one document only, and no other word is similar to it: the others differ in length alone."""
    found = scores_of(index, reranker(index, vectors, fast, **sizes), Query("q", "xylitol"))
    row = [id for id, _, _ in small.DOCUMENTS].index("2")
    others = np.delete(found, [row, *EMPTY, [id for id, _, _ in small.DOCUMENTS].index("a7")])
    assert np.abs(found[row] - others).min() > 0.01 and np.ptp(others) < 1e-6


@both_paths
@both_distillations
def test_empty_document(index, vectors, fast, sizes):
    """The LSTM reads nothing but the shares of the IDF."""
    one = reranker(index, vectors, fast, **sizes)
    for query in QUERIES:
        expected = plain_scores(index, one.model, vectors, query, [("", "", "")])
        found = scores_of(index, one, query, EMPTY)
        assert abs(expected[0]) > 1e-3 and found == pytest.approx(expected, abs=1e-6)


@both_paths
@both_distillations
def test_a_document_shorter_than_the_windows(index, vectors, fast, sizes):
    """'Aspirin' is one word: filters see it between zeros, and kwindow has no window of two or three."""
    rows = [[id for id, _, _ in small.DOCUMENTS].index("a7")]
    found = [
        scores_of(
            index, reranker(index, vectors, fast, **{**sizes, "document_words": n, "longest_ngram": 5}), rows=rows
        )
        for n in (1, 2, 60)
    ]
    assert_same(found[1], found[0])
    assert_same(found[2], found[0])


@both_paths
@both_distillations
def test_cutting_texts_changes_scores(index, vectors, reference, fast, sizes):
    for cut in ({"document_words": 3}, {"query_words": 2}):
        found = scores_of(index, reranker(index, vectors, fast, **{**sizes, **cut}))
        assert np.abs(found - reference)[0] > 1e-4


@both_paths
def test_distilling_to_fewer_words_changes_scores(index, vectors, references, fast):
    for distilled_words in (3, 9, 60):
        sizes = {**KWINDOW, "distilled_words": distilled_words}
        found = scores_of(index, reranker(index, vectors, fast, **sizes))
        assert np.abs(found - references["kwindow"]).max() > 1e-4


@both_paths
def test_no_candidates(index, vectors, fast):
    found = scores_of(index, reranker(index, vectors, fast, **FIRSTK), rows=[])
    assert found.shape == (0,) and found.dtype == np.float32


@both_paths
@both_distillations
@pytest.mark.parametrize("where", ["filter", "bias", "lstm", "vector"])
def test_nan_weights_name_document_and_query(index, vectors, fast, sizes, where):
    own = vectors._replace(matrix=vectors.matrix.copy())
    if where == "vector":
        own.matrix[own.vocabulary.ids["heart"]] = np.nan
    one = reranker(index, own, fast, **sizes)
    with torch.no_grad():
        if where == "filter":
            one.model.convolutions[1].weight[3, 0, 0, 1] = float("nan")
        elif where == "bias":
            one.model.convolutions[0].bias[2] = float("nan")
        elif where == "lstm":
            one.model.lstm.weight_ih_l0[2, 3] = float("nan")
    with pytest.raises(InputError) as raised:
        one.score(Query("q17", "heart risk"), small.candidates(index, [8, 1]))
    assert "MED-14" in str(raised.value) and "q17" in str(raised.value)


# ---------------------------------------------------------------------------------------- the fused path, by chance


def random_vectors(random, count, dimension, kind):
    vectors = random.normal(size=(count, dimension))
    if kind == "grid":  # many cosines are 1, 0 or -1, and many windows equally similar
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
        said = random.choice([*known, "x0", "x1"], random.choice([0, 1, 2, 3, 4, 16, 17, random.integers(0, 90)]))
        border = random.integers(0, len(said) + 1)
        documents.append((f"d{number}", " ".join(said[:border]), " ".join(said[border:])))
    index = small.build_index(Path(folder) / "forward", documents)
    return index, WordVectors(vocabulary, matrix), [*known, "m0", "x0", "x1", "n0"]  # x0, x1 are UNK, n0 nowhere


@both_distillations
def test_fused_scores_are_the_modules(sizes):
    """To 1e-5 of the largest score; where the module's own rounding is worse than that, to four times its error."""
    spreads = []

    @settings(max_examples=90, deadline=None)
    @given(
        seed=st.integers(0, 2**32 - 1),
        document_words=st.integers(1, 90),
        query_words=st.integers(1, 17),
        filters=st.integers(1, 20),
        signals=st.integers(1, 5),
        longest_ngram=st.sampled_from([1, 2, 3, 3, 4, 5]),
        room=st.integers(0, 40),
        bias=st.sampled_from([0.0, 0.1, 1.0]),
        kind=st.sampled_from(["normal", "grid", "offset"]),
        dimension=st.integers(1, 40),
        threads=st.integers(1, 3),
    )
    def check(seed, room, bias, kind, dimension, threads, **drawn):
        random = np.random.default_rng(seed)
        config = {**sizes, **drawn, "distilled_words": drawn["longest_ngram"] + room}
        with tempfile.TemporaryDirectory() as folder:
            index, vectors, words = random_collection(folder, random, dimension, kind)
            text = " ".join(random.choice(words, random.integers(1, drawn["query_words"] + 3)))
            rows = random.integers(len(index), size=random.integers(1, 40))
            model = Pacrr(PacrrConfig(**config), torch.from_numpy(vectors.matrix))
            scatter(model, seed % 1000, scale=2 / drawn["longest_ngram"], bias=bias)
            builder = InputBuilder(index, vectors.vocabulary, config["document_words"], config["query_words"], ())
            terms, candidates = index.query(text), small.candidates(index, rows)
            query = builder.query(terms)
            inputs = builder.build(terms, query, candidates)
            with torch.inference_mode():
                expected, exact = model(inputs).numpy(), copy.deepcopy(model).double()(inputs).numpy()
            found = FusedPacrr(model, builder, threads).score(terms, query, candidates)
        largest = max(np.abs(expected).max(), 1e-3)
        assert found.dtype == np.float32 and found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * largest + 4 * np.abs(expected - exact).max())
        if len(set(rows.tolist())) > 1:
            spreads.append(np.ptp(expected) / largest)

    check()
    assert np.mean(np.array(spreads) > 0.01) > 0.5  # documents of no words have no spread


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), filters=st.integers(1, 13), longest_ngram=st.integers(2, 5))
def test_no_filter_gives_more_than_its_bound(seed, filters, longest_ngram):
    """Least of all to windows that point where a filter points; and the bound is near what the best of them gives."""
    random = np.random.default_rng(seed)
    convolutions = [
        (random.normal(size=(filters, n, n)).astype(np.float32), random.normal(size=filters).astype(np.float32))
        for n in range(2, longest_ngram + 1)
    ]
    packed = pack_filters(convolutions, filters)
    groups = packed.bias.shape[3]
    for words, (weights, _) in enumerate(convolutions, 2):
        rows = packed.weights[packed.starts[words] :][: groups * FILTERS * (1 + words**2)]
        rows = rows.reshape(groups, 1 + words**2, FILTERS).transpose(0, 2, 1).astype(np.float64)  # [G, FILTERS, 1 + T]
        assert {tuple(row) for row in rows[..., 1:].reshape(-1, words**2)} == {tuple(one.ravel()) for one in weights}
        for first in range(words):
            for last in range(first + 1, words + 1):
                biases, taps = rows[..., 0], rows[..., 1 + first * words : 1 + last * words]
                for group in range(groups):
                    windows = 100 * taps[group:].reshape(-1, taps.shape[2])
                    lengths = np.linalg.norm(windows, axis=1)
                    given_values = np.einsum("gft,wt->wgf", taps[group:], windows) + biases[group:]
                    bias, reach = packed.bias[words, first, last, group], packed.reach[words, first, last, group]
                    bounds = bias + lengths / reach
                    assert (given_values.max(axis=(1, 2)) < bounds).all()
                    steepest = np.argmax(lengths)
                    assert given_values[steepest].max() > 0.99 * bounds[steepest] - 2 * np.abs(biases).max()


@pytest.mark.parametrize("almost", [0.0, 2.0, 3.5, 3.9, 3.99])
def test_filters_that_come_late_are_not_forgotten(tmp_path, almost):
    """Four strong filters give ``almost`` at "a b", and a weak one 4 at "a a", which is all that its length allows."""
    index = small.build_index(tmp_path / "forward", [("1", "a b a a", ""), ("2", "b a b b", "")])
    vectors = WordVectors(Vocabulary(["a", "b"]), np.array([[0, 1], [1, 0], [0, 1]], np.float32))
    model = Pacrr(PacrrConfig(filters=5, signals=1, longest_ngram=2), torch.from_numpy(vectors.matrix)).eval()
    with torch.no_grad():
        model.convolutions[0].weight[:4] = torch.tensor([[almost / 2, -5], [almost / 2, -5]])
        model.convolutions[0].weight[4] = 1.0
        model.convolutions[0].bias.zero_()
        model.lstm.weight_ih_l0[:, 1] = torch.tensor([0.0, 0, 0.2, 0])  # which the values do not drive to its ends
    query = Query("q", "a a")
    expected = NeuralReranker(model, vectors.vocabulary, index, RerankerOptions(fast=False)).score(
        query, small.candidates(index)
    )
    found = NeuralReranker(model, vectors.vocabulary, index).score(query, small.candidates(index))
    assert_same(found, expected)


@pytest.mark.parametrize(("steps", "chosen"), [((8000.4, 8000.6), 1), ((8000.6, 8001.4), 0), ((-8000.6, -8000.4), 1)])
def test_similarities_are_compared_in_whole_steps(tmp_path, steps, chosen):
    """Of the document "b c" one word is kept: the more similar one, of those in the same step the first."""
    cosines = np.array([1, 0, *steps]) / 16384
    index = small.build_index(tmp_path / "forward", [("1", "b c", "")])
    matrix = np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1)[[1, 0, 2, 3]]
    matrix[1] = [1, 0]
    vectors = WordVectors(Vocabulary(["a", "b", "c"]), matrix.astype(np.float32))
    config = PacrrConfig(distillation="kwindow", distilled_words=1, longest_ngram=1, signals=1)
    model = Pacrr(config, torch.from_numpy(vectors.matrix)).eval()
    with torch.no_grad():
        for parameter in model.lstm.parameters():
            parameter.zero_()
        model.lstm.weight_ih_l0[2, 0] = 100.0
        model.lstm.bias_ih_l0[2] = -100 * sum(steps) / 2 / 16384
    nearest = small.candidates(index)
    expected = 0.5 * math.tanh(0.5 * math.tanh(100 * (steps[chosen] - sum(steps) / 2) / 16384))
    assert abs(expected) > 1e-4
    for fast in (False, True):
        one = NeuralReranker(model, vectors.vocabulary, index, RerankerOptions(fast=fast))
        assert one.score(Query("q", "a"), nearest).tolist() == pytest.approx([expected], abs=1e-5)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """140 documents, so that threads and parts have something to share, with word vectors and a query."""
    random = np.random.default_rng(7)
    words = [f"w{number}" for number in range(700)]
    texts = [" ".join(random.choice(words, random.integers(0, 130))) for _ in range(140)]
    index = small.build_index(tmp_path_factory.mktemp("library") / "f", [(f"d{i}", t, "") for i, t in enumerate(texts)])
    return index, small.word_vectors(words[:650], 24, 5), Query("q", "w3 w77 w299 w699 w3")


PAPERS = [{}, {"distillation": "kwindow", "distilled_words": 50}]
papers_sizes = pytest.mark.parametrize("sizes", PAPERS, ids=["firstk", "kwindow"])


@papers_sizes
def test_fused_scores_at_the_papers_size(library, sizes):
    index, vectors, query = library
    expected = scores_of(index, reranker(index, vectors, False, **sizes), query)
    assert np.ptp(expected) > 0.05
    found = scores_of(index, reranker(index, vectors, True, **sizes), query)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@papers_sizes
def test_threads_and_candidates_change_not_a_bit(library, sizes):
    index, vectors, query = library
    expected = scores_of(index, reranker(index, vectors, True, **sizes), query)
    for threads in (2, 3):
        many = reranker(index, vectors, True, threads=threads, **sizes)
        for rows in (np.arange(140), np.arange(140)[::-1], [5], [139, 0, 7, 7], np.arange(37)):
            assert scores_of(index, many, query, rows).tolist() == expected[rows].tolist()


@papers_sizes
def test_what_is_in_memory_before_changes_not_a_bit(library, monkeypatch, sizes):
    index, vectors, query = library
    expected = scores_of(index, reranker(index, vectors, True, **sizes), query)
    poison = guarded.Poisoned()
    monkeypatch.setattr(Workspace, "array", lambda *arguments: poison.array(*arguments))
    one = reranker(index, vectors, True, **sizes)
    for rows in (np.arange(140), [5], [139, 0, 7, 7]):
        assert scores_of(index, one, query, rows).tolist() == expected[rows].tolist()
    assert len(poison.given) >= 12 and not poison.overrun()


# -------------------------------------------------------------------------------------------- checkpoints, training


@both_paths
@both_distillations
def test_a_checkpoint_gives_the_same_scores(tmp_path, index, vectors, fast, sizes):
    model = pacrr(vectors, **sizes)
    save_checkpoint(tmp_path / "saved", model, vectors, {})
    one = rerankers.load(f"pacrr:{tmp_path / 'saved'}", index, RerankerOptions(fast=fast, threads=1))
    assert one.model.config == model.config
    expected = scores_of(index, reranker(index, vectors, fast, **sizes))
    assert scores_of(index, one).tolist() == expected.tolist()
    assert "vectors" not in json.dumps(sorted(model.state_dict()))


@both_distillations
def test_training_lowers_the_loss(index, vectors, sizes):
    """Documents that say 'heart' over those that do not, from the weights a model begins with."""
    torch.manual_seed(3)
    model = Pacrr(PacrrConfig(**sizes), torch.from_numpy(vectors.matrix))
    one = NeuralReranker(model, vectors.vocabulary, index)
    query = Query("q", "heart risk")
    before = one.score(query, small.candidates(index))
    builder, terms = one.builder, index.query(query.text)
    inputs = builder.build(terms, builder.query(terms), small.candidates(index))
    says = torch.tensor(["heart" in f"{title} {abstract}".lower() for _, title, abstract in small.DOCUMENTS])
    optimizer, losses = torch.optim.Adam(model.parameters(), 0.05), []
    model.train()
    for _ in range(60):
        scores = model(inputs)
        loss = (1 - scores[says][:, None] + scores[~says][None, :]).clamp_min(0).mean()
        optimizer.zero_grad()
        loss.backward()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    one.model.eval()
    one.refresh()
    after = one.score(query, small.candidates(index))
    assert np.abs(after - before).max() > 0.1
    assert after[says.numpy()].min() > after[~says.numpy()].max()


def test_what_is_trained(vectors):
    model = pacrr(vectors)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert shapes == {
        "convolutions.0.weight": (32, 1, 2, 2),
        "convolutions.0.bias": (32,),
        "convolutions.1.weight": (32, 1, 3, 3),
        "convolutions.1.bias": (32,),
        "lstm.weight_ih_l0": (4, 7),
        "lstm.weight_hh_l0": (4, 1),
        "lstm.bias_ih_l0": (4,),
        "lstm.bias_hh_l0": (4,),
    }
    assert model.regularized() == {}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"distillation": "lastk"}, "'lastk'; known: firstk, kwindow"),
        ({"document_words": 0}, "at least 1"),
        ({"query_words": 0}, "at least 1"),
        ({"filters": 0}, "at least 1"),
        ({"signals": 0}, "at least 1"),
        ({"longest_ngram": 0}, "at least 1"),
        ({"distillation": "kwindow", "distilled_words": 2}, "2 distilled words"),
        ({"lexical_features": ("bm25_title",)}, "no lexical features"),
    ],
)
def test_wrong_hyper_parameters(wrong, said):
    with pytest.raises(InputError, match=said):
        PacrrConfig(**wrong)
