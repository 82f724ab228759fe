"""The Delta Relevance Classifier against numbers worked out by hand, its plain twin, and what changes no score."""

import math
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import rerank_plugin
from rerank_plugin import rerankers
from rerank_plugin.features.inputs import InputBuilder, Inputs
from rerank_plugin.features.lexical_features import LEX3, NAMES
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.kernels.dense_layers import pack_panels
from rerank_plugin.kernels.parallel import Workspace
from rerank_plugin.models import checkpoints
from rerank_plugin.models.delta_classifier import fused as delta_classifier_fused
from rerank_plugin.models.delta_classifier.fused import FusedDeltaClassifier
from rerank_plugin.models.delta_classifier.model import (
    OVERLAPS,
    DeltaClassifier,
    DeltaClassifierConfig,
    difference_rows,
)
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text.vocabulary import Vocabulary
from tests import guarded, small
from tests.models import plain_delta_classifier

ROOT = Path(rerank_plugin.__file__).parent.parent


def scattered(vectors, seed=0, **hyper_parameters):
    """A classifier whose scores vary: weights that keep the signal, and biases that matter."""
    model = DeltaClassifier(DeltaClassifierConfig(**hyper_parameters), torch.as_tensor(vectors)).eval()
    torch.manual_seed(seed)
    with torch.no_grad():
        for layer in (*model.convolutions, *model.layers):
            layer.weight.normal_(0.2 / layer.weight[0].numel() ** 0.5, 1.5 / layer.weight[0].numel() ** 0.5)
            layer.bias.normal_(0.1, 0.3)
    features = len(model.config.lexical_features)
    model.set_feature_statistics(torch.linspace(0.1, 0.7, features), torch.linspace(0.5, 2.0, features))
    return model


def pairs(documents, queries, features, width=0, query_width=0):
    """Inputs of texts given as lists of ids, padded with word 1, which only the mask tells from a word."""
    documents, masks = padded(documents, width)
    queries, query_masks = padded(queries, query_width)
    return Inputs(documents, masks, queries, query_masks, torch.tensor(features, dtype=torch.float32))


def padded(texts, width):
    width = max(width, 1, *map(len, texts))
    ids = torch.tensor([[*text, *[1] * (width - len(text))] for text in texts])
    return ids, torch.tensor([[place < len(text) for place in range(width)] for text in texts])


@torch.inference_mode()
def scores_of_module(model, inputs):
    return model(inputs).numpy()


# ------------------------------------------------------------------------------------------------ numbers by hand


def test_golden_rows():
    """Query UNK (3,4) (-3,4); UNK stands at (0,0) and at (6,8), which would be closest to two of the words.

    Words: UNK, (6,8), UNK, (-3,0): rows of (6,8) - (3,4), length 5, cosine 1, and of (-3,0) - (-3,4), length 4,
    cosine 9 / 15; then none.
    """
    vectors = torch.tensor([[6.0, 8.0], [3.0, 4.0], [-3.0, 4.0], [6.0, 8.0], [-3.0, 0.0]])
    rows, mask = difference_rows(vectors, pairs([[0, 3, 0, 4]], [[0, 1, 2]], [[]], width=5))
    assert mask.tolist() == [[True, True, False, False, False]]
    np.testing.assert_allclose(rows[0, :2], [[3, 4, 1, 5], [0, -4, 0.6, 4]], atol=1e-6)
    assert not rows[0, 2:].any()


def test_of_equally_close_query_words_the_first_counts_and_zero_vectors_have_cosine_0():
    vectors = torch.tensor([[9.0, 9.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])
    for query, expected in (([1, 2], [-1, 0, 0, 1]), ([2, 1], [1, 0, 0, 1])):
        rows, _ = difference_rows(vectors, pairs([[3]], [query], [[]]))
        assert rows[0, 0].tolist() == expected


def test_golden_network():
    """Vectors of one number, one filter that reads distances, one feature, one hidden unit.

    Query [2]; document [5, UNK, 1] and a pad: distances 3, 1, side by side. The filter weighs the word two before by 1,
    the one before by 10, the last by 100, bias -120; the four windows (0,0,3) (0,3,1) (3,1,0) (1,0,0) give
    180, 10, -107, -119; the maximum is 180. Unskipped, (3,UNK,1) would add -17 and (0,3,UNK) 210 or more.
    Feature (7 - 4) / 2 = 1.5. Hidden: 180 - 20 * 1.5 = 150. Logit: -2 * 150 + 3 = -297, not cut off at 0.
    """
    vectors = torch.tensor([[99.0], [2.0], [5.0], [1.0]])
    model = DeltaClassifier(
        DeltaClassifierConfig(filters=1, convolutions=1, hidden=(1,), lexical_features=("jaccard_text",)), vectors
    ).eval()
    model.set_feature_statistics(torch.tensor([4.0]), torch.tensor([2.0]))
    with torch.no_grad():
        model.convolutions[0].weight.zero_()
        model.convolutions[0].weight[0, 2] = torch.tensor([1.0, 10.0, 100.0])
        model.convolutions[0].bias.fill_(-120)
        model.layers[0].weight.copy_(torch.tensor([[1.0, -20.0]]))
        model.layers[0].bias.zero_()
        model.layers[1].weight.fill_(-2)
        model.layers[1].bias.fill_(3)
    assert scores_of_module(model, pairs([[2, 0, 3]], [[1]], [[7.0]], width=4)).tolist() == pytest.approx([-297])


def test_the_four_overlaps(index):
    """Query 'aspirin zyzzyva aspirin stroke' and document a7, 'Aspirin': one word in common, of three, and no bigram.

    aspirin is in 3 of 10 documents, stroke in 2, zyzzyva in 1: ln(1 + (10 - df + 0.5) / (df + 0.5)) is their IDF.
    """
    builder = InputBuilder(index, Vocabulary(["aspirin"]), 50, 7, DeltaClassifierConfig().lexical_features)
    terms = index.query("aspirin zyzzyva aspirin stroke")
    weights = [math.log(1 + (10.5 - df) / (df + 0.5)) for df in (3, 1, 2)]
    found = builder.features(terms, small.candidates(index, [2]))
    np.testing.assert_allclose(found, [[1 / 3, weights[0] / sum(weights), 1 / 3, 0]], rtol=1e-6)


def test_the_papers_sizes():
    """[D17] figure 1: 256 filters of width 3, three times; 260 = 256 + 4 wide layers, two, and one output."""
    config = DeltaClassifierConfig()
    assert (config.document_words, config.query_words, config.lexical_features) == (50, 7, OVERLAPS)
    assert config.joined == 260 and config.hidden == (260, 260)
    model = DeltaClassifier(config, torch.zeros(2, 300))
    assert [tuple(layer.weight.shape) for layer in model.convolutions] == [(256, 302, 3), (256, 256, 3), (256, 256, 3)]
    assert [tuple(layer.weight.shape) for layer in model.layers] == [(260, 260), (260, 260), (1, 260)]
    maps = []
    for layer in model.convolutions:
        layer.register_forward_hook(lambda _, __, made: maps.append(made.shape[2]))
    model(pairs([[1] * 50], [[1]], [[0.0] * 4]))
    assert maps == [52, 54, 56]  # 'full' mode


# ------------------------------------------------------------------------------------------------------ the twin


def texts_of(vectors, ids, masks):
    """Texts as the twin reads them: vectors, and None for UNK."""
    return [
        [vectors[id].tolist() if id else None for id in row[mask].tolist()]
        for row, mask in zip(ids.numpy(), masks.numpy())
    ]


def plain_scores(model, inputs):
    vectors = model.vectors.numpy()
    overlaps = ((inputs.features - model.feature_mean) * model.feature_scale).tolist()
    convolutions, layers = (
        [(layer.weight.tolist(), layer.bias.tolist()) for layer in stage]
        for stage in (model.convolutions, model.layers)
    )
    documents = texts_of(vectors, inputs.documents, inputs.document_mask)
    queries = texts_of(vectors, inputs.queries, inputs.query_mask)
    return [
        plain_delta_classifier.logit(document, query, convolutions, some, layers)
        for document, query, some in zip(documents, queries, overlaps)
    ]


def random_pairs(random, words, batch, n, m, features):
    """A third of all words is UNK; among the texts are empty ones, full ones, and some of UNK alone."""
    documents = [
        random.integers(1, words, size) * (random.random(size) > 1 / 3) for size in random.integers(n + 1, size=batch)
    ]
    queries = [
        random.integers(1, words, size) * (random.random(size) > 1 / 3) for size in random.integers(m + 1, size=batch)
    ]
    documents[:3] = [[], [0] * n, random.integers(1, words, n)]
    queries[3:6] = [[], [0], [words - 1]]
    return pairs([list(d) for d in documents], [list(q) for q in queries], random.normal(1, 2, (batch, features)), n, m)


CONFIGURATIONS = [
    # filters, width, convolutions, N, M, D, features
    (4, 1, 1, 1, 2, 2, 1),
    (4, 3, 3, 9, 7, 5, 4),
    (5, 2, 2, 6, 3, 3, 2),
    (3, 5, 3, 3, 2, 4, 18),  # documents shorter than the filter
    (6, 3, 1, 8, 4, 2, 1),
]


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_agrees_with_the_plain_one(configuration, seed):
    filters, width, convolutions, n, m, dimension, features = configuration
    random = np.random.default_rng([seed, *configuration])
    model = scattered(
        random.normal(size=(9, dimension)).astype(np.float32), seed, filters=filters, width=width,
        convolutions=convolutions, document_words=n, query_words=m, lexical_features=NAMES[:features],
    )  # fmt: skip
    inputs = random_pairs(random, 9, 12, n, m, features)
    expected = plain_scores(model, inputs)
    assert np.ptp(expected) > 1e-2
    found = scores_of_module(model, inputs)
    assert found.shape == (12,) and found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


# ------------------------------------------------------------------------------------ what may not change a score


MODEL = scattered(np.random.default_rng(5).normal(size=(9, 4)).astype(np.float32), 2, filters=6, document_words=12)
words = st.integers(0, 8)
documents = st.lists(words, max_size=9)
queries = st.lists(words, max_size=5)
overlaps = st.lists(st.floats(0, 1, width=32), min_size=4, max_size=4)
examples = st.lists(st.tuples(documents, queries, overlaps), min_size=1, max_size=6)


def scores_of_examples(some, width=0, query_width=0):
    return scores_of_module(MODEL, pairs(*(list(column) for column in zip(*some)), width, query_width))


def assert_same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(examples, st.integers(0, 7), st.integers(0, 4), st.randoms(use_true_random=False))
def test_padding_batch_mates_and_their_order_do_not_matter(some, more, query_more, random):
    expected = scores_of_examples(some)
    np.testing.assert_array_equal(scores_of_examples(some), expected)  # two calls
    assert_same(scores_of_examples(some, 9 + more, 5 + query_more), expected)
    assert_same([scores_of_examples([one])[0] for one in some], expected)
    order = random.sample(range(len(some)), len(some))
    assert_same(scores_of_examples([some[place] for place in order]), expected[order])


@settings(max_examples=60, deadline=None)
@given(st.tuples(documents, queries, overlaps), st.data())
def test_unk_is_skipped_wherever_it_stands(example, data):
    """Its neighbours stand side by side, and its vector counts for nothing."""
    document, query, some = example
    expected = scores_of_examples([example])
    known, query_known = [word for word in document if word], [word for word in query if word]
    assert_same(scores_of_examples([(known, query_known, some)]), expected)
    for text in (known, query_known):
        for _ in range(data.draw(st.integers(0, 2))):
            text.insert(data.draw(st.integers(0, len(text))), 0)
    vectors = MODEL.vectors.clone()
    vectors[0] = vectors[data.draw(st.integers(1, 8))]
    with mock.patch.object(MODEL, "vectors", vectors):
        assert_same(scores_of_examples([(known, query_known, some)]), expected)


def test_words_between_unk_stand_in_their_order():
    """A skipped word is no gap, and no two documents of other words or another order look alike."""
    near, far = [1, 2, 3, 4], [1, 0, 2, 0, 0, 3, 4]
    found = scores_of_examples([(text, [5, 6], [0.0] * 4) for text in (near, far, [1, 3, 2, 4], [1, 2, 3])])
    assert found[0] == pytest.approx(found[1], abs=1e-6)
    assert len({round(float(score), 5) for score in found}) == 3


@pytest.mark.parametrize("query", [[], [0], [0, 0, 0]])
@pytest.mark.parametrize("document", [[1, 2, 3], [0, 0], []])
def test_without_known_words_only_the_overlaps_count(document, query):
    """Zeros for the pooled vector: the same for all such pairs, and another with other overlaps."""
    found = scores_of_examples([(document, query, [0.5] * 4), ([], [1], [0.5] * 4), (document, query, [0.9] * 4)])
    assert found[0] == pytest.approx(found[1], abs=1e-6) and abs(found[2] - found[0]) > 1e-3


# ---------------------------------------------------------------------------------------- training and checkpoints


def test_what_is_trained_and_what_has_an_l2_cost():
    model = DeltaClassifier(DeltaClassifierConfig(filters=3), torch.ones(3, 4))
    assert not model.vectors.requires_grad
    named = {id(parameter): name for name, parameter in model.named_parameters()}
    costly = {stage: {named[id(one)] for one in weights} for stage, weights in model.regularized().items()}
    assert costly == {
        "convolution": {f"convolutions.{number}.weight" for number in range(3)},
        "feed_forward": {f"layers.{number}.weight" for number in range(3)},
    }


def test_dropout_stands_in_both_stages():
    """Each alone makes two calls in training mode differ; with neither they are the same."""
    inputs = pairs([[1, 2, 3]] * 20, [[4, 5]] * 20, [[0.5] * 4] * 20)
    for dropout, classifier_dropout in ((0.5, 0.0), (0.0, 0.5), (0.0, 0.0)):
        model = scattered(MODEL.vectors, 1, filters=8, dropout=dropout, classifier_dropout=classifier_dropout).train()
        spread = np.ptp(model(inputs).detach().numpy())
        assert (spread > 1e-3) == (dropout + classifier_dropout > 0)


def test_it_learns_to_classify(index, vectors):
    """Whether a document speaks of risk, by cross-entropy and Adadelta: all ten are on the right side."""
    torch.manual_seed(0)
    model = DeltaClassifier(
        DeltaClassifierConfig(filters=16, dropout=0, classifier_dropout=0), torch.from_numpy(vectors.matrix)
    )
    builder = InputBuilder(index, vectors.vocabulary, 50, 7, OVERLAPS)
    terms, candidates = index.query("stroke or attack"), small.candidates(index)
    inputs = builder.build(terms, builder.query(terms), candidates)
    wanted = torch.tensor([float("risk" in f"{title} {abstract}".lower()) for _, title, abstract in small.DOCUMENTS])
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    for _ in range(80):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model.train()(inputs), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert all(parameter.grad.abs().sum() > 0 for parameter in model.parameters())
    assert 3 <= wanted.sum() <= 7
    np.testing.assert_array_equal(scores_of_module(model.eval(), inputs) > 0, wanted > 0.5)


@pytest.mark.parametrize("fast", [True, False])
def test_a_saved_model_scores_the_same(index, vectors, tmp_path, fast):
    model = scattered(vectors.matrix, filters=5)
    checkpoints.save_checkpoint(tmp_path / "c", model, vectors, {})
    query, candidates = Query("q", "women who smoke, risk of quokka"), small.candidates(index)
    terms = index.query(query.text)
    builder = InputBuilder(index, vectors.vocabulary, 50, 7, OVERLAPS)
    expected = scores_of_module(model, builder.build(terms, builder.query(terms), candidates))
    loaded = rerankers.load(f"delta-classifier:{tmp_path / 'c'}", index, RerankerOptions(fast=fast))
    found = loaded.score(query, candidates)
    assert (loaded.fast is not None) == fast and np.ptp(expected) > 0.1
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("fast", [True, False])
def test_a_query_of_unknown_words_keeps_the_first_stage(index, vectors, fast):
    one = NeuralReranker(scattered(vectors.matrix), vectors.vocabulary, index, RerankerOptions(fast=fast))
    candidates = small.candidates(index)
    assert one.score(Query("q", "quokka xylitol"), candidates).tolist() == candidates.first_stage_scores.tolist()


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
        ({"lexical_features": ("bm25_footnote",)}, "bm25_footnote"),
    ],
)
def test_wrong_hyper_parameters(wrong, said):
    with pytest.raises(InputError, match=said):
        DeltaClassifierConfig(**wrong)


# ------------------------------------------------------------------------------------------------- the fused path


hyper_parameters = st.fixed_dictionaries(
    {
        "filters": st.integers(1, 40),
        "width": st.sampled_from([3, 3, 3, 1, 2, 4, 6]),
        "convolutions": st.integers(1, 4),
        "hidden": st.none() | st.lists(st.integers(1, 40), max_size=3).map(tuple),
        "document_words": st.integers(1, 60),
        "query_words": st.integers(1, 10),
        "lexical_features": st.sampled_from([(), OVERLAPS, LEX3]),
    }
)


def test_fused_scores_are_the_modules():
    """To 1e-5 of the largest score, or to 2e-7 of what the last layer adds up where that nearly cancels out; documents
    of 0 to 70 words, two of five of them unknown."""
    spreads = []

    @settings(max_examples=60, deadline=None)
    @given(st.integers(0, 2**32 - 1), hyper_parameters)
    def agree(seed, hyper):
        random = np.random.default_rng(seed)
        known = [f"w{number}" for number in range(random.integers(1, 25))]
        said = [*known, *[f"x{number}" for number in range(len(known) * 2 // 3)]]
        made = [("d", " ".join(random.choice(said, random.integers(71))), "") for _ in range(random.integers(1, 12))]
        texts = [(f"d{number}", title, abstract) for number, (_, title, abstract) in enumerate(made)]
        with tempfile.TemporaryDirectory() as folder:
            index = small.build_index(Path(folder) / "forward", texts)
            vectors = small.word_vectors(known, int(random.integers(1, 25)), seed)
            model = scattered(vectors.matrix, seed, **hyper)
            builder = InputBuilder(
                index, vectors.vocabulary, hyper["document_words"], hyper["query_words"], hyper["lexical_features"]
            )
            terms = index.query(" ".join(random.choice(said, random.integers(1, 12))))
            query, candidates = builder.query(terms), small.candidates(index, random.integers(len(made), size=20))
            summands = []  # absolute, of the last layer
            last = model.layers[-1]
            hook = last.register_forward_pre_hook(
                lambda _, given: summands.append(given[0].abs() @ last.weight.abs().T)
            )
            expected = scores_of_module(model, builder.build(terms, query, candidates))
            hook.remove()
            found = FusedDeltaClassifier(model, builder, 1 + seed % 3).score(terms, query, candidates)
        assert found.shape == (20,) and found.dtype == np.float32
        scale = max(np.abs(expected).max(), 1e-3)
        added = float(summands[0].max() + last.bias.detach().abs())
        np.testing.assert_allclose(found, expected, rtol=0, atol=max(1e-5 * scale, 2e-7 * added))
        spreads.append(np.ptp(expected) / scale)

    agree()
    assert np.mean(np.array(spreads) > 0.01) > 0.4  # models that say the same of all documents would prove nothing


@pytest.mark.parametrize("rows", range(1, 14))
def test_pairs_of_windows_are_exact_on_small_whole_numbers(rows):
    """Even weights, so that their halves are whole: no rounding. What lies behind the last window is no number."""
    random = np.random.default_rng(rows)
    weight = (2 * random.integers(-4, 5, (3, 16, 16))).astype(np.float32)
    source, bias = random.integers(-3, 4, (40, 16)).astype(np.float32), random.integers(-9, 9, 16).astype(np.float32)
    source[rows + 2 :] = np.nan
    panels = np.stack([pack_panels(matrix) for matrix in delta_classifier_fused._paired(weight)])
    target = np.full((40, 16), -1, np.float32)
    pairs = np.full((2, 4, 20, 16), np.nan, np.float32)
    delta_classifier_fused._paired_convolution(source, panels, bias, pairs, target, rows)
    windows = np.stack([source[row : row + 3] for row in range(rows)])
    np.testing.assert_array_equal(target[:rows], np.maximum(0, bias + np.einsum("rti,tio->ro", windows, weight)))
    assert (target[rows + 1 :] == -1).all()


def library(folder, documents=120, longest=70):
    """Documents of every length up to ``longest``, of 200 words of which the model knows 150."""
    random = np.random.default_rng(8)
    names = np.array([f"w{number}" for number in range(200)])
    texts = [(f"d{n}", " ".join(random.choice(names, n * longest // (documents - 1))), "") for n in range(documents)]
    return small.build_index(folder / "forward", texts), small.word_vectors(names[:150].tolist(), 19, seed=4)


QUERY = Query("q1", "w0 w7 w180 w31 w7")


def opened(made, threads=1, fast=True):
    index, vectors = made
    model = scattered(vectors.matrix, 3, filters=21, document_words=40)
    return NeuralReranker(model, vectors.vocabulary, index, RerankerOptions(threads=threads, fast=fast))


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """The library, and its documents' scores by one thread from memory that held nothing before."""
    made = library(tmp_path_factory.mktemp("library"))
    expected = opened(made, fast=False).score(QUERY, small.candidates(made[0]))
    found = opened(made).score(QUERY, small.candidates(made[0]))
    assert np.ptp(found) > 0.1
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * np.abs(expected).max())
    return made, found


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_no_bit_depends_on_threads_or_on_other_candidates(shelf, threads):
    made, expected = shelf
    one, random = opened(made, threads), np.random.default_rng(threads)
    for size in (None, 1, 300, 17, 4, 120):
        rows = np.arange(120) if size is None else random.integers(120, size=size)
        found = one.score(QUERY, small.candidates(made[0], rows))
        assert found.tobytes() == expected[rows].tobytes()


@pytest.mark.parametrize("threads", [1, 3])
def test_several_queries_at_once(shelf, threads):
    made, expected = shelf
    rows = [np.arange(120), np.array([5, 5, 99]), np.arange(30, 60)]
    found = opened(made, threads).score_many([QUERY] * 3, [small.candidates(made[0], some) for some in rows])
    for some, scores in zip(rows, found):
        assert scores.tobytes() == expected[some].tobytes()


@pytest.mark.parametrize("threads", [1, 3])
def test_garbage_in_memory_never_reaches_a_score(shelf, threads, monkeypatch):
    """``Workspace.array`` promises arrays with any content: here NaN and -1, in them and around them."""
    made, expected = shelf
    poison = guarded.Poisoned()
    monkeypatch.setattr(Workspace, "array", lambda *arguments: poison.array(*arguments))
    one = opened(made, threads)
    for rows in (np.arange(120), np.array([5]), np.array([119, 0, 7, 7])):
        assert one.score(QUERY, small.candidates(made[0], rows)).tobytes() == expected[rows].tobytes()
    assert len(poison.given) >= 9 and not poison.overrun()


def stay_inside(folder):
    """Score documents of every length with forbidden memory behind, then before each array."""
    made = library(Path(folder), 45, 44)
    one = opened(made)
    expected = one.score(QUERY, small.candidates(made[0]))
    for at_end in (True, False):
        with mock.patch.object(Workspace, "array", lambda _, name, *what: guarded.fenced(*what, at_end)):
            for rows in (np.arange(45), np.array([3]), np.array([44, 1])):
                assert one.score(QUERY, small.candidates(made[0], rows)).tobytes() == expected[rows].tobytes()


@pytest.mark.skipif(not guarded.FENCES, reason="needs Linux's memory protection")
def test_no_memory_outside_the_workspaces_arrays_is_touched(tmp_path):
    command = "import sys; from tests.models import test_delta_classifier as t; t.stay_inside(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", command, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("place", [0, 2, 5])
def test_one_broken_word_is_not_hidden_by_the_maximum(tmp_path, place, fast):
    """'broken' has a vector that is no vector. Wherever it stands among 6 words, its document is named."""
    vectors = small.word_vectors(["heart", "attack", "risk", "broken"], dimension=5, seed=1)
    vectors.matrix[vectors.vocabulary.ids["broken"], 2] = np.nan
    said = ["attack", "risk"] * 3
    said[place] = "broken"
    index = small.build_index(tmp_path / "forward", [("good", "attack risk attack", ""), ("bad", " ".join(said), "")])
    model = scattered(vectors.matrix, filters=6)
    one = NeuralReranker(model, vectors.vocabulary, index, RerankerOptions(fast=fast))
    assert np.isfinite(one.score(Query("q7", "heart risk"), small.candidates(index, [0]))).all()
    with pytest.raises(InputError, match="document bad for query q7"):
        one.score(Query("q7", "heart risk"), small.candidates(index))
