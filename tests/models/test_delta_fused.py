"""Delta's fused path: the module's scores, whatever the model, the documents, the threads and the memory are like."""

import copy
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import rerank_plugin
from rerank_plugin.features.inputs import InputBuilder, Inputs, ModelQuery
from rerank_plugin.features.lexical_features import LEX3
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex, ForwardIndexWriter, IndexQuery
from rerank_plugin.kernels.parallel import Workspace
from rerank_plugin.models.delta.fused import FusedDelta
from rerank_plugin.models.delta.model import Delta, DeltaConfig
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors
from tests import guarded, small
from tests.models import plain_delta

ROOT = Path(rerank_plugin.__file__).parent.parent
QUERY = Query("q1", "aspirin heart attack xylitol")
QUERIES = [
    QUERY,
    Query("q2", "cancer"),
    Query("q3", "Women who smoke, risk of stroke"),
    Query("q4", "migraine zyzzyva nowhere migraine"),
    Query("q5", "a second diet and cancer red meat raises colon in women"),  # longer than the models read
]
FEATURES = (*LEX3, "bigram_overlap_text", "jaccard_abstract")


def scatter(model, seed):
    """Weights as large as the layers need to keep their signal, so that scores of different documents differ."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for layer in (*model.convolutions, *model.layers):
            layer.weight.normal_(0, 1.5 / layer.weight[0].numel() ** 0.5)
            layer.bias.normal_(0, 0.3)
    return model


# ---------------------------------------------------------------------------------------------------- random models


class Example(NamedTuple):
    """A model with one query over a small index."""

    model: Delta
    builder: InputBuilder
    terms: IndexQuery
    query: ModelQuery
    candidates: Candidates

    @torch.inference_mode()
    def module_scores(self):
        return self.model(self.builder.build(self.terms, self.query, self.candidates)).numpy()

    @torch.inference_mode()
    def exact_scores(self):
        """The module in double precision."""
        inputs = self.builder.build(self.terms, self.query, self.candidates)
        return copy.deepcopy(self.model).double()(inputs._replace(features=inputs.features.double())).numpy()

    def fused_scores(self, threads=1):
        found = FusedDelta(self.model, self.builder, threads).score(self.terms, self.query, self.candidates)
        assert found.dtype == np.float32 and found.shape == (len(self.candidates),)
        return found

    def plain_scores(self, rows):
        """The twin's scores of some candidates."""
        model, vectors = self.model, self.model.vectors.numpy()
        documents = self.builder.documents(self.candidates)
        features = self.builder.features(self.terms, self.candidates)
        with mock.patch.object(plain_delta, "LEAK", model.config.slope):
            return [
                plain_delta.score(
                    vectors[documents.ids[row][documents.mask[row]]].tolist(),
                    vectors[self.query.ids[self.query.mask]].tolist(),
                    [(layer.weight.tolist(), layer.bias.tolist()) for layer in model.convolutions],
                    [(layer.weight.tolist(), layer.bias.tolist()) for layer in model.layers],
                    features[row],
                    model.feature_mean.tolist(),
                    (1 / model.feature_scale).tolist(),
                    model.config.differences,
                    model.config.delta_features,
                )
                for row in rows
            ]

    def plain_cost(self, row):
        """Multiplications that the twin needs for a candidate."""
        config = self.model.config
        inward = self.model.vectors.shape[1] + 3 + config.filters * (config.convolutions - 1)
        return min(self.candidates.lengths[row], config.document_words) * config.width * config.filters * inward


def random_vectors(random, kind, count, dimension):
    """Word vectors, float32 [count, dimension]; some are zero, some the same."""
    vectors = random.normal(size=(count, dimension))
    if kind == "grid":  # many words are equally far from several query words, exactly
        vectors = random.integers(-2, 3, size=(count, dimension))
    elif kind == "mixed":  # norms from 1e-3 to 1e3 side by side
        vectors *= 10 ** random.uniform(-3, 3, size=(count, 1)) / np.linalg.norm(vectors, axis=1, keepdims=True)
    elif kind == "tiny":
        vectors *= 1e-3
    elif kind == "huge":
        vectors *= 1e3
    elif kind == "offset":  # all words point the same way, and differ little from one another
        vectors += 10 * random.normal(size=(1, dimension))
    for _ in range(random.integers(0, 3)):
        vectors[random.integers(count)] = 0
        vectors[random.integers(count)] = vectors[random.integers(count)]
    return vectors.astype(np.float32)


def undecided(vectors, ids, query_ids):
    """Those of the words ``ids`` whose distances to two different query words only rounding tells apart.

    Equal vectors are equally far in any arithmetic: they do not count.
    """
    exact, found = vectors.astype(np.float64), set()
    for id in ids:
        distances = np.square(exact[id] - exact[query_ids]).sum(axis=1)
        closest = distances.argmin()
        near = distances <= distances[closest] * (1 + 1e-5)
        if any((exact[query_ids[place]] != exact[query_ids[closest]]).any() for place in np.flatnonzero(near)):
            found.add(id)
    return found


def make_example(folder, seed, kind, hyper_parameters):
    random = np.random.default_rng(seed)
    known = [f"w{number}" for number in range(random.integers(1, 12))]
    vocabulary = Vocabulary([*known, "m0"])  # m0 is in no document
    vectors = random_vectors(random, kind, len(vocabulary), random.integers(1, 25))
    config = DeltaConfig(**hyper_parameters)
    length = random.integers(1, config.query_words + 3)
    query = [known[0], *random.choice([*known, "m0", "x0", "n0"], length)]  # x0 is UNK, n0 nowhere
    random.shuffle(query)
    heard = vocabulary.lookup(query[: config.query_words])
    words = np.array([*known, *known, "x0", "x1"])
    if kind != "grid":
        unclear = undecided(vectors, range(len(vocabulary)), heard)
        words = words[[id not in unclear for id in vocabulary.lookup(words)]]
    documents = []
    for number in range(random.integers(1, 13)):
        said = list(random.choice(words, random.choice([0, 1, 2, 3, random.integers(0, 80)]))) if len(words) else []
        border = random.integers(0, len(said) + 1)
        documents.append((f"d{number}", " ".join(said[:border]), " ".join(said[border:])))
    index = small.build_index(Path(folder) / "forward", documents)
    model = scatter(Delta(config, torch.from_numpy(vectors)).eval(), seed)
    features = len(config.lexical_features)
    if features:
        model.set_feature_statistics(torch.linspace(0.1, 0.7, features), torch.linspace(0.5, 2.0, features))
    builder = InputBuilder(index, vocabulary, config.document_words, config.query_words, config.lexical_features)
    rows = random.integers(len(documents), size=random.integers(1, 41))
    terms = index.query(" ".join(query))
    example = Example(model, builder, terms, builder.query(terms), small.candidates(index, rows))
    if np.median(example.module_scores()) <= 0:  # a slope of 0 would make them all 0
        with torch.no_grad():
            model.layers[-1].weight.neg_()
            model.layers[-1].bias.neg_()
    return example


hyper_parameters = st.fixed_dictionaries(
    {
        "filters": st.integers(1, 70),
        "width": st.sampled_from([1, 3, 5, 7]),
        "convolutions": st.integers(1, 4),
        "hidden": st.none() | st.lists(st.integers(1, 40), max_size=3).map(tuple),
        "slope": st.sampled_from([0.3, 0.0, 0.01, 1.0]),
        "document_words": st.integers(1, 60),
        "query_words": st.integers(1, 10),
        "lexical_features": st.sampled_from([(), LEX3, FEATURES]),
    }
)
ablations = st.sampled_from([{}, {}, {"differences": False}, {"delta_features": False}])
kinds = st.sampled_from(["normal", "grid", "mixed", "tiny", "huge", "offset"])


def test_fused_scores_are_the_modules_and_the_twins():
    """To 1e-5 of the largest score; where the module's own rounding is worse than that, to four times its error."""
    spreads, twins = [], 0

    @settings(max_examples=100)
    @given(seed=st.integers(0, 2**32 - 1), kind=kinds, ablation=ablations, hyper=hyper_parameters)
    def agree(seed, kind, ablation, hyper):
        nonlocal twins
        with tempfile.TemporaryDirectory() as folder:
            example = make_example(folder, seed, kind, {**hyper, **ablation})
            exact, module = example.exact_scores(), example.module_scores()
            scale = max(np.abs(module).max(), 1e-3)
            allowed = 1e-5 * scale + 4 * np.abs(module - exact).max()
            fused = example.fused_scores(threads=1 + seed % 3)
            np.testing.assert_allclose(fused, module, rtol=0, atol=allowed)
            cheap = [row for row in range(len(fused)) if example.plain_cost(row) < 40_000][:3]
            np.testing.assert_allclose(fused[cheap], example.plain_scores(cheap), rtol=0, atol=allowed)
            spreads.append(np.ptp(module) / scale)
            twins += len(cheap)

    agree()
    assert np.mean(np.array(spreads) > 0.01) > 0.5  # models that say the same of all documents would prove nothing
    assert twins > 50


def agree_on(folder, vectors, documents, query, **hyper):
    """Fused scores of documents, checked against module and twin."""
    words = [f"w{number}" for number in range(1, len(vectors))]
    index = small.build_index(folder / "forward", [(f"d{n}", text, "") for n, text in enumerate(documents)])
    config = DeltaConfig(**{"filters": 3, "document_words": 6, "query_words": 4, **hyper})
    model = scatter(Delta(config, torch.tensor(vectors, dtype=torch.float32)).eval(), 1)
    builder = InputBuilder(index, Vocabulary(words), config.document_words, config.query_words, ())
    terms = index.query(query)
    example = Example(model, builder, terms, builder.query(terms), small.candidates(index))
    found = example.fused_scores()
    scale = np.abs(found).max()
    np.testing.assert_allclose(found, example.module_scores(), rtol=0, atol=1e-5 * scale)
    np.testing.assert_allclose(found, example.plain_scores(range(len(documents))), rtol=0, atol=1e-5 * scale)
    return found


def test_of_equally_close_query_words_the_first_counts(tmp_path):
    """w3 stands in the middle of w1 and w2: exchanging the two in the query changes its document's score."""
    vectors = [[9, 9], [1, 0], [0, 1], [0, 0], [0.5, 0.5]]
    documents = ["w3", "w4 w3 w4", "w1", "w2"]
    for name, width in (("a", 1), ("b", 3)):
        (tmp_path / name).mkdir()
        found = agree_on(tmp_path / name, vectors, documents, "w1 w2", width=width)
        (tmp_path / f"{name}2").mkdir()
        exchanged = agree_on(tmp_path / f"{name}2", vectors, documents, "w2 w1", width=width)
        assert (np.abs(found - exchanged)[:2] > 1e-3).all()
        np.testing.assert_array_equal(found[2:], exchanged[2:])


def test_words_with_one_vector_are_one_word(tmp_path):
    """w1 and w2 are spelled differently only; the third document is the query itself."""
    vectors = [[2, 1, 0], [1, -1, 3], [1, -1, 3], [0, 5, 1]]
    found = agree_on(tmp_path, vectors, ["w1 w3 w1", "w2 w3 w1", "w3 w2", "w3 w1"], "w3 w2 w1 w2")
    assert found[0] == found[1] and found[2] == found[3] and found[0] != found[2]


def test_unknown_words_are_compared_by_their_vector(tmp_path):
    """x and y are both UNK: row 0 is as good a vector as any, in the query and in documents."""
    found = agree_on(tmp_path, [[2, 1], [1, -2], [-1, 0]], ["x w1", "y w1", "w1 x", "w1"], "w2 y")
    assert found[0] == found[1] and len(set(found.tolist())) == 3


def test_zero_vectors(tmp_path):
    """A zero vector has cosine 0 with everything, and proximity 0 to itself."""
    vectors = [[0, 0], [0, 0], [3, 4], [1, 0]]
    found = agree_on(tmp_path, vectors, ["w1", "w1 w1 w1", "w2 w1", "w3", "x", ""], "w1")
    assert len(set(found.tolist())) >= 4


@pytest.mark.parametrize("width", [1, 3, 5, 7])
@pytest.mark.parametrize("convolutions", [1, 2, 3])
def test_documents_of_every_length_around_the_filters_width(tmp_path, width, convolutions):
    """0 to 12 words, of which 9 are read: no border is computed otherwise than the middle."""
    random = np.random.default_rng(width)
    vectors = random.normal(size=(6, 4))
    documents = [" ".join(random.choice(["w1", "w2", "w3", "w4", "x"], length)) for length in range(13)]
    found = agree_on(
        tmp_path, vectors, documents, "w5 w1", width=width, convolutions=convolutions, filters=17, document_words=9
    )
    assert len(set(found.tolist())) > 6


# ------------------------------------------------------------------------------------ one score, bit for bit the same


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """140 documents of 0 to 70 words out of 500, of which the model knows 400."""
    random = np.random.default_rng(8)
    chance = 1 / np.arange(1, 501)
    words = np.array([f"w{number}" for number in range(500)])
    documents = []
    for number in range(140):
        said = random.choice(words, random.integers(0, 71), p=chance / chance.sum())
        border = len(said) // 6
        documents.append((f"d{number}", " ".join(said[:border]), " ".join(said[border:])))
    index = small.build_index(tmp_path_factory.mktemp("library") / "forward", documents)
    return index, small.word_vectors(words[:400].tolist(), dimension=19, seed=4)


LIBRARY_QUERIES = [Query(f"q{n}", text) for n, text in enumerate(["w0 w7 w450 w7 w31", "w3", "w399 w2 w1 nowhere w11"])]
MODELS = [
    dict(filters=21, width=3, convolutions=3, document_words=40, query_words=5, lexical_features=FEATURES),
    dict(filters=32, width=5, convolutions=2, document_words=64, query_words=4, hidden=(9, 20), lexical_features=LEX3),
    dict(filters=5, width=1, convolutions=1, document_words=33, query_words=7),
]
every_model = pytest.mark.parametrize("hyper", MODELS, ids=["three", "five", "one"])


def open_library(library, hyper, threads=1, **options):
    index, vectors = library
    model = scatter(small.delta(vectors, **hyper), 3)
    return NeuralReranker(model, vectors.vocabulary, index, RerankerOptions(threads=threads, **options))


def scores_of(reranker, index, query, rows=None):
    rows = np.arange(len(index)) if rows is None else np.asarray(rows)
    first_stage = (10 - 0.01 * rows).astype(np.float32)  # a candidate's own, whatever its place
    return reranker.score(query, Candidates(index, rows, first_stage))


def assert_same_bits(found, expected):
    assert found.dtype == expected.dtype == np.float32 and found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)
    assert found.tobytes() == expected.tobytes()


@pytest.fixture(scope="module")
def alone(library):
    """Scores of each query's documents by one thread, from memory that held nothing before: {(model, query): [C]}."""
    found = {}
    for number, hyper in enumerate(MODELS):
        plain = open_library(library, hyper, fast=False)
        for query in LIBRARY_QUERIES:
            scores = scores_of(open_library(library, hyper), library[0], query)
            expected = scores_of(plain, library[0], query)
            np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
            assert len(np.unique(scores)) > 100 and np.ptp(scores) > 0.1
            found[number, query.id] = scores
    return found


def expected_of(alone, hyper, query):
    return alone[MODELS.index(hyper), query.id]


@every_model
@pytest.mark.parametrize("threads", [2, 3, 7])
def test_the_number_of_threads_changes_no_bit(library, alone, hyper, threads):
    one = open_library(library, hyper, threads)
    for query in LIBRARY_QUERIES:
        assert_same_bits(scores_of(one, library[0], query), expected_of(alone, hyper, query))


@every_model
def test_a_candidate_alone_and_among_others(library, alone, hyper):
    one, query = open_library(library, hyper), LIBRARY_QUERIES[0]
    expected = expected_of(alone, hyper, query)
    for row in range(0, 140, 3):
        assert_same_bits(scores_of(one, library[0], query, [row]), expected[[row]])


@every_model
@pytest.mark.parametrize("threads", [1, 3])
def test_other_candidates_in_another_order_and_twice(library, alone, hyper, threads):
    """With other queries between, whose candidates are more or fewer: memory is never fresh here."""
    one, random = open_library(library, hyper, threads), np.random.default_rng(6)
    for turn in range(25):
        query = LIBRARY_QUERIES[turn % 3]
        rows = random.integers(140, size=random.choice([1, 3, 17, 64, 140, 300]))
        assert_same_bits(scores_of(one, library[0], query, rows), expected_of(alone, hyper, query)[rows])


@every_model
def test_several_queries_at_once(library, alone, hyper):
    """``score_many`` gives each thread whole queries; among them one without candidates and one of unknown words."""
    index, random = library[0], np.random.default_rng(2)
    for threads in (1, 2, 7):
        one = open_library(library, hyper, threads)
        queries = [LIBRARY_QUERIES[number] for number in random.integers(3, size=30)]
        rows = [random.integers(140, size=random.choice([0, 1, 5, 140])) for _ in queries]
        queries[4] = Query("unknown", "w450 nowhere")
        candidates = [Candidates(index, some, (10 - 0.01 * some).astype(np.float32)) for some in rows]
        found = one.score_many(queries, candidates)
        assert len(found) == 30
        for query, some, scores, of in zip(queries, rows, found, candidates):
            known = query.id != "unknown"
            assert_same_bits(scores, expected_of(alone, hyper, query)[some] if known else of.first_stage_scores)
    assert one.score_many([], []) == []


@pytest.fixture
def hasty_threads():
    """Python threads take turns every few instructions instead of every 5 ms."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@every_model
@pytest.mark.parametrize("threads", [1, 2])
def test_several_callers_at_once(library, alone, hyper, threads, hasty_threads):
    """Python threads that share one reranker, whose tables are not made yet when they all begin."""
    wrong, together, shared = [], threading.Barrier(4), [open_library(library, hyper, threads) for _ in range(6)]

    def caller(number):
        random = np.random.default_rng(number)
        try:
            for one in shared:
                together.wait(timeout=60)
                for _ in range(3):
                    query = LIBRARY_QUERIES[random.integers(3)]
                    rows = random.integers(140, size=random.choice([1, 20, 140, 200]))
                    assert_same_bits(scores_of(one, library[0], query, rows), expected_of(alone, hyper, query)[rows])
        except BaseException as error:
            wrong.append(error)
            together.abort()

    callers = [threading.Thread(target=caller, args=(number,)) for number in range(4)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert not wrong


@every_model
@pytest.mark.parametrize("threads", [1, 3])
def test_garbage_in_memory_never_reaches_a_score(library, alone, hyper, threads, monkeypatch):
    """``Workspace.array`` promises arrays with any content: here NaN and -1, in them and around them."""
    poison = guarded.Poisoned()
    monkeypatch.setattr(Workspace, "array", lambda *arguments: poison.array(*arguments))
    one = open_library(library, hyper, threads)
    for rows in (None, [5], [139, 0, 7, 7]):
        expected = expected_of(alone, hyper, LIBRARY_QUERIES[0])
        found = scores_of(one, library[0], LIBRARY_QUERIES[0], rows)
        assert_same_bits(found, expected if rows is None else expected[rows])
    assert len(poison.given) >= 9 and not poison.overrun()


def stay_inside(folder):
    """Score documents of every length up to N with forbidden memory behind, then before each array."""
    random = np.random.default_rng(1)
    words = [f"w{number}" for number in range(90)]
    documents = [(f"d{length}", " ".join(random.choice(words, length)), "") for length in range(67)]
    index, vectors = small.build_index(Path(folder) / "forward", documents), small.word_vectors(words, 19, seed=4)
    for hyper in MODELS:
        one = open_library((index, vectors), hyper)
        expected = scores_of(one, index, LIBRARY_QUERIES[0])
        for at_end in (True, False):
            with mock.patch.object(Workspace, "array", lambda _, name, *what: guarded.fenced(*what, at_end)):
                for rows in (np.arange(67), np.array([3]), np.array([66, 1])):
                    assert_same_bits(scores_of(one, index, LIBRARY_QUERIES[0], rows), expected[rows])


@pytest.mark.skipif(not guarded.FENCES, reason="needs Linux's memory protection")
def test_no_memory_outside_the_workspaces_arrays_is_touched(tmp_path):
    command = "import sys; from tests.models import test_delta_fused; test_delta_fused.stay_inside(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", command, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------------------------------------------- the adapter


def pair(index, vectors, seed=1, **hyper):
    """The fused path and the plain one over the same model."""
    hyper = {"filters": 6, "document_words": 20, "query_words": 7, "lexical_features": LEX3, **hyper}
    own = vectors._replace(matrix=vectors.matrix.copy())  # which the model shares, and some tests change
    model = scatter(small.delta(own, **hyper), seed)
    return model, *(
        NeuralReranker(model, vectors.vocabulary, index, RerankerOptions(fast=fast, threads=2))
        for fast in (True, False)
    )


def assert_close(found, expected):
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * max(np.abs(expected).max(), 1e-3))


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.id)
@pytest.mark.parametrize("document_words", [1, 2, 5, 60])
def test_both_paths_agree_on_the_small_index(index, vectors, query, document_words):
    for hyper in ({}, {"lexical_features": ()}, {"width": 5, "filters": 40, "slope": 0.05}):
        _, fused, plain = pair(index, vectors, document_words=document_words, **hyper)
        expected = scores_of(plain, index, query)
        assert np.ptp(expected) > 1e-2
        assert_close(scores_of(fused, index, query), expected)


def one_step(optimizer, **options):
    """A step of training, forward and backward."""

    def change(model):
        random, features = np.random.default_rng(0), len(model.config.lexical_features)
        inputs = Inputs(
            documents=torch.from_numpy(random.integers(len(model.vectors), size=(4, 9))),
            document_mask=torch.ones(4, 9, dtype=torch.bool),
            queries=torch.from_numpy(random.integers(len(model.vectors), size=(4, 3))),
            query_mask=torch.ones(4, 3, dtype=torch.bool),
            features=torch.from_numpy(random.normal(size=(4, features)).astype(np.float32)),
        )
        model.train()
        model(inputs).sum().backward()
        optimizer(model.parameters(), lr=0.05, **options).step()
        model.eval()

    return change


def other_weights(model):
    return scatter(Delta(model.config, model.vectors), 99)


def load(model):
    model.load_state_dict(other_weights(model).state_dict())


def load_by_assignment(model):
    model.load_state_dict(other_weights(model).state_dict(), assign=True)


@torch.no_grad()
def multiply_in_place(model):
    model.convolutions[0].weight.mul_(-1)


@torch.inference_mode()
def multiply_in_inference_mode(model):
    model.layers[-1].bias.add_(1)


@torch.no_grad()
def write_one_number(model):
    model.layers[0].weight[0, 0] = 7


def replace_a_parameter(model):
    model.convolutions[1].bias = torch.nn.Parameter(model.convolutions[1].bias.detach() + 1)


def replace_a_layer(model):
    model.layers[-1] = other_weights(model).layers[-1]


def replace_the_vectors(model):
    model.vectors = model.vectors.flip(1).clone()


def edit_the_vectors(model):
    model.vectors[1:] *= 2


def new_statistics(model):
    count = len(model.config.lexical_features)
    model.set_feature_statistics(torch.full((count,), -1.0), torch.full((count,), 0.25))


def edit_the_data(model):
    model.layers[-1].bias.data.add_(1)


def assign_the_data(model):
    model.layers[-1].bias.data = model.layers[-1].bias.data + 1


def from_one_vector(model):
    flat = torch.nn.utils.parameters_to_vector(other_weights(model).parameters())
    torch.nn.utils.vector_to_parameters(flat, model.parameters())


def there_and_back(model):
    """Rounded to bfloat16: the parameters are the same objects, with other memory."""
    model.layers.bfloat16().float()
    model.convolutions.bfloat16().float()


CHANGES = {
    "Adagrad": one_step(torch.optim.Adagrad),
    "Adam": one_step(torch.optim.Adam),
    "SGD-foreach": one_step(torch.optim.SGD, foreach=True),
    "SGD-fused": one_step(torch.optim.SGD, fused=True),
    "Adagrad-fused": one_step(torch.optim.Adagrad, fused=True),
    **{
        change.__name__: change
        for change in (
            load, load_by_assignment, multiply_in_place, multiply_in_inference_mode, write_one_number,
            replace_a_parameter, replace_a_layer, replace_the_vectors, edit_the_vectors, new_statistics,
            edit_the_data, assign_the_data, from_one_vector, there_and_back,
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_weights_change_the_fused_scores(index, vectors, change):
    """Whatever the fused path made of the weights before is made again once it is told."""
    model, fused, plain = pair(index, vectors)
    before = scores_of(fused, index, QUERY)
    change(model)
    fused.refresh()
    expected = scores_of(plain, index, QUERY)
    assert np.abs(expected - before).max() > 1e-3
    assert_close(scores_of(fused, index, QUERY), expected)


@pytest.mark.parametrize("told", [True, False])
def test_scores_follow_a_training(index, vectors, told):
    """Epochs of several steps with a validation after each, as the trainer has it; noticed without being told, too."""
    model, fused, plain = pair(index, vectors, dropout=0.5)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
    words = fused.builder.query(index.query(QUERY.text))
    inputs = fused.builder.build(index.query(QUERY.text), words, small.candidates(index))
    seen = []
    for epoch in range(4):
        model.train()
        for _ in range(3):
            optimizer.zero_grad()
            model(inputs)[:5].sub(model(inputs)[5:]).sum().backward()
            optimizer.step()
        model.eval()
        if told:
            fused.refresh()
        seen.append(scores_of(fused, index, QUERY))
        assert_close(seen[-1], scores_of(plain, index, QUERY))
    assert all(np.abs(a - b).max() > 1e-3 for a, b in zip(seen, seen[1:]))


def test_without_a_change_nothing_is_made_again(index, vectors):
    """Neither by the next query nor by a refresh that was not needed do scores change."""
    _, fused, _ = pair(index, vectors)
    first = scores_of(fused, index, QUERY)
    assert_same_bits(scores_of(fused, index, QUERY), first)
    fused.refresh()
    assert_same_bits(scores_of(fused, index, QUERY), first)


def test_in_training_mode_the_module_scores(index, vectors):
    """With its dropout: twice the same is what a fused path would give."""
    model, fused, _ = pair(index, vectors, dropout=0.5)
    still = scores_of(fused, index, QUERY)
    model.train()
    assert np.abs(scores_of(fused, index, QUERY) - scores_of(fused, index, QUERY)).max() > 1e-3
    model.eval()
    assert_same_bits(scores_of(fused, index, QUERY), still)


def test_another_precision_is_the_modules(index, vectors):
    """bfloat16 has three digits: near the scores in float32, but not them."""
    model, fused, _ = pair(index, vectors)
    half = NeuralReranker(model, vectors.vocabulary, index, RerankerOptions(precision="bfloat16"))
    expected, found = scores_of(fused, index, QUERY), scores_of(half, index, QUERY)
    error = np.abs(found - expected).max() / np.abs(expected).max()
    assert 1e-5 < error < 0.1


def test_a_model_made_in_inference_mode(index, vectors):
    with torch.inference_mode():
        _, fused, plain = pair(index, vectors)
    assert_close(scores_of(fused, index, QUERY), scores_of(plain, index, QUERY))


def test_models_of_one_index_do_not_mix(index, vectors):
    """Two rerankers by turns, of other sizes."""
    many = [pair(index, vectors, seed, filters=filters) for seed, filters in ((1, 6), (2, 40), (3, 6))]
    expected = [scores_of(plain, index, QUERY) for _, _, plain in many]
    for _ in range(3):
        for (_, fused, _), scores in zip(many, expected):
            assert_close(scores_of(fused, index, QUERY), scores)


@pytest.mark.parametrize("text", ["xylitol quokka", "nowhere", "", "zyzzyva ?!"])
def test_a_query_of_unknown_words_keeps_the_first_stage(index, vectors, text):
    for reranker in pair(index, vectors)[1:]:
        assert scores_of(reranker, index, Query("q", text), [3, 0]).tolist() == np.float32([9.97, 10]).tolist()


def test_no_candidates(index, vectors):
    for reranker in pair(index, vectors)[1:]:
        found = scores_of(reranker, index, QUERY, np.zeros(0, np.int64))
        assert found.shape == (0,) and found.dtype == np.float32


def test_an_index_of_no_documents(tmp_path, vectors):
    writer = ForwardIndexWriter(tmp_path / "forward")
    writer.close_streams()
    statistics = writer.finish(np.zeros(0, np.uint32))
    index = ForwardIndex(tmp_path / "forward", {field: one.mean_length for field, one in statistics.items()})
    assert len(index) == 0
    for reranker in pair(index, vectors)[1:]:
        assert scores_of(reranker, index, QUERY).shape == (0,)


def test_an_index_of_empty_documents(tmp_path, vectors):
    """No document has a word, so the vocabulary is empty, and only features and biases count."""
    index = small.build_index(tmp_path / "forward", [("a", "", ""), ("b", "?!", "...")])
    _, fused, plain = pair(index, vectors)
    found = scores_of(fused, index, QUERY)
    assert found[0] == found[1] != 0
    assert_close(found, scores_of(plain, index, QUERY))


# ---------------------------------------------------------------------------------------------- scores that are none


@pytest.mark.parametrize("place", [0, 1, 2, 3, 7])
@pytest.mark.parametrize(
    "hyper", [dict(convolutions=1, width=1), dict(convolutions=1), dict(), dict(slope=0.0)], ids=str
)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_broken_word_is_not_hidden_by_the_maximum(tmp_path, place, hyper, value):
    """'broken' has a vector that is no vector. Wherever it stands among 8 words, its document is named."""
    words = ["heart", "attack", "risk", "broken"]
    vectors = small.word_vectors(words, dimension=5, seed=1)
    vectors.matrix[vectors.vocabulary.ids["broken"], 2] = value
    said = ["attack", "risk"] * 4
    said[place] = "broken"
    index = small.build_index(
        tmp_path / "forward",
        [("good", "attack risk attack", ""), ("bad", " ".join(said), ""), ("also-bad", "broken", "")],
    )
    for reranker in pair(index, vectors, **hyper)[1:]:
        assert np.isfinite(scores_of(reranker, index, Query("q7", "heart risk"), [0])).all()
        with pytest.raises(InputError, match="document bad for query q7") as raised:
            scores_of(reranker, index, Query("q7", "heart risk"))
        assert "\n" not in str(raised.value)
        with pytest.raises(InputError, match="document also-bad for query q7"):
            reranker.score_many(
                [Query("q6", "heart"), Query("q7", "heart risk")],
                [small.candidates(index, [0]), small.candidates(index, [0, 2, 1])],
            )


def parameters_of(model):
    return {name: parameter for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("name", parameters_of(Delta(DeltaConfig(lexical_features=LEX3), torch.ones(2, 3))))
def test_a_weight_that_is_not_a_number_is_reported(index, vectors, name):
    """One NaN in the last number of any layer; the fused path may not lose it among filters it padded with zeros."""
    model, fused, plain = pair(index, vectors, filters=6, width=3)
    with torch.no_grad():
        parameters_of(model)[name].view(-1)[-1] = float("nan")
    for reranker in (fused, plain):
        with pytest.raises(InputError, match=r"scores document \S+ for query q1 as NaN"):
            scores_of(reranker, index, QUERY)


def test_a_broken_query_word_is_reported(index, vectors):
    broken = WordVectors(vectors.vocabulary, vectors.matrix.copy())
    broken.matrix[vectors.vocabulary.ids["heart"]] = np.nan
    for reranker in pair(index, broken)[1:]:
        with pytest.raises(InputError, match="for query q1 as NaN"):
            scores_of(reranker, index, QUERY)
        assert np.isfinite(scores_of(reranker, index, Query("q2", "cancer"), [1])).all()
