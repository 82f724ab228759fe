"""Conv-KNRM against scores computed by hand, and its tables. Tests of every model: ``tests/conformance``."""

import numpy as np
import pytest
import torch

from rerank_plugin.base.records import Query
from rerank_plugin.models.baselines.conv_knrm import ConvKnrm, ConvKnrmConfig, same_ngrams, similarities
from rerank_plugin.models.baselines.conv_knrm_fast import FastConvKnrm
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors
from tests import small
from tests.conformance.models import QUERIES, Case, assert_same, make, opened, scores_of
from tests.models import golden

VECTORS = torch.tensor([[-1.0, 2], [1, 0], [0, 1], [3, 4]])  # UNK, a, b, c


def golden_model(**weights):
    """n = 1: the word itself; n = 2: the sum of its words. The ReLU turns UNK into (0, 2)."""
    model = ConvKnrm(ConvKnrmConfig(filters=2, longest_ngram=2, document_words=4, query_words=3), VECTORS)
    eye = torch.eye(2)[:, :, None]
    filters = {f"convolutions__{n}__weight": eye.expand(2, 2, n + 1).tolist() for n in (0, 1)}
    return golden.set_weights(model, **filters, layer__bias=0.5, **weights)


def golden_inputs(document, query):
    """Texts of a, b, c and unknown x, y; padding is b."""
    return golden.inputs([document], [query], 4, 3, padding="b")


def golden_similarities(inputs, query_size, document_size):
    model = golden_model()
    queries = model.ngrams(inputs.queries, inputs.query_mask, query_size)
    documents = model.ngrams(inputs.documents, inputs.document_mask, document_size)
    same = (inputs.query_terms[:, :, None] == inputs.document_terms[:, None, :]) & (inputs.query_terms >= 0)[..., None]
    same = same_ngrams(same, query_size) if query_size == document_size else None
    actual = similarities(queries, documents, same)[0]
    return actual[queries.mask[0]][:, documents.mask[0]].tolist()


def test_golden_similarities():
    """Query "a b", document "c a": (1, 0) and (0, 1); (0.6, 0.8) and (1, 0); bigrams (1, 1) and (4, 4).

    1 / sqrt 2 = 0.70711; (0.6 + 0.8) / sqrt 2 = 0.98995.
    """
    inputs, near = golden_inputs("ca", "ab"), pytest.approx
    assert golden_similarities(inputs, 1, 1) == [near([0.6, 1]), near([0.8, 0])]
    assert golden_similarities(inputs, 1, 2) == [near([0.70711], abs=1e-5), near([0.70711], abs=1e-5)]
    assert golden_similarities(inputs, 2, 1) == [near([0.98995, 0.70711], abs=1e-5)]
    assert golden_similarities(inputs, 2, 2) == [near([1.0])]


def test_golden_unknown_words():
    """Query "x y", document "y x y b": alone they are similar to themselves; "x b" is (0, 1), and similar to b."""
    inputs = golden_inputs("yxyb", "xy")
    assert golden_similarities(inputs, 1, 1) == [[0, 1, 0, 0], [1, 0, 1, 0]]
    assert golden_similarities(inputs, 2, 2) == [[0, 1, 0]]
    assert golden_similarities(inputs, 1, 2) == [[0, 0, 0]] * 2
    assert golden_similarities(inputs, 2, 1) == [[0, 0, 0, 0]]
    known = golden_inputs("yxyb", "b")
    assert golden_similarities(known, 1, 1) == [[0, 0, 0, 1]]
    assert golden_similarities(known, 1, 2) == [[0, 0, pytest.approx(1)]]


def only(column, weight=1):
    """Weights of the 44 features, all 0 but one."""
    return [weight * (place == column) for place in range(44)]


@pytest.mark.parametrize(
    ("document", "exact"),
    [
        ("ca", [0, None, None, 0]),  # a is a; b is nothing; "a b" is "c a", and neither a nor c
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
    no_match = np.log(1e-10)
    a, b, cross, both = (no_match if count is None else count for count in exact)
    for view, feature in enumerate([a + b, 2 * no_match, cross, both]):
        actual = golden_model(layer__weight=only(view * 11))(golden_inputs(document, "ab")).item()
        assert actual == pytest.approx(np.tanh(0.01 * feature + 0.5), abs=1e-6)


def test_golden_wide_feature():
    """Query "a", document "c": cosine 0.6, one deviation from the kernel around 0.7: ln exp(-1/2) = -0.5.

    Of bigrams there are none: the query's have features of 0, and the document's are no match for a. A query without
    words has the score of the bias.
    """
    for view, feature in enumerate([-0.005, 0.01 * np.log(1e-10), 0, 0]):
        model = golden_model(layer__weight=only(view * 11 + 2, 2))
        assert model(golden_inputs("c", "a")).item() == pytest.approx(np.tanh(2 * feature + 0.5), abs=1e-6)
        assert model(golden_inputs("c", "")).item() == pytest.approx(np.tanh(0.5))


@pytest.mark.parametrize("filters", [16, 128])
def test_many_cosines_near_one(tmp_path, filters):
    """Nearly equal word vectors: many values of the narrow kernel are between 0 and 1."""
    random = np.random.default_rng(filters)
    words = [f"w{number}" for number in range(60)]
    matrix = random.normal(size=(1, 30)) + 10.0 ** random.uniform(-4, -0.5, (61, 1)) * random.normal(size=(61, 30))
    vectors = WordVectors(Vocabulary(words), matrix.astype(np.float32))
    texts = [" ".join(random.choice(words, random.integers(0, 60))) for _ in range(30)]
    index = small.build_index(tmp_path / "forward", [(f"d{i}", text, "") for i, text in enumerate(texts)])
    model = make(Case("conv-knrm", {"filters": filters}), vectors, document_words=60)
    actual, expected = (
        scores_of(opened(model, path, index, vectors), Query("q", "w1 w2 w3 w4 w5")) for path in ("fast", "module")
    )
    assert np.ptp(expected) > 0.1
    assert_same(actual, expected, 1e-5)


@pytest.mark.parametrize("longest_ngram", [1, 3, 4])
def test_a_table_that_is_too_large_is_made_for_each_query(index, vectors, longest_ngram, monkeypatch):
    """The limit is exact to the byte: taps of the index's known words, and of UNK."""
    model = make(Case("conv-knrm", {"filters": 9, "longest_ngram": longest_ngram}), vectors)
    builder = model.input_builder(index, vectors.vocabulary)
    words = 1 + sum(word in vectors.vocabulary.ids for word in index.terms.take(range(len(index.terms))))
    taps = longest_ngram * (longest_ngram + 1) // 2
    size = words * taps * 16 * 4  # nine filters are padded to 16
    monkeypatch.setattr(FastConvKnrm, "table_bytes", size)
    with_table = FastConvKnrm.open(model, builder, 1)
    monkeypatch.setattr(FastConvKnrm, "table_bytes", size - 1)
    without_table = FastConvKnrm.open(model, builder, 1)
    assert with_table.table.nbytes == size and without_table.table is None
    for query in QUERIES:
        terms = index.query(query.text)
        actual, expected = (
            path.score(terms, builder.query(terms), small.candidates(index)) for path in (without_table, with_table)
        )
        assert np.ptp(expected) > 0.02
        assert_same(actual, expected)
