"""DUET against numbers worked out by hand, against its plain twin, and its fused path against both."""

import copy
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
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.kernels.hyperbolic import tanh_rows
from rerank_plugin.kernels.parallel import Workspace
from rerank_plugin.models import checkpoints
from rerank_plugin.models.duet.fused import FusedDuet
from rerank_plugin.models.duet.model import PARTS, Duet, DuetConfig, positions_of, window_mask
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.training.losses import pairwise_hinge
from tests import guarded, small
from tests.models import plain_duet

ROOT = Path(rerank_plugin.__file__).parent.parent
TINY = dict(filters=5, hidden=(7, 4), pool_width=4, pool_stride=2, document_words=30, query_words=7, dropout=0.5)
QUERY = Query("q1", "aspirin heart attack xylitol")  # xylitol is in the index, not in the vocabulary: UNK
QUERIES = [
    QUERY,
    Query("q2", "cancer"),
    Query("q3", "Women who smoke, risk of stroke"),
    Query("q4", "migraine zyzzyva nowhere migraine"),
    Query("q5", "a second diet and cancer red meat raises colon in women"),  # longer than TINY reads
]
every_part = pytest.mark.parametrize("parts", PARTS)
both_paths = pytest.mark.parametrize("fast", [False, True], ids=["module", "fused"])


def scatter(model, seed):
    """Weights as large as the layers need to keep their signal, so that scores of different documents differ."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.3)
            elif name == "local.row.weight":
                parameter.normal_(0, 1)  # of whose inputs hardly one is not zero
            else:
                parameter.normal_(0, 1.5 / parameter[0].numel() ** 0.5)
    return model.eval()


def duet(vectors, seed=1, **hyper_parameters):
    return scatter(Duet(DuetConfig(**{**TINY, **hyper_parameters}), torch.from_numpy(vectors.matrix)), seed)


def reranker(model, index, vectors, fast, **options):
    return NeuralReranker(model, vectors.vocabulary, index, RerankerOptions(fast=fast, **options))


def scores_of(index, one, query=QUERY, rows=None):
    return one.score(query, small.candidates(index, rows))


def assert_same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


# ------------------------------------------------------------------------------------------------------ golden values


def inputs_of(documents, queries, document_words, query_words):
    """Inputs from lists of the model's ids, which are the term ids, too; padded with a word: only masks tell."""

    def padded(texts, width):
        ids = torch.tensor([[*text, *[1] * (width - len(text))] for text in texts])
        mask = torch.tensor([[True] * len(text) + [False] * (width - len(text)) for text in texts])
        return ids, mask

    (ids, mask), (query_ids, query_mask) = padded(documents, document_words), padded(queries, query_words)
    none = torch.zeros(len(ids), 0)
    return Inputs(ids, mask, query_ids, query_mask, none, ids, query_ids, torch.zeros(query_ids.shape))


def set_weights(module, **weights):
    with torch.no_grad():
        for name, value in weights.items():
            parameter = module.get_parameter(name.replace("__", "."))
            parameter.copy_(torch.tensor(value, dtype=torch.float32).reshape(parameter.shape))


@torch.no_grad()
def test_golden_local():
    """Document 2 1 2, query 2 3 of three slots. Places weigh 0.1, 0.2, 0.4, and a fourth, padded one 9; bias 0.05.

    Word 2 stands at the first and the third place: tanh(0.1 + 0.4 + 0.05). Word 3 nowhere: tanh(0.05). The slots weigh
    1, -2 and, padded, 9; bias 0.3. Its id is 1 where it is padded, as a word of the document: nothing but masks tell.
    """
    config = DuetConfig("local", filters=1, hidden=(1,), document_words=4, query_words=3)
    model = Duet(config, torch.zeros(4, 2)).eval()
    set_weights(
        model.local, row__weight=[0.1, 0.2, 0.4, 9], row__bias=[0.05],
        output__layers__0__weight=[1, -2, 9], output__layers__0__bias=[0.3],
        output__last__weight=[0.7], output__last__bias=[-0.1],
    )  # fmt: skip
    hidden = math.tanh(0.3 + math.tanh(0.55) - 2 * math.tanh(0.05))
    found = model(inputs_of([[2, 1, 2]], [[2, 3]], 4, 3))
    assert found.tolist() == pytest.approx([math.tanh(0.7 * hidden - 0.1)], abs=1e-6)


@torch.no_grad()
def test_golden_distributed():
    """One dimension, one filter. Words are 0.5, 1, -2, 3; a pad would be -2, word 1 is it.

    Query 3 0.5: two words, so one position, filled up with zero: 0.2 * 3 - 0.1 * 0.5 + 0.4 * 0 = 0.55.
    Document 1 -2 3 0.5 -2, taps 0.1, 0.3, -0.2, bias 0.1:
    0.1 - 0.6 - 0.6 + 0.1 = -1, -0.2 + 0.9 - 0.1 + 0.1 = 0.7, 0.3 + 0.15 + 0.4 + 0.1 = 0.95.
    Windows of two, one apart: 0.7 and 0.95. The third window of six words weighs 9, and does not exist.
    """
    config = DuetConfig("distributed", 1, (1,), pool_width=2, pool_stride=1, document_words=6, query_words=4)
    assert (config.positions, config.windows) == (4, 3)
    model = Duet(config, torch.tensor([[0.5], [-2.0], [1.0], [3.0]])).eval()
    set_weights(
        model.distributed, query_convolution__weight=[0.2, -0.1, 0.4], query_convolution__bias=[0],
        query_layer__weight=[2], query_layer__bias=[-0.3],
        document_convolution__weight=[0.1, 0.3, -0.2], document_convolution__bias=[0.1],
        window_layer__weight=[1.5], window_layer__bias=[0.2],
        output__layers__0__weight=[1, -0.5, 9], output__layers__0__bias=[0.1],
        output__last__weight=[3], output__last__bias=[0.2],
    )  # fmt: skip
    query = math.tanh(2 * math.tanh(0.55) - 0.3)
    first, second = (math.tanh(1.5 * math.tanh(pooled) + 0.2) for pooled in (0.7, 0.95))
    hidden = math.tanh(first * query - 0.5 * second * query + 0.1)
    found = model(inputs_of([[2, 1, 3, 0, 1]], [[3, 0]], 6, 4))
    assert found.tolist() == pytest.approx([math.tanh(3 * hidden + 0.2)], abs=1e-6)


def test_the_papers_sizes():
    """1,000 words and 10: 998 positions and 899 windows of 100; 300 filters and hidden nodes everywhere."""
    config = DuetConfig(document_words=1000, pool_stride=1)
    assert (config.positions, config.windows) == (998, 899)
    model = Duet(DuetConfig(), torch.zeros(2, 20))
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters() if name.endswith("weight")}
    windows = 1 + math.ceil((248 - 100) / 10)
    assert shapes == {
        "local.row.weight": (300, 250),
        "local.output.layers.0.weight": (300, 3000),
        "local.output.layers.1.weight": (300, 300),
        "local.output.last.weight": (1, 300),
        "distributed.query_convolution.weight": (300, 20, 3),
        "distributed.query_layer.weight": (300, 300),
        "distributed.document_convolution.weight": (300, 20, 3),
        "distributed.window_layer.weight": (300, 300),
        "distributed.output.layers.0.weight": (300, windows * 300),
        "distributed.output.layers.1.weight": (300, 300),
        "distributed.output.last.weight": (1, 300),
    }
    assert model.regularized() == {} and not model.vectors.requires_grad


def test_positions_and_windows():
    """Width 3, windows of 4, 2 apart, of at most 9 positions: [0, 4), [2, 6), [4, 8) and [6, 9)."""
    config = DuetConfig(pool_width=4, pool_stride=2, document_words=11)
    mask = torch.arange(11) < torch.arange(12)[:, None]
    positions = positions_of(mask, 3)
    assert positions.tolist() == [0, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert window_mask(positions, config).sum(dim=1).tolist() == [0, 1, 1, 1, 1, 1, 1, 2, 2, 3, 3, 4]
    assert config.windows == 4


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"parts": "global"}, "'global'.*local, distributed, both"),
        ({"hidden": ()}, "hidden layer"),
        ({"hidden": (5, 0)}, "at least 1"),
        ({"filters": 0}, "at least 1"),
        ({"width": 0}, "at least 1"),
        ({"pool_width": 0, "pool_stride": 0}, "at least 1"),
        ({"document_words": 0}, "at least 1"),
        ({"query_words": -1}, "at least 1"),
        ({"pool_width": 5, "pool_stride": 6}, "leaves out"),
        ({"dropout": 1.0}, "dropout 1.0"),
        ({"dropout": float("nan")}, "dropout nan"),
        ({"lexical_features": ("bm25_title",)}, "no lexical features"),
    ],
)
def test_wrong_hyper_parameters(wrong, said):
    with pytest.raises(InputError, match=said):
        DuetConfig(**wrong)


# ---------------------------------------------------------------------------------------------------------- the twin


def lists(layer):
    return layer.weight.tolist(), layer.bias.tolist()


def layers_of(output):
    return [lists(layer) for layer in (*output.layers, output.last)]


def plain_score(model, document, query, document_terms, query_terms):
    """The twin's score; words as ids of the model and as terms."""
    config, total = model.config, 0.0
    if config.parts != "distributed":
        terms = [None if term < 0 else term for term in query_terms]
        total += plain_duet.local(document_terms, terms, lists(model.local.row), layers_of(model.local.output))
    if config.parts != "local":
        part = model.distributed
        total += plain_duet.distributed(
            model.vectors[document].tolist(), model.vectors[query].tolist(),
            lists(part.query_convolution), lists(part.query_layer), lists(part.document_convolution),
            lists(part.window_layer), (config.pool_width, config.pool_stride), layers_of(part.output),
        )  # fmt: skip
    return total


def plain_scores(model, inputs):
    scores = []
    for row in range(len(inputs.documents)):
        document, query = inputs.document_mask[row], inputs.query_mask[row]
        scores.append(
            plain_score(
                model, inputs.documents[row][document].tolist(), inputs.queries[row][query].tolist(),
                inputs.document_terms[row][document].tolist(), inputs.query_terms[row][query].tolist(),
            )
        )  # fmt: skip
    return scores


CONFIGURATIONS = [
    # filters, hidden, width, pool width, pool stride, N, M, D
    (1, (1,), 1, 1, 1, 1, 1, 1),
    (3, (4,), 3, 4, 2, 12, 4, 5),
    (2, (3, 2), 3, 100, 10, 9, 3, 4),  # one window, never full
    (4, (3, 5, 2), 2, 3, 3, 11, 5, 3),
    (3, (4, 4), 5, 2, 1, 3, 2, 3),  # texts shorter than the convolution
    (2, (6,), 4, 5, 3, 20, 6, 2),
]


@every_part
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=str)
def test_module_agrees_with_the_plain_one(configuration, parts):
    """Padded ids are any words at all: only masks may say what counts."""
    filters, hidden, width, pool_width, pool_stride, n, m, dimension = configuration
    config = DuetConfig(parts, filters, hidden, width, pool_width, pool_stride, document_words=n, query_words=m)
    random = np.random.default_rng([n, m])
    vectors = torch.from_numpy(random.normal(size=(9, dimension)).astype(np.float32))
    model = scatter(Duet(config, vectors), n)
    lengths, query_lengths = random.integers(0, n + 1, 8), random.integers(1, m + 1, 8)
    lengths[0], lengths[-1] = 0, n
    documents, queries = (torch.from_numpy(random.integers(0, 9, (8, size))) for size in (n, m))
    inputs = Inputs(
        documents,
        torch.from_numpy(np.arange(n) < lengths[:, None]),
        queries,
        torch.from_numpy(np.arange(m) < query_lengths[:, None]),
        torch.zeros(8, 0),
        documents,
        torch.where(queries == 3, -1, queries),
        torch.zeros(8, m),
    )
    with torch.no_grad():
        found = model(inputs).numpy()
    assert found.shape == (8,) and np.ptp(found) > 1e-2
    np.testing.assert_allclose(found, plain_scores(model, inputs), rtol=0, atol=1e-5)


@torch.no_grad()
def test_a_query_without_words_and_a_text_without_words():
    model = scatter(Duet(DuetConfig(**TINY), torch.randn(5, 3)), 3)
    found = model(inputs_of([[2, 3], [], []], [[], [4], []], 30, 7))
    assert torch.isfinite(found).all() and len(set(found.tolist())) == 3


# ---------------------------------------------------------------------------------------- what must not change a score


@pytest.fixture(scope="module")
def reference(index, vectors):
    """Scores of all documents for QUERY by the module, for each part; they differ by far more than 1e-6."""
    found = {}
    for parts in PARTS:
        found[parts] = scores_of(index, reranker(duet(vectors, parts=parts), index, vectors, fast=False))
        assert found[parts].dtype == np.float32 and found[parts].shape == (len(index),)
        gaps = np.diff(np.sort(found[parts]))
        # Two documents say 'heart attack' at the same places, or none of the words: the local model sees no difference.
        assert np.min(gaps) > 1e-5 if parts != "local" else np.sum(gaps > 1e-4) >= 5
    return found


@both_paths
@every_part
@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.id)
def test_the_plain_model_gives_the_same_from_texts(index, vectors, parts, query, fast):
    """From the text to the score: words are cut at N and M, and unknown ones are matched by what they are."""
    model = duet(vectors, parts=parts, document_words=9, query_words=3)
    one, lookup = reranker(model, index, vectors, fast), vectors.vocabulary.lookup
    found = scores_of(index, one, query)
    words, terms = index.query(query.text).terms[:3], {term: n for n, term in enumerate(small_terms(index))}
    for row, (_, title, abstract) in enumerate(small.DOCUMENTS):
        document = index.query(f"{title} {abstract}").terms[:9]
        expected = plain_score(
            model, lookup(document), lookup(words), [terms[word] for word in document],
            [terms.get(word, -1) for word in words],
        )  # fmt: skip
        assert found[row] == pytest.approx(expected, abs=1e-5)


def small_terms(index):
    return index.terms.take(range(len(index.terms)))


def grown(model, document_words, query_words):
    """The model with more room: the weights of the new places are any, those of the old ones as they were."""
    config = DuetConfig(**{**vars(model.config), "document_words": document_words, "query_words": query_words})
    larger = scatter(Duet(config, model.vectors), 77)
    with torch.no_grad():
        for (name, here), there in zip(larger.named_parameters(), model.parameters()):
            here[tuple(slice(size) for size in there.shape)] = there
            assert here.shape == there.shape or name in {
                "local.row.weight", "local.output.layers.0.weight", "distributed.output.layers.0.weight"
            }  # fmt: skip
    return larger


@both_paths
@every_part
def test_more_padding(index, vectors, reference, parts, fast):
    """All documents have fewer than 30 words and the query fewer than 7."""
    assert small.candidates(index).lengths.max() < 30
    for document_words, query_words in [(31, 7), (30, 12), (95, 40)]:
        model = grown(duet(vectors, parts=parts), document_words, query_words)
        assert_same(scores_of(index, reranker(model, index, vectors, fast)), reference[parts])


@both_paths
@every_part
def test_batch_mates_order_and_repetition(index, vectors, reference, parts, fast):
    one = reranker(duet(vectors, parts=parts), index, vectors, fast)
    random = np.random.default_rng(0)
    for size in (1, 2, 3, 7, len(index), 25):
        rows = random.integers(len(index), size=size)
        assert_same(scores_of(index, one, rows=rows), reference[parts][rows])
    rows = random.permutation(len(index))
    assert_same(scores_of(index, one, rows=rows), reference[parts][rows])


@both_paths
@every_part
def test_batch_of_one(index, vectors, reference, parts, fast):
    one = reranker(duet(vectors, parts=parts), index, vectors, fast)
    for row in range(len(index)):
        found = scores_of(index, one, rows=[row])
        assert found.shape == (1,)
        assert_same(found, reference[parts][[row]])


@both_paths
@every_part
@pytest.mark.parametrize("batch_size", [1, 3])
def test_batch_size_and_two_calls_with_others_between(index, vectors, reference, parts, fast, batch_size):
    one = reranker(duet(vectors, parts=parts), index, vectors, fast, batch_size=batch_size)
    for query in QUERIES:
        scores_of(index, one, query)
    assert_same(scores_of(index, one), reference[parts])
    assert_same(scores_of(index, one), reference[parts])


@both_paths
@every_part
def test_one_word_query(index, vectors, parts, fast):
    """However much room there is for more words."""
    query, model = Query("q", "heart"), duet(vectors, parts=parts, query_words=1)
    expected = scores_of(index, reranker(model, index, vectors, fast=False), query)
    assert np.ptp(expected) > 1e-2
    for query_words in (2, 7):
        one = reranker(grown(model, 30, query_words), index, vectors, fast)
        assert_same(scores_of(index, one, query), expected)


@both_paths
@every_part
def test_queries_of_unknown_words(index, vectors, parts, fast):
    """'xylitol quokka' is matched by its words where there is a local model; else the first stage's order stays."""
    one = reranker(duet(vectors, parts=parts), index, vectors, fast)
    first_stage = small.candidates(index).first_stage_scores
    found = scores_of(index, one, Query("q", "xylitol quokka"))
    if parts == "distributed":
        assert found.tolist() == first_stage.tolist()
    else:
        alike = scores_of(index, one, Query("q", "xylitol zyzzyva"))  # the same to the model, other matches
        assert np.isfinite(found).all() and np.flatnonzero(found != alike).tolist() == [6]
    assert scores_of(index, one, Query("q", "nowhere")).tolist() == first_stage.tolist()


@both_paths
@every_part
def test_documents_that_are_empty_or_shorter_than_an_ngram(index, vectors, parts, fast):
    """Document 4 is empty, 2 is one word; a convolution of five words is longer than that."""
    model = duet(vectors, parts=parts, width=5, document_words=3)
    expected = scores_of(index, reranker(model, index, vectors, fast=False), rows=[4, 2])
    assert np.isfinite(expected).all() and expected[0] != expected[1]
    assert_same(scores_of(index, reranker(model, index, vectors, fast), rows=[4, 2]), expected)
    roomy = reranker(grown(model, 60, 7), index, vectors, fast)
    assert_same(scores_of(index, roomy, rows=[4, 2]), expected)


@both_paths
def test_an_empty_document_has_one_score_for_all_queries_of_a_length(index, vectors, fast):
    """Nothing of it meets the query; the local model still sees how many words lack a match."""
    one = reranker(duet(vectors), index, vectors, fast)
    found = [scores_of(index, one, Query("q", text), [4])[0] for text in ("heart attack", "red meat", "stroke")]
    assert found[0] == found[1] != found[2]


@every_part
def test_documents_that_are_all_empty(tmp_path, vectors, parts):
    index = small.build_index(tmp_path / "forward", [("a", "", ""), ("b", "", "")])
    for fast in (False, True):
        found = scores_of(index, reranker(duet(vectors, parts=parts), index, vectors, fast), Query("q", "heart"))
        assert np.isfinite(found).all() and abs(found[0] - found[1]) < 1e-6


@both_paths
def test_no_candidates(index, vectors, fast):
    found = scores_of(index, reranker(duet(vectors), index, vectors, fast), rows=[])
    assert found.shape == (0,) and found.dtype == np.float32


@both_paths
def test_the_place_and_the_word_matter(index, vectors, fast):
    """The local model tells places and query words apart; it is no bag of words."""
    one = reranker(duet(vectors, parts="local"), index, vectors, fast)
    found = scores_of(index, one, Query("q", "heart attack"), [0, 8])  # at places 2, 3, 12, 13, and at 7, 8
    turned = scores_of(index, one, Query("q", "attack heart"), [0, 8])
    assert abs(found[0] - found[1]) > 1e-3 and (np.abs(found - turned) > 1e-3).all()


@both_paths
def test_weights_that_are_no_numbers_name_the_document(index, vectors, fast):
    for name in ("local.output.last.bias", "local.output.layers.0.weight", "distributed.window_layer.weight",
                 "distributed.document_convolution.weight", "distributed.output.layers.0.weight"):  # fmt: skip
        model = duet(vectors)
        with torch.no_grad():
            model.get_parameter(name).view(-1)[-1] = float("nan")
        with pytest.raises(InputError, match="MED-14.*q1"):
            scores_of(index, reranker(model, index, vectors, fast), rows=[8])


def test_huge_word_vectors_end_in_tanh_on_both_paths(index, vectors):
    huge = vectors._replace(matrix=vectors.matrix.copy())
    huge.matrix[3] = 1e30
    model = duet(huge)
    expected = scores_of(index, reranker(model, index, huge, fast=False))
    assert_same(scores_of(index, reranker(model, index, huge, fast=True)), expected)


# ------------------------------------------------------------------------------------------------------ the fused path


@pytest.mark.parametrize("columns", [1, 8, 37])
def test_tanh(columns):
    values = np.concatenate([np.linspace(-12, 12, 40_000), np.logspace(-30, 1, 4_000), -np.logspace(-30, 1, 4_000)])
    values = values[: len(values) // columns * columns].astype(np.float32).reshape(-1, columns)
    expected, found = np.tanh(values.astype(np.float64)), values.copy()
    tanh_rows(found, len(found))
    np.testing.assert_allclose(found, expected, rtol=4e-7, atol=0)
    special = np.array([[np.nan, np.inf, -np.inf, 0.0, -0.0]], np.float32)
    tanh_rows(special, 1)
    np.testing.assert_allclose(special, [[np.nan, 1, -1, 0, 0]], rtol=2e-7)


def random_documents(random, words, count, longest):
    """(id, title, abstract) of every length from 0 to ``longest``; short ones are as frequent as long ones."""
    documents = []
    for number in range(count):
        length = random.choice([0, 1, 2, 3, *random.integers(0, longest + 1, 6)])
        said = random.choice(words, length).tolist()
        border = random.integers(0, length + 1)
        documents.append((f"d{number}", " ".join(said[:border]), " ".join(said[border:])))
    return documents


hyper_parameters = st.fixed_dictionaries(
    {
        "parts": st.sampled_from(PARTS),
        "filters": st.integers(1, 40),
        "hidden": st.lists(st.integers(1, 40), min_size=1, max_size=3).map(tuple),
        "width": st.integers(1, 4),
        "pool_width": st.integers(1, 40),
        "pool_stride": st.integers(1, 40),
        "document_words": st.integers(1, 60),
        "query_words": st.integers(1, 8),
    }
)


def test_fused_scores_are_the_modules_and_the_twins():
    """To 1e-5 of the largest score; where the module's own rounding is worse than that, to four times its error."""
    spreads, twins = [], 0

    @settings(max_examples=60)
    @given(seed=st.integers(0, 2**32 - 1), hyper=hyper_parameters, dimension=st.integers(1, 20))
    def agree(seed, hyper, dimension):
        nonlocal twins
        hyper["pool_stride"] = min(hyper["pool_stride"], hyper["pool_width"])
        random = np.random.default_rng(seed)
        vocabulary = Vocabulary([f"w{number}" for number in range(random.integers(1, 9))] + ["m0"])
        words = [*vocabulary.words[1:-1], "x0", "x1"]  # m0 is in no document, x0 and x1 are not in the vocabulary
        query = random.choice([*words, "m0", "n0"], random.integers(1, hyper["query_words"] + 3))
        vectors = torch.from_numpy(random.normal(size=(len(vocabulary), dimension)).astype(np.float32))
        model = scatter(Duet(DuetConfig(**hyper), vectors), seed % 1000)
        with tempfile.TemporaryDirectory() as folder:
            documents = random_documents(random, words, random.integers(6, 20), hyper["document_words"] + 9)
            index = small.build_index(Path(folder) / "forward", documents)
            builder = InputBuilder(index, vocabulary, model.config.document_words, model.config.query_words, ())
            terms = index.query(" ".join(query))
            candidates = small.candidates(index, random.integers(len(documents), size=random.integers(6, 60)))
            heard = builder.query(terms)
            inputs = builder.build(terms, heard, candidates)
            with torch.inference_mode():
                expected, exact = model(inputs).numpy(), copy.deepcopy(model).double()(inputs).numpy()
            found = FusedDuet(model, builder, 1 + seed % 3).score(terms, heard, candidates)
        assert found.dtype == np.float32
        scale = max(np.abs(expected).max(), 1e-3)
        allowed = 1e-5 * scale + 4 * np.abs(expected - exact).max()
        np.testing.assert_allclose(found, expected, rtol=0, atol=allowed)
        spreads.append(np.ptp(expected) / scale)
        if hyper["filters"] * dimension < 40:
            np.testing.assert_allclose(found[:2], plain_scores(model, inputs.take(slice(2))), rtol=0, atol=allowed)
            twins += 1

    agree()
    assert np.mean(np.array(spreads) > 0.01) > 0.7  # models that say the same of all documents would prove nothing
    assert twins > 5


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """150 documents of 0 to 79 words out of 300, of which the model knows 250."""
    random, words = np.random.default_rng(8), np.array([f"w{number}" for number in range(300)])
    documents = random_documents(random, words, 150, 79)
    return small.build_index(tmp_path_factory.mktemp("library") / "forward", documents), small.word_vectors(
        words[:250].tolist(), dimension=7, seed=4
    )


LIBRARY_QUERY = Query("q", "w1 w7 w260 w31 w7 w40 w41 w42 nowhere")
MODELS = [
    dict(filters=21, hidden=(18, 9), pool_width=12, pool_stride=4, document_words=70, query_words=9),
    dict(filters=16, hidden=(33,), pool_width=9, pool_stride=1, width=2, document_words=50, query_words=5),
    dict(parts="local", filters=5, hidden=(3, 3, 3), document_words=64, query_words=8),
]
every_model = pytest.mark.parametrize("hyper", MODELS, ids=["stride-4", "stride-1", "local"])


def open_library(library, hyper, threads=1):
    index, vectors = library
    return reranker(duet(vectors, seed=3, **hyper), index, vectors, fast=True, threads=threads)


@every_model
def test_threads_and_batch_mates_change_no_bit(library, hyper):
    """Parts of 32 documents and more, in any order, by up to seven threads, from memory that is never fresh."""
    index, vectors = library
    expected = scores_of(index, open_library(library, hyper), LIBRARY_QUERY)
    module = reranker(duet(vectors, seed=3, **hyper), index, vectors, fast=False)
    np.testing.assert_allclose(expected, scores_of(index, module, LIBRARY_QUERY), rtol=0, atol=1e-5)
    assert len(np.unique(expected)) > 40 and np.ptp(expected) > 0.1
    random = np.random.default_rng(6)
    for threads in (1, 2, 7):
        one = open_library(library, hyper, threads)
        for turn in range(8):
            rows = random.integers(150, size=random.choice([1, 5, 64, 150, 400]))
            found = scores_of(index, one, LIBRARY_QUERY, rows)
            assert found.tobytes() == expected[rows].tobytes()
            scores_of(index, one, Query("other", "w2 w3"), rows[:7])


@every_model
def test_garbage_in_memory_never_reaches_a_score(library, hyper, monkeypatch):
    """``Workspace.array`` promises arrays with any content: here NaN and -1, in them and around them."""
    index, poison = library[0], guarded.Poisoned()
    expected = scores_of(index, open_library(library, hyper), LIBRARY_QUERY)
    monkeypatch.setattr(Workspace, "array", lambda *arguments: poison.array(*arguments))
    one = open_library(library, hyper, 2)
    for rows in (np.arange(150), np.array([5]), np.array([139, 0, 7, 7])):
        assert scores_of(index, one, LIBRARY_QUERY, rows).tobytes() == expected[rows].tobytes()
    assert len(poison.given) >= 4 and not poison.overrun()


def stay_inside(folder):
    """Score documents of every length up to N and over with forbidden memory behind, then before each array."""
    random, words = np.random.default_rng(1), [f"w{number}" for number in range(60)]
    documents = [(f"d{length}", " ".join(random.choice(words, length)), "") for length in range(75)]
    library = small.build_index(Path(folder) / "forward", documents), small.word_vectors(words, 7, seed=4)
    for hyper in MODELS:
        one = open_library(library, hyper)
        expected = scores_of(library[0], one, LIBRARY_QUERY)
        for at_end in (True, False):
            with mock.patch.object(Workspace, "array", lambda _, name, *what: guarded.fenced(*what, at_end)):
                for rows in (np.arange(75), np.array([3]), np.array([74, 1])):
                    assert scores_of(library[0], one, LIBRARY_QUERY, rows).tobytes() == expected[rows].tobytes()


@pytest.mark.skipif(not guarded.FENCES, reason="needs Linux's memory protection")
def test_no_memory_outside_the_workspaces_arrays_is_touched(tmp_path):
    command = "import sys; from tests.models import test_duet; test_duet.stay_inside(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", command, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# -------------------------------------------------------------------------------------------- checkpoints and training


@both_paths
@every_part
def test_checkpoint(tmp_path, index, vectors, reference, parts, fast):
    checkpoints.save_checkpoint(tmp_path / "duet", duet(vectors, parts=parts), vectors, {})
    loaded = rerankers.load(f"duet:{tmp_path / 'duet'}", index, RerankerOptions(fast=fast))
    assert loaded.model.config == DuetConfig(**{**TINY, "parts": parts})
    assert_same(scores_of(index, loaded), reference[parts])


@every_part
def test_training_moves_it(index, vectors, parts):
    """Documents 0 to 4 are to be better than 5 to 9: pairs that it gets wrong become right, on both paths."""
    model = duet(vectors, parts=parts, dropout=0.1)
    fused = reranker(model, index, vectors, fast=True)
    builder, terms = fused.builder, index.query(QUERIES[2].text)
    inputs = builder.build(terms, builder.query(terms), small.candidates(index))
    before = scores_of(index, fused, QUERIES[2])
    optimizer, losses = torch.optim.Adagrad(model.parameters(), lr=0.05), []
    model.train()
    for _ in range(40):
        optimizer.zero_grad()
        scores = model(inputs)
        loss = pairwise_hinge(scores[:5], scores[5:], torch.ones(5))
        loss.backward()
        assert all(parameter.grad is not None for parameter in model.parameters())
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])
    after = scores_of(index, reranker(model, index, vectors, fast=True), QUERIES[2])  # its tables are of new weights
    assert np.abs(after - before).max() > 0.1
    with torch.no_grad():
        assert_same(after, model(inputs).numpy())


def test_dropout_only_in_training(index, vectors, reference):
    model = duet(vectors, dropout=0.9)
    one = reranker(model, index, vectors, fast=True)
    assert_same(scores_of(index, one), reference["both"])
    model.train()
    assert np.abs(scores_of(index, one) - reference["both"]).max() > 1e-3
