"""Delta against numbers worked out by hand and against its plain twin."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rerank_plugin.features.inputs import Inputs
from rerank_plugin.features.lexical_features import NAMES
from rerank_plugin.files.errors import InputError
from rerank_plugin.models.delta.model import Delta, DeltaConfig, delta_stage
from tests.models import plain_delta

THIRD = 1 / 3


def stage(documents, document_mask, queries, query_mask):
    tensors = [
        torch.tensor(documents, dtype=torch.float32),
        torch.tensor(document_mask),
        torch.tensor(queries, dtype=torch.float32),
        torch.tensor(query_mask),
    ]
    return delta_stage(*tensors).numpy()


def test_golden_delta_stage():
    """Query words (3,4) and (-3,4), both of length 5; the third slot is padding and would win for (0,0) and (0,4)."""
    queries = [[[3, 4], [-3, 4], [0, 2]]]
    documents = [[[0, 0], [6, 8], [-3, 4], [0, 4], [-6, 0], [3, 4]]]
    expected = [
        # difference, cosine, distance, proximity
        [-3, -4, 0.0, 5, 0],  # a tie of 5 and 5: the first word; a zero vector: cosine 0, 1 - 5/(0+5)
        [3, 4, 1.0, 5, 1 - THIRD],  # 5 against sqrt(97); same direction; 1 - 5/(10+5)
        [0, 0, 1.0, 0, 1],  # the second query word itself
        [-3, 0, 0.8, 3, 1 - THIRD],  # a tie of 3 and 3: the first word; 16/(4*5); 1 - 3/(4+5)
        [-3, -4, 0.6, 5, 6 / 11],  # sqrt(97) against 5: the second word; 18/(6*5); 1 - 5/(6+5)
        [0, 0, 0, 0, 0],  # padding, although its vector is the first query word's
    ]
    found = stage(documents, [[True] * 5 + [False]], queries, [[True, True, False]])
    np.testing.assert_allclose(found[0], expected, atol=1e-6)


def test_golden_zero_vectors():
    found = stage([[[0, 0], [3, 4]]], [[True, True]], [[[0, 0]]], [[True]])
    # 0/0 counts as 0 twice; (3,4): no cosine with zero, distance 5, 1 - 5/(5+0)
    np.testing.assert_allclose(found[0], [[0, 0, 0, 0, 0], [3, 4, 0, 5, 0]], atol=1e-6)


def test_query_without_words_gives_zeros():
    found = stage([[[3, 4], [1, 2]]], [[True, True]], [[[3, 4], [1, 2]]], [[False, False]])
    assert not found.any()


@pytest.mark.parametrize("scale", [1e-5, 1e-3, 1e3])
def test_cosine_and_proximity_do_not_depend_on_the_scale_of_the_vectors(scale):
    """(6,8) and (-6,0) against (3,4): cosines 1 and -18/30, proximities 1 - 5/15 and 1 - sqrt(97)/11."""
    documents, queries = np.array([[[6, 8], [-6, 0]]]) * scale, np.array([[[3, 4]]]) * scale
    found = stage(documents.tolist(), [[True, True]], queries.tolist(), [[True]])
    np.testing.assert_allclose(found[0, :, 2], [1, -0.6], atol=1e-5)
    np.testing.assert_allclose(found[0, :, 4], [1 - THIRD, 1 - 97**0.5 / 11], atol=1e-5)


small_vectors = st.lists(st.integers(-3, 3), min_size=2, max_size=2)


@settings(max_examples=150, deadline=None)
@given(
    words=st.lists(small_vectors, min_size=1, max_size=6),
    query=st.lists(small_vectors, min_size=1, max_size=4),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    filler=small_vectors,
)
def test_stage_agrees_with_the_plain_one_on_grids(words, query, padding, filler):
    """Whole coordinates: many ties, repeated words and zero vectors, and distances that are exact in float32."""
    documents, queries = words + [filler] * padding[0], query + [filler] * padding[1]
    found = stage(
        [documents],
        [[True] * len(words) + [False] * padding[0]],
        [queries],
        [[True] * len(query) + [False] * padding[1]],
    )[0]
    np.testing.assert_allclose(found[: len(words)], plain_delta.delta_stage(words, query), rtol=1e-5, atol=1e-5)
    assert not found[len(words) :].any()


@pytest.mark.parametrize("seed", range(8))
def test_stage_agrees_with_the_plain_one_on_random_batches(seed):
    random = np.random.default_rng(seed)
    batch, n, m, dimension = (int(random.integers(1, limit)) for limit in (5, 12, 8, 20))
    documents = random.normal(size=(batch, n, dimension)).astype(np.float32)
    queries = random.normal(size=(batch, m, dimension)).astype(np.float32)
    lengths, query_lengths = random.integers(0, n + 1, batch), random.integers(0, m + 1, batch)
    found = delta_stage(
        torch.from_numpy(documents),
        torch.from_numpy(np.arange(n) < lengths[:, None]),
        torch.from_numpy(queries),
        torch.from_numpy(np.arange(m) < query_lengths[:, None]),
    ).numpy()
    assert found.shape == (batch, n, dimension + 3)
    for b in range(batch):
        plain = plain_delta.delta_stage(documents[b, : lengths[b]], queries[b, : query_lengths[b]])
        expected = np.zeros((n, dimension + 3))
        expected[: lengths[b]] = np.reshape(plain, (lengths[b], dimension + 3))
        np.testing.assert_allclose(found[b], expected, rtol=1e-5, atol=1e-5)


def test_golden_network():
    """One filter that reads distances, one hidden unit, one lexical feature; every step fits on a line.

    Query (3,4); document (3,4) (6,8) and a pad: distances 0, 5. The filter weighs the word before by 1, the word itself
    by 10, the word after by 100, bias -600: -600 + 100*5 = -100 and -600 + 10*5 + 0 = -550, leaky -30 and -165, so the
    maximum is -30 (0, or the pad's -180, would be a leak or a loss of the mask). Feature (7 - 4) / 2 = 1.5.
    Hidden: -1 * -30 + 2 * 1.5 = 33. Output: -1 * 33 + 3 = -30, leaky -9.
    """
    vectors = torch.tensor([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
    config = DeltaConfig(
        filters=1, convolutions=1, hidden=(1,), differences=False, lexical_features=("bm25_title",), document_words=3,
        query_words=2,
    )  # fmt: skip
    model = Delta(config, vectors).eval()
    model.set_feature_statistics(torch.tensor([4.0]), torch.tensor([2.0]))
    with torch.no_grad():
        model.convolutions[0].weight.zero_()
        model.convolutions[0].weight[0, 1] = torch.tensor([1.0, 10.0, 100.0])
        model.convolutions[0].bias.fill_(-600)
        model.layers[0].weight.copy_(torch.tensor([[-1.0, 2.0]]))
        model.layers[0].bias.zero_()
        model.layers[1].weight.fill_(-1)
        model.layers[1].bias.fill_(3)
        inputs = Inputs(
            torch.tensor([[1, 2, 2]]),
            torch.tensor([[True, True, False]]),
            torch.tensor([[1, 2]]),
            torch.tensor([[True, False]]),
            torch.tensor([[7.0]]),
        )
        assert model(inputs).tolist() == pytest.approx([-9.0])


def random_inputs(random, words, batch, n, m, features):
    """Padded ids are any words at all: only the mask may say what counts. Id 0 is UNK, and a word like others."""
    lengths, query_lengths = random.integers(0, n + 1, batch), random.integers(1, m + 1, batch)
    lengths[0] = 0
    lengths[-1] = n
    return Inputs(
        torch.from_numpy(random.integers(0, words, (batch, n))),
        torch.from_numpy(np.arange(n) < lengths[:, None]),
        torch.from_numpy(random.integers(0, words, (batch, m))),
        torch.from_numpy(np.arange(m) < query_lengths[:, None]),
        torch.from_numpy(random.normal(3, 2, (batch, features)).astype(np.float32)),
    )


def plain_scores(model, inputs, mean, deviation):
    vectors = model.vectors.numpy()
    convolutions = [(layer.weight.tolist(), layer.bias.tolist()) for layer in model.convolutions]
    layers = [(layer.weight.tolist(), layer.bias.tolist()) for layer in model.layers]
    scores = []
    for document, document_mask, query, query_mask, features in zip(*(tensor.numpy() for tensor in inputs[:5])):
        scores.append(
            plain_delta.score(
                vectors[document[document_mask]].tolist(), vectors[query[query_mask]].tolist(), convolutions, layers,
                features, mean, deviation, model.config.differences, model.config.delta_features,
            )
        )  # fmt: skip
    return scores


CONFIGURATIONS = [
    # filters, width, convolutions, N, M, D, features, differences, delta features
    (1, 1, 1, 1, 1, 1, 0, True, True),
    (4, 1, 3, 6, 3, 5, 2, True, True),
    (8, 3, 3, 12, 7, 6, 3, True, True),
    (8, 3, 3, 12, 7, 6, 0, True, True),
    (5, 5, 2, 9, 4, 3, 1, True, True),
    (3, 5, 3, 2, 2, 4, 18, True, True),  # documents shorter than the filter
    (2, 3, 1, 7, 5, 4, 0, False, True),
    (6, 5, 2, 10, 3, 8, 3, False, True),
    (2, 3, 2, 7, 5, 4, 0, True, False),
    (6, 1, 1, 10, 3, 8, 3, True, False),
]


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_network_agrees_with_the_plain_one(configuration, seed):
    filters, width, convolutions, n, m, dimension, features, differences, delta_features = configuration
    random = np.random.default_rng([seed, *configuration[:7]])
    torch.manual_seed(seed)
    vectors = torch.from_numpy(random.normal(size=(9, dimension)).astype(np.float32))
    config = DeltaConfig(
        filters=filters, width=width, convolutions=convolutions, document_words=n, query_words=m,
        lexical_features=NAMES[:features], differences=differences, delta_features=delta_features,
    )  # fmt: skip
    model = Delta(config, vectors).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.5)  # larger than usual, so that the leaks do not flatten what comes out
    mean, deviation = random.normal(size=features), random.uniform(0.5, 2, features)
    model.set_feature_statistics(torch.from_numpy(mean), torch.from_numpy(deviation))
    inputs = random_inputs(random, len(vectors), 6, n, m, features)
    with torch.no_grad():
        scores = model(inputs).numpy()
    expected = plain_scores(model, inputs, mean, deviation)
    assert scores.shape == (6,)
    assert np.ptp(expected) > 3e-4  # a network that is dead would agree about nothing
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5 * max(1, np.abs(expected).max()))


def test_a_feature_that_never_varies_is_only_centred():
    model = Delta(DeltaConfig(lexical_features=NAMES[:2]), torch.zeros(2, 2))
    model.set_feature_statistics(torch.tensor([3.0, 1.0]), torch.tensor([0.0, 4.0]))
    assert model.feature_mean.tolist() == [3.0, 1.0]
    assert model.feature_scale.tolist() == [1.0, 0.25]


def test_word_vectors_are_not_trained():
    model = Delta(DeltaConfig(), torch.ones(3, 4))
    assert all(name.startswith(("convolutions.", "layers.")) for name, _ in model.named_parameters())
    assert model.vectors.requires_grad is False


def test_the_papers_layers():
    """Delta-32 ([D18] 4.2): 3 convolutions of width 3 over D + 3 rows, 3 feed-forward layers, one output."""
    model = Delta(DeltaConfig(), torch.zeros(2, 300))
    assert [tuple(layer.weight.shape) for layer in model.convolutions] == [(32, 303, 3), (32, 32, 3), (32, 32, 3)]
    assert [tuple(layer.weight.shape) for layer in model.layers] == [(32, 32), (32, 32), (1, 32)]
    assert (model.config.document_words, model.config.query_words, model.config.slope) == (50, 7, 0.3)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"width": 4}, "width 4"),
        ({"width": 0}, "width 0"),
        ({"filters": 0}, "at least 1"),
        ({"convolutions": 0}, "at least 1"),
        ({"document_words": 0}, "at least 1"),
        ({"query_words": -1}, "at least 1"),
        ({"hidden": (5, 0)}, "at least 1"),
        ({"dropout": 1.0}, "dropout 1.0"),
        ({"dropout": float("nan")}, "dropout nan"),
        ({"lexical_features": ("bm25_footnote",)}, "bm25_footnote"),
        ({"lexical_features": ("bm25_title", "bm25_title")}, "twice"),
        ({"differences": False, "delta_features": False}, "both are off"),
    ],
)
def test_wrong_hyper_parameters(wrong, said):
    with pytest.raises(InputError, match=said):
        DeltaConfig(**wrong)
