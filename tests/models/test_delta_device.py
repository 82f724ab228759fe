"""Delta from tables on a device, run on the CPU with the same code: the module's scores, whatever the batches are."""

import shutil

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rerank_plugin.features.lexical_features import LEX3
from rerank_plugin.files.records import Query
from rerank_plugin.models.delta.device import CANDIDATES_STEP, DeltaOnDevice
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from tests import small

TEXTS = [
    "aspirin heart attack xylitol",
    "cancer",
    "Women who smoke, risk of stroke",
    "migraine zyzzyva",
    "aspirin aspirin for the heart in old women who smoke",
]
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def both(index, vectors, model=None, **options):
    """The same model as a reranker that uses the plain module, and on a device that is the CPU."""
    model = small.delta(vectors, seed=1, lexical_features=LEX3, document_words=9) if model is None else model
    plain = NeuralReranker(model, vectors.vocabulary, index, RerankerOptions(fast=False))
    return plain, DeltaOnDevice(model, plain.builder, RerankerOptions(**options))


def tasks_of(plain, index, texts=TEXTS, rows=None):
    rows = [None] * len(texts) if rows is None else rows
    return [
        plain._task(Query(f"q{place}", text), small.candidates(index, some))
        for place, (text, some) in enumerate(zip(texts, rows))
    ]


def scores(plain, device, tasks):
    """Both ways' scores, end to end."""
    expected = plain.score_many([task.query for task in tasks], [task.candidates for task in tasks])
    with torch.inference_mode():
        found = device.score_many(tasks)
    assert [len(one) for one in found] == [len(one) for one in expected]
    return np.concatenate(found), np.concatenate(expected)


def assert_close(found, expected, tolerance=1e-5):
    assert np.ptp(expected) > 0.01
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_agrees_with_the_module(index, data):
    draw = data.draw
    vectors = small.word_vectors(small.KNOWN_WORDS, draw(st.integers(1, 12)), draw(st.integers(0, 9)))
    parts = draw(st.sampled_from([(True, True), (True, False), (False, True)]))
    model = small.delta(
        vectors,
        seed=draw(st.integers(0, 99)),
        filters=draw(st.integers(1, 20)),
        width=draw(st.sampled_from([1, 3, 5])),
        convolutions=draw(st.integers(1, 3)),
        document_words=draw(st.integers(1, 30)),
        query_words=draw(st.integers(1, 8)),
        lexical_features=draw(st.sampled_from([(), LEX3])),
        differences=parts[0],
        delta_features=parts[1],
    )
    plain, device = both(index, vectors, model, batch_size=draw(st.integers(1, 40)))
    rows = draw(st.lists(st.lists(st.integers(0, len(index) - 1), min_size=1, max_size=12), min_size=1, max_size=5))
    tasks = [task for task in tasks_of(plain, index, TEXTS[: len(rows)], rows) if task.scores is None]
    if tasks:
        found, expected = scores(plain, device, tasks)
        assert np.abs(found - expected).max() <= 1e-5 * max(np.abs(expected).max(), 1e-3)


@pytest.mark.parametrize("batch_size", [1, 3, 10, 25, 1000])
def test_batches_change_nothing(index, vectors, batch_size):
    """Queries of different numbers of candidates, alone and together, in pieces and whole."""
    plain, device = both(index, vectors, batch_size=batch_size)
    rows = [[0], None, [3, 4, 8], [4], [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]]
    rows = [list(range(len(index))) if some is None else some for some in rows]
    assert_close(*scores(plain, device, tasks_of(plain, index, rows=rows)))


def test_words_that_are_the_query_words_have_distance_zero(index, vectors):
    """|d|^2 + |q|^2 - 2 d.q would leave a distance of about 1e-3 of the norm in single precision."""
    large = vectors._replace(matrix=vectors.matrix * 1e3)
    plain, device = both(index, large)
    assert_close(*scores(plain, device, tasks_of(plain, index)))


def test_out_of_memory_halves_the_batch_for_good(index, vectors, monkeypatch):
    """The tables whose memory ends at seven documents."""
    plain, device = both(index, vectors, batch_size=64)
    whole, sizes = device.tables.forward, []

    def short_of_memory(queries, query_mask, documents, features):
        sizes.append(documents.shape[0] * documents.shape[1])
        if sizes[-1] > 7:
            raise torch.OutOfMemoryError("out of memory")
        return whole(queries, query_mask, documents, features)

    monkeypatch.setattr(device.tables, "forward", short_of_memory)
    assert_close(*scores(plain, device, tasks_of(plain, index)))
    assert device.batch_size == 4 and max(sizes[-5:]) <= 4
    sizes.clear()
    assert_close(*scores(plain, device, tasks_of(plain, index)))
    assert max(sizes) <= 4
    device.batch_size = 1
    monkeypatch.setattr(device.tables, "forward", lambda *_: (_ for _ in ()).throw(torch.OutOfMemoryError("none")))
    with pytest.raises(torch.OutOfMemoryError):
        scores(plain, device, tasks_of(plain, index))


def test_half_precision_changes_scores_a_little(index, vectors):
    plain, device = both(index, vectors, precision="bfloat16")
    found, expected = scores(plain, device, tasks_of(plain, index))
    assert_close(found, expected, tolerance=0.1)
    assert np.abs(found - expected).max() > 1e-4 * np.abs(expected).max()


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on the CPU")
def test_compiled_and_padded_to_a_common_depth(index, vectors):
    model = small.delta(vectors, seed=1, lexical_features=LEX3, document_words=9, filters=4, convolutions=2)
    plain, device = both(index, vectors, model, compile=True)
    shapes, compiled = [], device.forward

    def watched(queries, query_mask, documents, features):
        shapes.append(tuple(documents.shape))
        return compiled(queries, query_mask, documents, features)

    device.forward = watched
    found, expected = [], []
    for task in tasks_of(plain, index, TEXTS[:2]):
        one, other = scores(plain, device, [task])
        found.append(one)
        expected.append(other)
    assert_close(np.concatenate(found), np.concatenate(expected))
    assert shapes == [(1, CANDIDATES_STEP, 9)] * 2


@on_gpu
def test_a_gpu_gives_the_scores_of_the_cpu(index, vectors):
    model = small.delta(vectors, seed=1, lexical_features=LEX3, document_words=9)
    texts = [Query(f"q{place}", text) for place, text in enumerate(TEXTS)]
    candidates = [small.candidates(index) for _ in TEXTS]
    expected = NeuralReranker(model, vectors.vocabulary, index, RerankerOptions(fast=False)).score_many(
        texts, candidates
    )
    model = small.delta(vectors, seed=1, lexical_features=LEX3, document_words=9)
    found = NeuralReranker(model, vectors.vocabulary, index, RerankerOptions("cuda")).score_many(texts, candidates)
    assert_close(np.concatenate(found), np.concatenate(expected), 1e-4)
