"""Fast paths give the module's scores, whatever the model, the documents, the threads and the memory are like."""

import copy
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rerank_plugin.base.records import Query
from rerank_plugin.inputs.lexical_features import LEX3, PAPER_NAMES
from rerank_plugin.kernels.parallel import Workspace
from rerank_plugin.models.baselines.duet import PARTS
from rerank_plugin.models.encoded_path import EncodedDocuments
from rerank_plugin.models.fast_paths import ModulePath
from rerank_plugin.models.ranking_model import EncodingModel
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors
from tests import guarded, small
from tests.conformance import twins
from tests.conformance.conftest import Library
from tests.conformance.models import (
    NAMES,
    Case,
    assert_same,
    has_word_vectors,
    inputs_of,
    make,
    make_own,
    opened,
    paths_of,
    rounding,
    scores_of,
    small_sizes,
)
from tests.models import encodable
from tests.processes import run

FEATURES = (*LEX3, "bigram_overlap_text", "jaccard_abstract")

# ------------------------------------------------------------------------------------------- any model, any documents


def up_to(most, least=1):
    return st.integers(least, most)


def layers(most=40, least=0, count=3):
    return st.lists(up_to(most), min_size=least, max_size=count).map(tuple)


flags, leaks, lengths = st.booleans(), st.sampled_from([0.3, 0.0, 0.01, 1.0]), {"document_words": up_to(70)}
STRATEGIES = {
    "conv-knrm": {"filters": up_to(40), "longest_ngram": up_to(4)},
    "delta": {
        "filters": up_to(70), "width": st.sampled_from([1, 3, 5, 7]), "convolutions": up_to(4),
        "hidden": st.none() | layers(), "slope": leaks, "lexical_features": st.sampled_from([(), LEX3, FEATURES]),
        "differences": st.sampled_from([True, True, False]), "delta_features": st.sampled_from([True, True, False]),
    },
    "drmm": {"bins": st.sampled_from([2, 3, 5, 11, 16, 17, 30, 31, 64]), "hidden": layers()},
    "duet": {
        "parts": st.sampled_from(PARTS), "filters": up_to(40), "hidden": layers(least=1), "width": up_to(4),
        "pool_width": up_to(40), "pool_stride": up_to(40),
    },
    "knrm": {},
    "ktrel-w": {"heads": st.sampled_from([1, 2]), "feed_forward": up_to(9), "layers": up_to(1, 0)},
    "matchpyramid": {
        "similarity": st.sampled_from(["cosine", "cosine", "indicator"]),
        "filters": layers(20, 1) | st.tuples(up_to(70)), "hidden": layers(count=2),
        "kernel_rows": st.sampled_from([1, 3, 5]), "kernel_columns": st.sampled_from([1, 3, 5, 9]),
        "pool_rows": up_to(6), "pool_columns": up_to(12),
    },
    "pacrr": {
        "distillation": st.sampled_from(["firstk", "kwindow"]), "distilled_words": up_to(45, 5), "signals": up_to(5),
        "filters": up_to(20), "longest_ngram": st.sampled_from([1, 2, 3, 3, 4, 5]),
    },
    "sevmos": {
        "filters": up_to(18), "width": up_to(6), "convolutions": up_to(3), "hidden": st.none() | layers(20),
        "lexical_features": st.lists(st.sampled_from(PAPER_NAMES), unique=True, max_size=4).map(tuple), "slope": leaks,
    },
}  # fmt: skip
KINDS = ("normal", "grid", "mixed", "tiny", "huge", "offset")
FAST = [(name, path) for name in NAMES for path in paths_of(name)[1:] if name not in ("ktrel", "ktrel-c")]
every_fast = pytest.mark.parametrize(("name", "path"), FAST, ids=[f"{name}-{path}" for name, path in FAST])


def random_vectors(random, kind, count, dimension):
    """Word vectors, float32 [count, dimension]; some are zero, some the same."""
    vectors = random.normal(size=(count, dimension))
    if kind == "grid":  # many cosines are 1, 0 or -1, and many words equally far from several query words
        vectors = random.integers(-2, 3, size=(count, dimension)).astype(float)
    elif kind == "mixed":  # norms from 1e-3 to 1e3 side by side
        vectors *= 10 ** random.uniform(-3, 3, size=(count, 1)) / np.linalg.norm(vectors, axis=1, keepdims=True)
    elif kind in ("tiny", "huge"):
        vectors *= {"tiny": 1e-3, "huge": 1e3}[kind]
    elif kind == "offset":  # all words point the same way, and differ little from one another
        vectors += 5 * random.normal(size=(1, dimension))
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


def in_double_precision(model, inputs):
    """The module's scores, float64 [B]."""
    torch.set_default_dtype(torch.float64)
    try:
        double = inputs._replace(features=inputs.features.double(), query_idf=inputs.query_idf.double())
        return copy.deepcopy(model).double()(double).numpy()
    finally:
        torch.set_default_dtype(torch.float32)


@every_fast
def test_scores_are_the_modules_and_the_twins(name, path):
    """To 1e-5 of the largest score; where the module's own rounding is worse than that, to four times its error."""
    spreads, checked = [], []

    @settings(max_examples=40)
    @given(
        seed=st.integers(0, 2**32 - 1),
        sizes=st.fixed_dictionaries(
            {"document_words": up_to(70), "query_words": up_to(12), **STRATEGIES.get(name, {})}
        ),
        kind=st.sampled_from(KINDS),
        dimension=up_to(20),
        batch_size=st.sampled_from([1, 7, 1024]),
    )
    def agree(seed, sizes, kind, dimension, batch_size):
        random = np.random.default_rng(seed)
        if name == "duet":
            sizes["pool_stride"] = min(sizes["pool_stride"], sizes["pool_width"])
        if name == "delta":
            sizes["delta_features"] |= not sizes["differences"]
        known = [f"w{number}" for number in range(random.integers(1, 15))]
        vocabulary = Vocabulary([*known, "m0"])  # m0 is in no document
        matrix = random_vectors(random, kind, len(vocabulary), dimension + dimension % 2)
        vectors = WordVectors(vocabulary, matrix)
        asked = [*random.choice([*known, "m0", "x0", "x1", "n0"], random.integers(1, sizes["query_words"] + 3))]
        words = np.array([*known, *known, "x0", "x1"])  # x0 and x1 are UNK, n0 is nowhere
        if name == "delta" and kind != "grid":
            unclear = undecided(matrix, range(len(matrix)), vocabulary.lookup(asked[: sizes["query_words"]]))
            words = words[[id not in unclear for id in vocabulary.lookup(words)]]
        documents = []
        for number in range(random.integers(2, 11)):
            length = random.choice([0, 1, 2, 3, 16, 17, random.integers(0, 90)]) if len(words) else 0
            said = random.choice(words, length) if length else []
            border = random.integers(0, length + 1)
            documents.append((f"d{number}", " ".join(said[:border]), " ".join(said[border:])))
        with tempfile.TemporaryDirectory() as folder:
            index = encodable.build_index(Path(folder) / "index", documents)
            case = Case(name, {**small_sizes(name), **sizes})
            model = make(case, vectors, seed % 1000)
            one = opened(model, path, index, vectors, threads=1 + seed % 3, batch_size=batch_size)
            query = Query("q", " ".join(asked))
            assume(one.can_read(one.builder.query(index.query(query.text))))
            rows = random.integers(len(documents), size=random.integers(1, 41))
            inputs = inputs_of(one, query, rows)
            with torch.inference_mode():
                expected, exact = model(inputs).numpy(), in_double_precision(model, inputs)
            found, largest = scores_of(one, query, rows), max(np.abs(expected).max(), 1e-3)
            allowed = 1e-5 * largest + 4 * np.abs(expected - exact).max()
            allowed = max(allowed, rounding(case, path) * max(1, largest))
            np.testing.assert_allclose(found, expected, rtol=0, atol=allowed)
            if model.name in twins.TWINS and sum(one.numel() for one in model.parameters()) < 1500:
                some = twins.scores(model, index, vectors, query, documents, rows[:2])
                if isinstance(model, EncodingModel):  # the twin knows of no codes
                    with torch.inference_mode():
                        found = make_own(case, vectors, seed % 1000)(inputs).numpy()
                np.testing.assert_allclose(found[:2], some, rtol=0, atol=allowed)
                checked.append(1)
        spreads.append(np.ptp(expected) / largest if len(set(rows.tolist())) > 1 else 1)

    agree()
    assert np.mean(np.array(spreads) > 0.01) > 0.4  # models that say the same of all documents would prove nothing
    assert len(checked) > 3 or name not in STRATEGIES


# --------------------------------------------------------------------------------- one score, bit for bit the same

SIZES = {
    "delta": [
        dict(filters=21, document_words=40, query_words=5, lexical_features=FEATURES),
        dict(filters=32, width=5, convolutions=2, document_words=64, query_words=4, hidden=(9, 20)),
    ],
    "duet": [
        dict(filters=21, hidden=(18, 9), pool_width=12, pool_stride=4, document_words=70),
        dict(filters=16, hidden=(33,), pool_width=9, pool_stride=1, width=2, document_words=50, query_words=5),
        dict(parts="local", filters=5, hidden=(3, 3, 3), document_words=64),
    ],
    "matchpyramid": [
        dict(filters=(40,), kernel_rows=5, kernel_columns=9, document_words=80),
        dict(filters=(5, 18), pool_rows=2, pool_columns=4, document_words=120),
        dict(similarity="indicator", filters=(1,), kernel_rows=1, kernel_columns=1, query_words=16),
    ],
    "pacrr": [{}, dict(distillation="kwindow", distilled_words=50, document_words=200)],
    "sevmos": [dict(filters=5, lexical_features=LEX3), dict(filters=21, convolutions=3, lexical_features=())],
    "conv-knrm": [dict(filters=17, document_words=60)],
}
LARGE = [
    Case(name, sizes)
    for name, path in FAST
    if path == "fast" and has_word_vectors(name)
    for sizes in SIZES.get(name, [{**small_sizes(name), "document_words": 80}])
]
every_large = pytest.mark.parametrize("case", LARGE, ids=str)


def fast(case, library, threads=1):
    return opened(make(case, library.vectors, 3), "fast", library.index, library.vectors, threads=threads)


def scored(one, library, rows=None, query=0):
    return scores_of(one, library.queries[query], rows)


def same_bits(one, found, expected):
    """But for paths that torch computes: it sums another number of rows in another order."""
    if issubclass(one.fast_class, ModulePath):
        assert_same(found, expected, 1e-6)
    else:
        np.testing.assert_array_equal(found, expected)
        assert found.tobytes() == expected.tobytes()


@pytest.fixture(scope="module")
def alone(library):
    """Gives each query's scores of all documents by one thread, from memory that held nothing before."""
    known = {}

    def of(case):
        if str(case) not in known:
            plain = opened(make(case, library.vectors, 3), "module", library.index, library.vectors)
            found = [scored(fast(case, library), library, query=query) for query in range(3)]
            for query, scores in enumerate(found):
                expected = scored(plain, library, query=query)
                tolerance = max(1e-5, rounding(case, "fast"))
                np.testing.assert_allclose(scores, expected, rtol=0, atol=tolerance * np.abs(expected).max())
            assert len(np.unique(found[0])) > 40 and np.ptp(found[0]) > 0.01
            known[str(case)] = found
        return known[str(case)]

    return of


@every_large
def test_neither_threads_nor_other_candidates_change_a_bit(case, library, alone):
    """Candidates alone, in any order and twice, with other queries between: memory is never fresh here."""
    expected, random = alone(case), np.random.default_rng(6)
    for threads in (1, 2, 7):
        one = fast(case, library, threads)
        most = 1200 if one.fast_class is EncodedDocuments else 300  # products are shared from 512 candidates on
        same_bits(one, scored(one, library), expected[0])
        for turn, size in enumerate([1, 3, 17, 64]):
            query, rows = turn % 3, random.integers(140, size=size)
            same_bits(one, scored(one, library, rows, query), expected[query][rows])
        rows = random.integers(140, size=most)
        same_bits(one, scored(one, library, rows), expected[0][rows])


@every_large
def test_several_queries_at_once(case, library, alone):
    """Threads share whole queries; among them one without candidates and one of unknown words."""
    expected, random = alone(case), np.random.default_rng(2)
    for threads in (1, 2, 7):
        one, asked = fast(case, library, threads), random.integers(3, size=12)
        rows = [random.integers(140, size=random.choice([0, 1, 5, 60])) for _ in asked]
        queries = [library.queries[number] for number in asked]
        queries[4] = Query("unknown", "nowhere")
        candidates = [small.candidates(library.index, some) for some in rows]
        for place, scores in enumerate(one.score_many(queries, candidates)):
            unread = candidates[place].first_stage_scores
            same_bits(one, scores, unread if place == 4 else expected[asked[place]][rows[place]])


@pytest.fixture
def hasty_threads():
    """Python threads take turns every few instructions instead of every 5 ms."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@every_large
def test_several_callers_at_once(case, library, alone, hasty_threads):
    """Python threads that share one reranker, whose tables are not made yet when they all begin."""
    expected, together = alone(case), threading.Barrier(4)
    shared = [fast(case, library, threads) for threads in (1, 2)]

    def caller(number):
        random = np.random.default_rng(number)
        for one in shared:
            together.wait(timeout=60)
            for _ in range(2):
                query, rows = random.integers(3), random.integers(140, size=random.choice([1, 20, 60]))
                same_bits(one, scored(one, library, rows, query), expected[query][rows])

    with ThreadPoolExecutor(4) as callers:
        list(callers.map(caller, range(4)))


@every_large
@pytest.mark.parametrize("threads", [1, 3])
def test_what_was_in_memory_never_reaches_a_score(case, library, alone, threads, monkeypatch):
    """``Workspace.array`` promises arrays with any content: here NaN and -1, in them and around them."""
    poison, expected = guarded.Poisoned(), alone(case)[0]
    one = fast(case, library, threads)
    monkeypatch.setattr(Workspace, "array", lambda *arguments: poison.array(*arguments))
    for rows in (np.arange(140), np.array([5]), np.array([139, 0, 7, 7])):
        same_bits(one, scored(one, library, rows), expected[rows])
    assert poison.given and not poison.overrun()


def stay_inside(folder):
    """Score documents of all lengths with forbidden memory behind, then before each array of the workspaces."""
    library = Library(Path(folder) / "index")
    for case in LARGE:
        one = fast(case, library)
        expected = scored(one, library)
        for at_end in (True, False):
            with mock.patch.object(Workspace, "array", lambda _, name, *what: guarded.fenced(*what, at_end)):
                for rows in (np.arange(140), np.array([3]), np.array([139, 1])):
                    same_bits(one, scored(one, library, rows), expected[rows])


@pytest.mark.skipif(not guarded.FENCES, reason="needs Linux's memory protection")
def test_no_memory_outside_the_workspaces_arrays_is_touched(tmp_path):
    run("-c", "import sys; from tests.conformance import test_fast_paths as t; t.stay_inside(sys.argv[1])", tmp_path)
