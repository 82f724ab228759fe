"""PACRR against the paper's example and scores computed by hand, and the computations that its fast path skips."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.base.records import Query
from rerank_plugin.inputs.builder import Inputs, ModelQuery
from rerank_plugin.inputs.interactions import CandidateWords, ComparedVectors, cosine_matrix, similarity_table
from rerank_plugin.kernels.parallel import Workspace
from rerank_plugin.models.pacrr.fast import FILTERS, pack_filters
from rerank_plugin.models.pacrr.model import Pacrr, PacrrConfig, closest_steps, kwindow
from rerank_plugin.models.pacrr.windows import closest_steps as fast_steps
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import EmbeddingTable, WordVectors
from tests import small
from tests.conformance.models import assert_same, opened, scores_of
from tests.models import golden

# [P] 2.1, a query of two terms, padded to l_q = 3, and a document of six
SIMILARITIES = torch.tensor([[[0.9, 0, 0.7, 0.1, 0.2, 0], [0.1, -0.1, -0.5, 0.8, 0, 0], [0, 0, 0, 0, 0, 0]]])
SIX_WORDS, TWO_TERMS = torch.ones(1, 6, dtype=torch.bool), torch.tensor([[True, True, False]])


def words_of(length, longest):
    return (torch.arange(longest) < length)[None]


def windows_of(similarities, document_mask, query_mask, words, columns):
    return kwindow(similarities, closest_steps(similarities, query_mask), document_mask, words, columns)


@pytest.mark.parametrize(
    ("words", "matrix"),
    [
        (1, [[0.9, 0.7, 0.1, 0.2], [0.1, -0.5, 0.8, 0], [0, 0, 0, 0]]),  # terms 1, 3, 4 and 5, in this order
        # The pairs that begin at terms 3 and 4: term 4 is there twice, and term 1, the most similar one, is not.
        (2, [[0.7, 0.1, 0.1, 0.2], [-0.5, 0.8, 0.8, 0], [0, 0, 0, 0]]),
        # In four columns is room for one window of three, and no part of another: 1.6/3, 1.5/3, 1.7/3 and 1/3.
        (3, [[0.7, 0.1, 0.2, 0], [-0.5, 0.8, 0, 0], [0, 0, 0, 0]]),
    ],
)
def test_the_papers_example_of_kwindow(words, matrix):
    actual = windows_of(SIMILARITIES, SIX_WORDS, TWO_TERMS, words, 4)
    assert actual.matrix[0].tolist() == torch.tensor(matrix).tolist()
    assert actual.windows.tolist() == [[True] * (4 // words)]


def test_kwindow_of_a_document_that_is_too_short():
    for length, windows in [(0, [False] * 2), (1, [False] * 2), (2, [True, False])]:
        for longest in {max(length, 1), 6}:
            actual = windows_of(SIMILARITIES[..., :longest], words_of(length, longest), TWO_TERMS, 2, 4)
            assert actual.windows.tolist() == [windows] and actual.matrix.shape == (1, 3, 4)
            kept = SIMILARITIES[..., :length] if length == 2 else torch.zeros(1, 3, 0)
            assert torch.equal(actual.matrix, torch.nn.functional.pad(kept, (0, 4 - kept.shape[2])))


def test_kwindow_prefers_any_word_to_padding_and_no_padded_term():
    """Dissimilar words are words; a padded term, similar with 0 to everything, makes none of them more similar."""
    similarities = torch.tensor([[[-0.5, -0.2, -0.4, 0, 0], [0, 0, 0, 0, 0]]])
    actual = windows_of(similarities, words_of(3, 5), torch.tensor([[True, False]]), 1, 2)
    assert torch.equal(actual.matrix[0, 0], torch.tensor([-0.2, -0.4])) and actual.windows.all()


def test_kwindow_takes_the_first_of_equal_windows():
    """0.1, 0.1 and 0.5 in three orders, of which float32 finds the first the smallest."""
    row = torch.tensor([0.1, 0.1, 0.5, 0.1, 0.1])
    sums = row.unfold(0, 3, 1).sum(dim=1)
    assert sums[0] < sums.max()
    actual = windows_of(row[None, None], words_of(5, 5), torch.tensor([[True]]), 3, 3)
    assert torch.equal(actual.matrix[0, 0], row[:3])


def test_golden_score():
    """One filter ((1, 2), (3, 4)) - 0.5 and an LSTM with open gates that weighs its inputs with 0.1, 0.2, 0.4.

    Query and document are "a b", so the matrix is the unit matrix. Of term a the filter gives 1 + 4 - 0.5 and 3 - 0.5,
    of term b 2 - 0.5 and 1 - 0.5. The LSTM reads (1, 4.5, 1/2) and (1, 1.5, 1/2): 0.1 + 0.9 + 0.2 = 1.2, and 0.6 with
    half of its first output. Of the empty document it reads (0, 0, 1/2) twice. A query without words scores 0.
    """
    config = PacrrConfig(document_words=4, query_words=3, filters=1, signals=1, longest_ngram=2)
    model = golden.set_weights(
        Pacrr(config, torch.tensor([[5.0, 5], [1, 0], [0, 1]])),
        convolutions__0__weight=[1, 2, 3, 4], convolutions__0__bias=-0.5, lstm__bias_ih_l0=[100, 100, 0, 100],
        lstm__weight_ih_l0=[0] * 6 + [0.1, 0.2, 0.4] + [0] * 3, lstm__weight_hh_l0=[0, 0, 0.5, 0],
    )  # fmt: skip
    first, nothing = math.tanh(1.2), math.tanh(0.2)
    expected = math.tanh(first + math.tanh(0.6 + 0.5 * math.tanh(first)))
    of_empty_collection = math.tanh(nothing + math.tanh(0.2 + 0.5 * math.tanh(nothing)))
    actual = model(golden.inputs(["ab", ""], "ab", 4, 3, idf={"a": 3.0, "b": 3.0}))
    assert actual.tolist() == pytest.approx([expected, of_empty_collection], abs=1e-6)
    assert model(golden.inputs(["ab", ""], "", 4, 3)).tolist() == [0, 0]


@pytest.mark.parametrize("training", [False, True])
def test_golden_score_of_two_signals_in_descending_order(training):
    """The query "a" has the cosines 0, 0.6 and 1 with the document "cba", of which 1 and 0.6 are kept in this order.

    The filter ((1, 2), (3, 4)) gives 2 * 0.6, 0.6 + 2 and 1: 2.6 and 1.2. The LSTM, with open gates, weighs what it
    reads, (1, 0.6, 2.6, 1.2, 1), with 0.1, 0.2, 0.05, 0.3 and 0.4: 0.1 + 0.12 + 0.13 + 0.36 + 0.4 = 1.11.
    """
    config = PacrrConfig(document_words=4, query_words=3, filters=1, signals=2, longest_ngram=2)
    model = golden.set_weights(
        Pacrr(config, torch.tensor([[5.0, 5], [1, 0], [0.6, 0.8], [0, 1]])),
        convolutions__0__weight=[1, 2, 3, 4], lstm__bias_ih_l0=[100, 100, 0, 100],
        lstm__weight_ih_l0=[0] * 10 + [0.1, 0.2, 0.05, 0.3, 0.4] + [0] * 5,
    )  # fmt: skip
    actual = model.train(training)(golden.inputs(["cba"], "a", 4, 3))
    assert actual.tolist() == pytest.approx([math.tanh(math.tanh(1.11))], abs=1e-6)


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
        assert {tuple(row) for row in rows[..., 1:].reshape(-1, words**2)} == {
            tuple(weight.ravel()) for weight in weights
        }
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
    actual, expected = (
        scores_of(opened(model, path, index, vectors), Query("q", "a a")) for path in ("fast", "module")
    )
    assert_same(actual, expected)


@pytest.mark.parametrize(("steps", "chosen"), [((8000.4, 8000.6), 1), ((8000.6, 8001.4), 0), ((-8000.6, -8000.4), 1)])
def test_similarities_are_compared_in_whole_steps(tmp_path, steps, chosen):
    """Of the document "b c" one word is kept: the more similar one, of those in the same step the first."""
    cosines = np.array([1, 0, *steps]) / 16384
    index = small.build_index(tmp_path / "forward", [("1", "b c", "")])
    matrix = np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1)[[1, 0, 2, 3]]
    matrix[1] = [1, 0]
    vectors = WordVectors(Vocabulary(["a", "b", "c"]), matrix.astype(np.float32))
    config = PacrrConfig(distillation="kwindow", distilled_words=1, longest_ngram=1, signals=1)
    model = golden.set_weights(
        Pacrr(config, torch.from_numpy(vectors.matrix)), lstm__weight_ih_l0=[0] * 4 + [100, 0] + [0] * 2,
        lstm__bias_ih_l0=[0, 0, -100 * sum(steps) / 2 / 16384, 0],
    )  # fmt: skip
    expected = 0.5 * math.tanh(0.5 * math.tanh(100 * (steps[chosen] - sum(steps) / 2) / 16384))
    assert abs(expected) > 1e-4
    for path in ("module", "fast"):
        actual = scores_of(opened(model, path, index, vectors), Query("q", "a"))
        assert actual.tolist() == pytest.approx([expected], abs=1e-5)


@pytest.mark.parametrize("quantized", [False, True])
def test_the_fast_path_puts_similarities_into_the_steps_of_the_module(quantized):
    """Of 30,000 words, whose cosines in float32 are in another step for some."""
    random, count = np.random.default_rng(1), 30_000
    numbers = random.normal(size=(count, 60)).astype(np.float32)
    scales = np.ones(count, np.float32)
    if quantized:
        numbers, scales = (30 * numbers).clip(-127, 127).astype(np.int8), random.uniform(1, 2, count).astype(np.float32)
    vectors = ComparedVectors(EmbeddingTable(numbers, scales))
    ids, queries, lengths = np.arange(1, count, dtype=np.int32), np.array([5, 0, 70]), np.ones(1, np.int32)
    terms = np.array([5, 9999, 70])
    query = ModelQuery(queries, np.ones(3, bool), terms, np.ones(3, np.float32), 2, 0)
    words = CandidateWords(ids, ids, ids[None], lengths)
    table = similarity_table(vectors, query, words, Workspace(), threads=1)
    found = np.empty(len(ids), np.int32)
    compared = vectors.take(queries).astype(np.float64)
    norms = np.linalg.norm(compared, axis=1)
    fast_steps(table, vectors.numbers, vectors.scales, ids, compared, norms, found, 0, len(ids))
    texts = torch.from_numpy(ids.astype(np.int64))[None], torch.from_numpy(queries)[None]
    inputs = Inputs(
        texts[0], texts[0] > 0, texts[1], texts[1] >= 0, torch.zeros(1, 0), texts[0], torch.from_numpy(terms)[None]
    )
    cosines = cosine_matrix(torch.from_numpy(vectors.take(slice(None))), inputs, precise=True)  # [1, 3, 29999]
    expected = closest_steps(cosines, inputs.query_mask)[0].numpy()
    assert found.tolist() == expected.tolist()
    assert (np.rint(table.max(axis=1) * 16384) != expected).any()
