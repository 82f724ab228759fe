"""MatchPyramid against numbers worked out by hand and its plain twin; the fused path against the module."""

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
from rerank_plugin.models.matchpyramid.fused import FusedMatchPyramid
from rerank_plugin.models.matchpyramid.model import MatchPyramid, MatchPyramidConfig, dynamic_pool, grid_cells
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors
from tests import guarded, small
from tests.models import plain_matchpyramid

QUERY = Query("q1", "aspirin heart attack xylitol")  # xylitol is in the index, not in the vocabulary: UNK
QUERIES = [
    QUERY,
    Query("q2", "cancer"),
    Query("q3", "Women who smoke, risk of stroke"),
    Query("q4", "migraine zyzzyva nowhere migraine"),
    Query("q5", "quokka xylitol"),  # unknown words alone, which are matched all the same
]
EMPTY = [row for row, (_, title, abstract) in enumerate(small.DOCUMENTS) if not title + abstract]
TWO_LAYERS = {"filters": (5, 18), "pool_rows": 2, "pool_columns": 4}

both_paths = pytest.mark.parametrize("fast", [False, True], ids=["module", "fused"])
one_and_two_layers = pytest.mark.parametrize("sizes", [{}, TWO_LAYERS], ids=["one", "two"])


def scatter(model, seed):
    """Weights that make the scores of different documents differ."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for layer in (*model.convolutions, *model.layers):
            layer.weight.normal_(0, 1.5 / layer.weight[0].numel() ** 0.5)
            layer.bias.normal_(0, 0.2)
    return model.eval()


def matchpyramid(vectors, seed=1, **hyper_parameters):
    return scatter(MatchPyramid(MatchPyramidConfig(**hyper_parameters), torch.from_numpy(vectors.matrix)), seed)


def reranker(index, vectors, fast, seed=1, batch_size=1024, threads=1, **hyper_parameters):
    options = RerankerOptions(batch_size=batch_size, fast=fast, threads=threads)
    return NeuralReranker(matchpyramid(vectors, seed, **hyper_parameters), vectors.vocabulary, index, options)


def scores_of(index, one, query=QUERY, rows=None):
    return one.score(query, small.candidates(index, rows))


def assert_same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


# ------------------------------------------------------------------------------------------------------- by hand


@pytest.mark.parametrize(
    ("length", "count", "expected"),
    [
        (6, 3, [[0, 1], [2, 3], [4, 5]]),
        (5, 3, [[0, 1], [1, 2, 3], [3, 4]]),  # from 0, 5/3, 10/3 to 5/3, 10/3, 5: neighbours share a word
        (4, 3, [[0, 1], [1, 2], [2, 3]]),
        (2, 3, [[0], [0, 1], [1]]),  # fewer words than cells
        (1, 4, [[0], [0], [0], [0]]),
        (3, 1, [[0, 1, 2]]),
        (0, 2, [[], []]),
    ],
)
def test_golden_cells(length, count, expected):
    """They are those of the twin, too, and padding is in none."""
    mask = torch.arange(8) < length
    found = grid_cells(mask[None], count)[0]
    assert [torch.nonzero(cell)[:, 0].tolist() for cell in found] == expected
    assert [list(plain_matchpyramid.part(length, count, cell)) for cell in range(count)] == expected


def test_golden_pool():
    """Three query words, four document words, 2 x 2 cells: the middle query word is in both rows of the grid."""
    picture = [[1, 5, 2, 0, 99], [0, 3, 7, 1, 99], [4, 0, 0, 6, 99], [99, 99, 99, 99, 99]]  # the 99s are padding
    query_mask, document_mask = torch.arange(4) < 3, torch.arange(5) < 4
    found = dynamic_pool(torch.tensor([[picture]]).float(), query_mask[None], document_mask[None], 2, 2)
    assert found.tolist() == [[[[5, 7], [4, 7]]]]


def golden_inputs():
    """The query 'a b', then padding; documents 'c a b' and one without words. a = (1, 0), b = (0, 1), c = (3, 4)."""
    return Inputs(
        documents=torch.tensor([[3, 1, 2, 1], [1, 1, 1, 1]]),
        document_mask=torch.tensor([[True, True, True, False], [False] * 4]),
        queries=torch.tensor([[1, 2, 1]] * 2),
        query_mask=torch.tensor([[True, True, False]] * 2),
        features=torch.zeros(2, 0),
        document_terms=torch.tensor([[13, 11, 12, -1], [-1] * 4]),
        query_terms=torch.tensor([[11, 12, -1]] * 2),
        query_idf=torch.tensor([[1.0, 1, 0]] * 2),
    )


VECTORS = torch.tensor([[5.0, 5], [1, 0], [0, 1], [3, 4]])


@pytest.mark.parametrize(
    ("similarity", "expected"),
    [("cosine", [[0.6, 1, 0], [0.8, 0, 1]]), ("indicator", [[0, 1, 0], [0, 0, 1]])],
)
def test_golden_similarities(similarity, expected):
    model, inputs = MatchPyramid(MatchPyramidConfig(similarity=similarity), VECTORS), golden_inputs()
    found = model.similarities(inputs)
    torch.testing.assert_close(found[0, :2, :3], torch.tensor(expected).float())
    assert not found[0, 2].any() and not found[0, :, 3].any() and not found[1].any()


def test_golden_score():
    """One filter: 10 for the cell itself, 1 for the one up left, 100 for the one down right; bias -5. The picture is
    .6 1 0 / .8 0 1.

    Row a: 6 + 0 - 5 = 1; 10 + 100 * 1 - 5 = 105; 0 - 5, to 0. Row b: 8 - 5 = 3; 0 + .6 - 5, to 0; 10 + 1 - 5 = 6.
    The columns of a grid of 1 x 2 are 'c a' and 'a b': 105 and 105. The rows of one of 2 x 1: 105 and 6.
    Output: 2 * first - 3 * second + 0.5.
    """
    for grid, expected in [((1, 2), 2 * 105 - 3 * 105 + 0.5), ((2, 1), 2 * 105 - 3 * 6 + 0.5)]:
        config = MatchPyramidConfig(filters=(1,), pool_rows=grid[0], pool_columns=grid[1], hidden=())
        model = MatchPyramid(config, VECTORS).eval()
        with torch.no_grad():
            model.convolutions[0].weight.copy_(torch.tensor([[[[1.0, 0, 0], [0, 10, 0], [0, 0, 100]]]]))
            model.convolutions[0].bias.fill_(-5)
            model.layers[0].weight.copy_(torch.tensor([[2.0, -3]]))
            model.layers[0].bias.fill_(0.5)
            assert model(golden_inputs()).tolist() == pytest.approx([expected, 0.5])


def test_a_positive_bias_is_no_match_in_padding():
    """A filter that gives 7 everywhere: after one layer padding must be 0 again, or the second would see it."""
    model = MatchPyramid(MatchPyramidConfig(filters=(1, 1), pool_rows=1, pool_columns=1, hidden=()), VECTORS).eval()
    with torch.no_grad():
        for layer in model.convolutions:
            layer.weight.fill_(1)
            layer.bias.zero_()
        model.convolutions[0].weight.zero_()
        model.convolutions[0].bias.fill_(7)
        model.layers[0].weight.fill_(1)
        model.layers[0].bias.zero_()
        assert model(golden_inputs()).tolist() == [7 * 6, 0]  # 2 x 3 cells, all within the filter that is at 'a'


def test_the_defaults():
    model = MatchPyramid(MatchPyramidConfig(), VECTORS)
    assert [tuple(layer.weight.shape) for layer in model.convolutions] == [(8, 1, 3, 3)]
    assert [tuple(layer.weight.shape) for layer in model.layers] == [(20, 240), (1, 20)]


# ------------------------------------------------------------------------------------------------------- the twin


def words_with_vectors(texts, vectors):
    ids = vectors.vocabulary.lookup(texts)
    return [(text, vectors.matrix[id].tolist() if id else None) for text, id in zip(texts, ids)]


def plain_scores(index, model, vectors, query, documents):
    """The twin's scores, from texts alone."""
    config = model.config
    texts = [index.query(f"{title} {abstract}").terms[: config.document_words] for _, title, abstract in documents]
    words = words_with_vectors(index.query(query.text).terms[: config.query_words], vectors)
    convolutions, layers = (
        [(layer.weight.tolist(), layer.bias.tolist()) for layer in some] for some in (model.convolutions, model.layers)
    )
    return [
        plain_matchpyramid.score(
            words_with_vectors(text, vectors), words, config.similarity, convolutions, config.pool_rows,
            config.pool_columns, layers,
        )
        for text in texts
    ]  # fmt: skip


CONFIGURATIONS = [
    {},
    {"similarity": "indicator", "filters": (3,)},
    {"filters": (17,), "kernel_rows": 1, "kernel_columns": 5, "pool_rows": 5, "pool_columns": 3, "hidden": (7, 3)},
    {"filters": (2,), "kernel_rows": 5, "kernel_columns": 1, "document_words": 5, "query_words": 3, "hidden": ()},
    {"filters": (3, 4, 2), "kernel_rows": 3, "kernel_columns": 3, "pool_rows": 1, "pool_columns": 2},
]


@both_paths
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=str)
@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.id)
def test_the_plain_model_gives_the_same_from_texts(index, vectors, fast, configuration, query):
    one = reranker(index, vectors, fast, **configuration)
    expected = plain_scores(index, one.model, vectors, query, small.DOCUMENTS)
    assert np.ptp(expected) > 0.02
    np.testing.assert_allclose(scores_of(index, one, query), expected, rtol=0, atol=1e-5 * np.abs(expected).max())


# -------------------------------------------------------------------------------------- what must not change a score


@pytest.fixture(scope="module")
def reference_of(index, vectors):
    """The module's scores of all documents for QUERY; they differ from one another by far over 1e-6."""

    def reference(sizes):
        scores = scores_of(index, reranker(index, vectors, False, **sizes))
        assert scores.dtype == np.float32 and scores.shape == (len(index),)
        assert np.min(np.diff(np.sort(scores))) > 1e-5 and np.ptp(scores) > 0.1
        return scores

    return reference


@both_paths
@one_and_two_layers
def test_more_padding(index, vectors, reference_of, fast, sizes):
    longest = int(small.candidates(index).lengths.max())
    for document_words, query_words in [(longest, 4), (longest + 1, 5), (77, 31)]:
        one = reranker(index, vectors, fast, document_words=document_words, query_words=query_words, **sizes)
        assert_same(scores_of(index, one), reference_of(sizes))


@both_paths
@one_and_two_layers
def test_other_batch_mates_and_orders(index, vectors, reference_of, fast, sizes):
    one, random, expected = reranker(index, vectors, fast, **sizes), np.random.default_rng(0), reference_of(sizes)
    for size in [1, 1, 2, 3, 5, 9, 10]:
        rows = random.choice(len(index), size, replace=False)
        assert_same(scores_of(index, one, rows=rows), expected[rows])
    assert_same(scores_of(index, one, rows=[3, 0, 3]), expected[[3, 0, 3]])


@both_paths
@pytest.mark.parametrize("batch_size", [1, 3, 1024])
def test_batch_size(index, vectors, reference_of, fast, batch_size):
    assert_same(scores_of(index, reranker(index, vectors, fast, batch_size=batch_size)), reference_of({}))


@both_paths
@one_and_two_layers
def test_two_calls_and_other_queries_between(index, vectors, reference_of, fast, sizes):
    one = reranker(index, vectors, fast, **sizes)
    for query in QUERIES:
        scores_of(index, one, query)
    for _ in range(2):
        assert_same(scores_of(index, one), reference_of(sizes))


@both_paths
@one_and_two_layers
def test_one_word_query(index, vectors, fast, sizes):
    query = Query("q", "heart")
    found = [scores_of(index, reranker(index, vectors, fast, query_words=m, **sizes), query) for m in (1, 2, 16)]
    assert np.ptp(found[0]) > 0.02
    assert_same(found[1], found[0])
    assert_same(found[2], found[0])


@both_paths
@pytest.mark.parametrize("text", ["nowhere", "nowhere neverland", "", "?!"])
def test_a_query_that_is_nowhere_keeps_the_first_stage(index, vectors, fast, text, caplog):
    with caplog.at_level(logging.WARNING):
        found = scores_of(index, reranker(index, vectors, fast), Query("q7", text))
    assert found.tolist() == small.candidates(index).first_stage_scores.tolist()
    assert "q7" in caplog.text


@both_paths
@pytest.mark.parametrize("similarity", ["cosine", "indicator"])
def test_unknown_words_are_matched_by_identity(index, vectors, fast, similarity):
    """Only one document has 'xylitol', which the model does not know: all others that have words look the same."""
    one = reranker(index, vectors, fast, similarity=similarity, kernel_columns=1)
    found = scores_of(index, one, Query("q", "xylitol"))
    row = [id for id, _, _ in small.DOCUMENTS].index("2")
    others = np.delete(found, [row, *EMPTY])
    assert np.ptp(others) < 1e-6 and abs(others[0] - found[row]) > 1e-2


@both_paths
@one_and_two_layers
def test_empty_document(index, vectors, fast, sizes):
    """Its grid is empty, so its score is the same for every query; it is finite."""
    one = reranker(index, vectors, fast, **sizes)
    found = np.concatenate([scores_of(index, one, query, EMPTY) for query in QUERIES])
    assert np.isfinite(found).all() and np.ptp(found) < 1e-6 and abs(found[0]) > 1e-3


@both_paths
def test_document_shorter_than_the_filter(index, vectors, fast):
    """'Aspirin' is one word: a filter of 7 columns sees it alone, with or without room for more words."""
    row = [id for id, _, _ in small.DOCUMENTS].index("a7")
    tight, roomy = (
        scores_of(index, reranker(index, vectors, fast, kernel_columns=7, document_words=words), rows=[row])
        for words in (1, 50)
    )
    assert_same(tight, roomy)


@both_paths
def test_cutting_texts_changes_scores(index, vectors, reference_of, fast):
    for cut in ({"document_words": 3}, {"query_words": 2}):
        assert np.abs(scores_of(index, reranker(index, vectors, fast, **cut)) - reference_of({}))[0] > 1e-4


@both_paths
def test_no_candidates(index, vectors, fast):
    found = scores_of(index, reranker(index, vectors, fast), rows=[])
    assert found.shape == (0,) and found.dtype == np.float32


@both_paths
@one_and_two_layers
@pytest.mark.parametrize("layer", ["convolutions", "layers"])
def test_nan_weights_name_document_and_query(index, vectors, fast, sizes, layer):
    one = reranker(index, vectors, fast, **sizes)
    with torch.no_grad():
        getattr(one.model, layer)[-1].bias[0] = float("nan")
    with pytest.raises(InputError) as raised:
        one.score(Query("q17", "heart"), small.candidates(index, [8, 1]))
    assert "MED-14" in str(raised.value) and "q17" in str(raised.value)


# ---------------------------------------------------------------------------------------- the fused path, by chance


def random_collection(folder, random, dimension):
    """An index of documents of any lengths, word vectors for some of its words, and words to ask for."""
    known = [f"w{number}" for number in range(random.integers(1, 15))]
    vocabulary = Vocabulary([*known, "m0"])  # m0 is in no document
    matrix = random.normal(size=(len(vocabulary), dimension)).astype(np.float32)
    matrix[random.integers(len(vocabulary))] = 0
    documents = []
    for number in range(random.integers(1, 9)):
        said = random.choice([*known, "x0", "x1"], random.choice([0, 1, 2, 3, random.integers(0, 90)]))
        border = random.integers(0, len(said) + 1)
        documents.append((f"d{number}", " ".join(said[:border]), " ".join(said[border:])))
    index = small.build_index(Path(folder) / "forward", documents)
    return index, WordVectors(vocabulary, matrix), [*known, "m0", "x0", "n0"]  # x0 is UNK, n0 nowhere


hyper_parameters = st.fixed_dictionaries(
    {
        "similarity": st.sampled_from(["cosine", "cosine", "indicator"]),
        "filters": st.lists(st.integers(1, 20), min_size=1, max_size=3).map(tuple)
        | st.tuples(st.integers(1, 70)),
        "kernel_rows": st.sampled_from([1, 3, 5]),
        "kernel_columns": st.sampled_from([1, 3, 5, 9]),
        "pool_rows": st.integers(1, 6),
        "pool_columns": st.integers(1, 12),
        "hidden": st.lists(st.integers(1, 40), max_size=2).map(tuple),
        "document_words": st.integers(1, 70),
        "query_words": st.integers(1, 12),
    }
)  # fmt: skip


def test_fused_scores_are_the_modules():
    """To 1e-5 of the largest score; where the module's own rounding is worse than that, to four times its error."""
    spreads, rounding = [], []

    @settings(max_examples=100, deadline=None)
    @given(
        seed=st.integers(0, 2**32 - 1), sizes=hyper_parameters, dimension=st.integers(1, 30), threads=st.integers(1, 3)
    )
    def check(seed, sizes, dimension, threads):
        random = np.random.default_rng(seed)
        with tempfile.TemporaryDirectory() as folder:
            index, vectors, words = random_collection(folder, random, dimension)
            text = " ".join(random.choice(words, random.integers(1, sizes["query_words"] + 3)))
            rows = random.integers(len(index), size=random.integers(1, 40))
            model = matchpyramid(vectors, seed % 1000, **sizes)
            builder = InputBuilder(index, vectors.vocabulary, sizes["document_words"], sizes["query_words"], ())
            terms, candidates = index.query(text), small.candidates(index, rows)
            query = builder.query(terms)
            with torch.inference_mode():
                inputs = builder.build(terms, query, candidates)
                expected, exact = model(inputs).numpy(), copy.deepcopy(model).double()(inputs).numpy()
            found = FusedMatchPyramid(model, builder, threads).score(terms, query, candidates)
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
    """140 documents, so that threads and parts have something to share."""
    random = np.random.default_rng(7)
    words = [f"w{number}" for number in range(300)]
    texts = [" ".join(random.choice(words, random.integers(0, 60))) for _ in range(140)]
    index = small.build_index(tmp_path_factory.mktemp("library") / "f", [(f"d{i}", t, "") for i, t in enumerate(texts)])
    return index, small.word_vectors(words[:250], 24, 5), Query("q", "w3 w77 w299 w100 w3")


@one_and_two_layers
def test_threads_and_candidates_change_not_a_bit(library, sizes):
    index, vectors, query = library
    expected = scores_of(index, reranker(index, vectors, True, **sizes), query)
    assert np.ptp(expected) > 0.05
    for threads in (2, 3):
        many = reranker(index, vectors, True, threads=threads, **sizes)
        for rows in (np.arange(140), np.arange(140)[::-1], [5], [139, 0, 7, 7], np.arange(37)):
            assert scores_of(index, many, query, rows).tolist() == expected[rows].tolist()


@pytest.mark.parametrize(
    "sizes",
    [
        {},
        TWO_LAYERS,
        {"filters": (1,), "kernel_rows": 1, "kernel_columns": 1},  # 16 query words at once
        {"filters": (40,), "kernel_rows": 5, "kernel_columns": 9},
        {"similarity": "indicator", "filters": (4,), "kernel_rows": 9, "document_words": 7},
    ],
    ids=str,
)
def test_what_is_in_memory_before_changes_not_a_bit(library, monkeypatch, sizes):
    index, vectors, query = library
    expected = scores_of(index, reranker(index, vectors, True, **sizes), query)
    poison = guarded.Poisoned()
    monkeypatch.setattr(Workspace, "array", lambda *arguments: poison.array(*arguments))
    one = reranker(index, vectors, True, **sizes)
    for rows in (np.arange(140), [5], [139, 0, 7, 7]):
        assert scores_of(index, one, query, rows).tolist() == expected[rows].tolist()
    assert len(poison.given) >= 20 and not poison.overrun()


# -------------------------------------------------------------------------------------------- checkpoints, training


@both_paths
def test_a_checkpoint_gives_the_same_scores(tmp_path, index, vectors, fast):
    sizes = {**TWO_LAYERS, "similarity": "indicator", "hidden": (4, 3), "document_words": 9, "query_words": 5}
    model = matchpyramid(vectors, **sizes)
    save_checkpoint(tmp_path / "saved", model, vectors, {})
    one = rerankers.load(f"matchpyramid:{tmp_path / 'saved'}", index, RerankerOptions(fast=fast))
    assert one.model.config == model.config
    assert scores_of(index, one).tolist() == scores_of(index, reranker(index, vectors, fast, **sizes)).tolist()
    assert "vectors" not in json.dumps(sorted(model.state_dict()))


@one_and_two_layers
def test_training_lowers_the_loss(index, vectors, sizes):
    """Documents that say 'heart' over those that do not; the fused path follows the weights."""
    torch.manual_seed(3)
    model = MatchPyramid(MatchPyramidConfig(**sizes), torch.from_numpy(vectors.matrix))
    one = NeuralReranker(model, vectors.vocabulary, index)
    query = Query("q", "heart")
    before = one.score(query, small.candidates(index))
    builder, terms = one.builder, index.query(query.text)
    inputs = builder.build(terms, builder.query(terms), small.candidates(index))
    says = torch.tensor(["heart" in f"{title} {abstract}".lower() for _, title, abstract in small.DOCUMENTS])
    optimizer, losses = torch.optim.Adam(model.parameters(), 0.01), []
    model.train()
    for _ in range(40):
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


def test_word_vectors_are_not_trained(vectors):
    model = matchpyramid(vectors)
    assert {name.split(".")[0] for name, _ in model.named_parameters()} == {"convolutions", "layers"}
    assert model.vectors.requires_grad is False and model.regularized() == {}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"similarity": "dot"}, "unknown similarity 'dot'; known: cosine, indicator"),
        ({"filters": ()}, "filters is empty"),
        ({"filters": (8, 0)}, "at least 1"),
        ({"kernel_rows": 2}, "2 x 3"),
        ({"kernel_columns": 0}, "3 x 0"),
        ({"kernel_columns": -1}, "at least 1"),
        ({"pool_rows": 0}, "at least 1"),
        ({"pool_columns": 0}, "at least 1"),
        ({"hidden": (5, 0)}, "at least 1"),
        ({"document_words": 0}, "at least 1"),
        ({"query_words": 0}, "at least 1"),
        ({"lexical_features": ("bm25_title",)}, "no lexical features"),
    ],
)
def test_wrong_hyper_parameters(wrong, said):
    with pytest.raises(InputError, match=said):
        MatchPyramidConfig(**wrong)
