"""SevMos against numbers worked out by hand and against its plain twin."""

import numpy as np
import pytest
import torch

from rerank_plugin import rerankers
from rerank_plugin.features.inputs import Inputs
from rerank_plugin.features.lexical_features import LEX3, NAMES, PAPER_NAMES
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.models import checkpoints
from rerank_plugin.models.sevmos.model import SevMos, SevMosConfig
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors
from tests import small
from tests.models import encodable, plain_sevmos


def one_filter(weight, bias):
    """A convolution of one filter over vectors of one number, as (weight, bias) to copy."""
    return torch.tensor([[weight]], dtype=torch.float32), torch.tensor([float(bias)])


def test_golden_network():
    """Vectors of one number, one filter of width 2, one lexical feature, one hidden unit; ReLU.

    Query [2]; the query's filter is 1, 3 with bias -1: its windows (0,2) and (2,0) give 6-1 = 5 and 2-1 = 1; x_q = 5.
    Document [-1, 4] and a pad of 100; the filter is 2, -1 with bias 0.5: (0,-1) gives 1.5, (-1,4) -5.5 and so 0,
    (4,0) 8.5; x_d = 8.5. With the pad as a word it would be another number, and without full borders 0.
    M = 0.1: sim = 5 * 0.1 * 8.5 = 4.25. Feature (7 - 4) / 2 = 1.5.
    Hidden: 1 * 5 + 2 * 4.25 - 2 * 8.5 + 10 * 1.5 + 0.5 = 12. Output, without ReLU: -1 * 12 + 3 = -9.
    """
    vectors = torch.tensor([[100.0], [2.0], [-1.0], [4.0]])
    config = SevMosConfig(filters=1, width=2, hidden=(1,), lexical_features=("bm25_title",), document_words=3)
    model = SevMos(config, vectors).eval()
    model.set_feature_statistics(torch.tensor([4.0]), torch.tensor([2.0]))
    with torch.no_grad():
        for convolutions, values in (
            (model.query_convolutions, one_filter([1, 3], -1)),
            (model.document_convolutions, one_filter([2, -1], 0.5)),
        ):
            for parameter, value in zip((convolutions[0].weight, convolutions[0].bias), values):
                parameter.copy_(value)
        model.similarity.fill_(0.1)
        model.layers[0].weight.copy_(torch.tensor([[1.0, 2.0, -2.0, 10.0]]))
        model.layers[0].bias.fill_(0.5)
        model.layers[1].weight.fill_(-1)
        model.layers[1].bias.fill_(3)
        documents, mask = torch.tensor([[2, 3, 0]]), torch.tensor([[True, True, False]])
        queries, query_mask = torch.tensor([[1, 0]]), torch.tensor([[True, False]])
        assert model.encode_queries(queries, query_mask).tolist() == [[5.0]]
        assert model.encode_documents(documents, mask).tolist() == [[8.5]]
        scores = model(Inputs(documents, mask, queries, query_mask, torch.tensor([[7.0]])))
    assert scores.tolist() == pytest.approx([-9.0])


def test_golden_stack():
    """Two convolutions of width 2, both 1, 1 with bias 0, over [1, -3, 1]: windows 1, -2, -2, 1, by ReLU 1, 0, 0, 1;
    then 1, 1, 0, 1, 1. With a slope of 0.5: 1, -1, -1, 1, then 1, 0, -2 (leaky -1), 0, 1."""
    for slope in (0.0, 0.5):
        model = SevMos(
            SevMosConfig(filters=1, width=2, convolutions=2, slope=slope, lexical_features=()),
            torch.tensor([[7.0], [1.0], [-3.0]]),
        ).eval()
        with torch.no_grad():
            for convolution in model.document_convolutions:
                convolution.weight.fill_(1)
                convolution.bias.fill_(0)
            found = model.encode_documents(torch.tensor([[1, 2, 1, 0]]), torch.tensor([[True, True, True, False]]))
            assert found.tolist() == [[1.0]]
            model.document_convolutions[1].weight.fill_(-1)  # the largest of the negated: 0 by ReLU, or 2
            found = model.encode_documents(torch.tensor([[1, 2, 1, 0]]), torch.tensor([[True, True, True, False]]))
            assert found.tolist() == [[2 * slope * 2]]


def test_padding_is_no_window_where_all_are_below_zero():
    """Word 1 under a filter of -1, -1 with bias -1 and a slope of 0.5: both its windows give -2, leaky -1, not 0."""
    model = SevMos(
        SevMosConfig(filters=1, width=2, slope=0.5, lexical_features=()), torch.tensor([[7.0], [1.0]])
    ).eval()
    with torch.no_grad():
        model.document_convolutions[0].weight.fill_(-1)
        model.document_convolutions[0].bias.fill_(-1)
        found = model.encode_documents(torch.tensor([[1, 0, 0]]), torch.tensor([[True, False, False]]))
    assert found.tolist() == [[-1.0]]


def plain_scores(model, inputs, mean, deviation):
    vectors = model.vectors.numpy()
    numbers = [
        [(layer.weight.tolist(), layer.bias.tolist()) for layer in layers]
        for layers in (model.query_convolutions, model.document_convolutions)
    ]
    layers = [(layer.weight.tolist(), layer.bias.tolist()) for layer in model.layers]
    return [
        plain_sevmos.score(
            vectors[query[query_mask]].tolist(), vectors[document[document_mask]].tolist(), *numbers,
            model.similarity.tolist(), layers, features, mean, deviation, model.config.slope,
        )
        for document, document_mask, query, query_mask, features in zip(*(tensor.numpy() for tensor in inputs[:5]))
    ]  # fmt: skip


CONFIGURATIONS = [
    # filters, width, convolutions, N, M, D, features, slope
    (1, 1, 1, 1, 1, 1, 0, 0.0),
    (4, 5, 1, 9, 4, 3, 2, 0.0),
    (5, 3, 3, 8, 7, 6, 3, 0.0),
    (3, 4, 2, 2, 3, 4, 18, 0.3),
    (6, 5, 3, 3, 2, 2, 1, 1.0),
]


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_agrees_with_the_plain_one(configuration, seed):
    """Padded ids are any words at all, only the mask says what counts; there are empty, full and one-word texts."""
    filters, width, convolutions, n, m, dimension, features, slope = configuration
    random = np.random.default_rng([seed, *configuration[:7]])
    words = WordVectors(Vocabulary(list("abcdefgh")), random.normal(size=(9, dimension)).astype(np.float32))
    model = encodable.sevmos(
        words, seed, filters=filters, width=width, convolutions=convolutions, document_words=n, query_words=m,
        lexical_features=NAMES[:features], slope=slope,
    )  # fmt: skip
    mean, deviation = random.normal(size=features), random.uniform(0.5, 2, features)
    model.set_feature_statistics(torch.from_numpy(mean), torch.from_numpy(deviation))
    lengths, query_lengths = random.integers(0, n + 1, 8), random.integers(0, m + 1, 8)
    lengths[:2], query_lengths[-3:] = [0, n], [0, 1, m]
    inputs = Inputs(
        torch.from_numpy(random.integers(0, 9, (8, n))),
        torch.from_numpy(np.arange(n) < lengths[:, None]),
        torch.from_numpy(random.integers(0, 9, (8, m))),
        torch.from_numpy(np.arange(m) < query_lengths[:, None]),
        torch.from_numpy(random.normal(3, 2, (8, features)).astype(np.float32)),
    )
    with torch.no_grad():
        scores = model(inputs).numpy()
    expected = plain_scores(model, inputs, mean, deviation)
    assert scores.shape == (8,)
    assert np.ptp(expected) > 1e-2
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5 * max(1, np.abs(expected).max()))


def test_words_between_padding_are_read_where_they_stand():
    """Masks need not be prefixes: a masked word counts as a zero vector in the windows of its neighbours."""
    vectors = small.word_vectors(list("abc"), dimension=3, seed=0)
    model = encodable.sevmos(vectors, filters=4, width=3)
    zero = torch.cat([model.vectors, torch.zeros(1, 3)])
    with torch.no_grad():
        found = model.encode_documents(torch.tensor([[1, 3, 2]]), torch.tensor([[True, False, True]]))
        model.vectors = zero
        expected = model.encode_documents(torch.tensor([[1, 4, 2]]), torch.tensor([[True, True, True]]))
    torch.testing.assert_close(found, expected)


def test_the_papers_layers():
    """256 filters; C1: width 5, C3: three of width 3; [D17] 4.5: two layers as wide as what comes in, one output."""
    c1, c3 = SevMosConfig(), SevMosConfig(convolutions=3)
    assert (c1.filters, c1.convolutions, c1.width, c3.filters, c3.width) == (256, 1, 5, 256, 3)
    assert (c1.document_words, c1.query_words, c1.lexical_features) == (50, 7, PAPER_NAMES)
    assert len(PAPER_NAMES) == 18 and c1.joined == 256 + 1 + 256 + 18
    model = SevMos(c3, torch.zeros(2, 300))
    for convolutions in (model.query_convolutions, model.document_convolutions):
        assert [tuple(layer.weight.shape) for layer in convolutions] == [(256, 300, 3), (256, 256, 3), (256, 256, 3)]
    assert [tuple(layer.weight.shape) for layer in model.layers] == [(531, 531), (531, 531), (1, 531)]
    assert model.similarity.shape == (256, 256) and model.encoding_size == 256


def test_what_is_trained_and_what_has_an_l2_cost():
    model = SevMos(SevMosConfig(filters=3, convolutions=2), torch.ones(3, 4))
    assert not model.vectors.requires_grad
    costly = {id(parameter) for parameters in model.regularized().values() for parameter in parameters}
    named = {name for name, parameter in model.named_parameters() if id(parameter) in costly}
    assert named == {name for name, _ in model.named_parameters() if not name.endswith("bias")}
    assert "similarity" in named and set(model.regularized()) == {"convolution", "feed_forward"}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"width": 0}, "at least 1"),
        ({"filters": 0}, "at least 1"),
        ({"convolutions": 0}, "at least 1"),
        ({"document_words": 0}, "at least 1"),
        ({"query_words": -1}, "at least 1"),
        ({"hidden": (5, 0)}, "at least 1"),
        ({"dropout": 1.0}, "dropout 1.0"),
        ({"classifier_dropout": float("nan")}, "nan"),
        ({"slope": -0.1}, "slope -0.1"),
        ({"lexical_features": ("bm25_footnote",)}, "bm25_footnote"),
    ],
)
def test_wrong_hyper_parameters(wrong, said):
    with pytest.raises(InputError, match=said):
        SevMosConfig(**wrong)


def test_a_saved_model_scores_the_same(index, vectors, tmp_path):
    model = encodable.sevmos(vectors, filters=5, convolutions=3, lexical_features=LEX3)
    checkpoints.save_checkpoint(tmp_path / "c", model, vectors, {})
    query, candidates = Query("q", "women who smoke, risk of stroke"), small.candidates(index)
    expected = encodable.module_reranker(model, vectors, index).score(query, candidates)
    found = rerankers.load(f"sevmos:{tmp_path / 'c'}", index).score(query, candidates)
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_training_lowers_the_loss(index, vectors):
    """A document's score should be its length: ten of them are learned by heart."""
    torch.manual_seed(0)
    model = SevMos(
        SevMosConfig(filters=8, dropout=0, classifier_dropout=0, lexical_features=LEX3), model_vectors(vectors)
    )
    one, query = encodable.module_reranker(model, vectors, index), "heart attack risk"
    terms, candidates = index.query(query), small.candidates(index)
    inputs = one.builder.build(terms, one.builder.query(terms), candidates)
    wanted = torch.from_numpy(candidates.lengths / 10).float()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    losses = []
    for _ in range(60):
        loss = ((model.train()(inputs) - wanted) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 10
    assert all(parameter.grad.abs().sum() > 0 for parameter in model.parameters())


def model_vectors(vectors):
    return torch.from_numpy(vectors.matrix)
