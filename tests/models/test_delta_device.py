"""Delta from tables on a device, run on the CPU with the same code. The module's scores: ``tests/conformance``."""

import shutil

import numpy as np
import pytest
import torch

from rerank_plugin.base.records import Query
from rerank_plugin.inputs.lexical_features import LEX3
from rerank_plugin.models.delta.device import CANDIDATES_STEP
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from tests import small
from tests.conformance.models import opened

QUERIES = [
    Query("q0", "aspirin heart attack xylitol"),
    Query("q1", "cancer"),
    Query("q2", "Women who smoke, risk of stroke"),
    Query("q3", "migraine zyzzyva"),
    Query("q4", "aspirin aspirin for the heart in old women who smoke"),
]
ROWS = [[0], range(10), [3, 4, 8], [4], [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]]


def both(index, vectors, filters=32, **options):
    """Rerankers of the same model: the plain module, and the device path on the CPU."""
    model = small.delta(vectors, seed=1, lexical_features=LEX3, document_words=9, filters=filters)
    return opened(model, "module", index, vectors), opened(model, "device", index, vectors, **options)


def scores(reranker, index, queries=QUERIES, rows=ROWS):
    return np.concatenate(reranker.score_many(queries, [small.candidates(index, query_rows) for query_rows in rows]))


def assert_close(actual, expected, tolerance=1e-5):
    assert np.ptp(expected) > 0.01
    assert np.abs(actual - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("batch_size", [1, 3, 10, 25, 1000])
def test_batches_change_nothing(index, vectors, batch_size):
    """Queries with different numbers of candidates, alone and in joint batches, whole and in pieces."""
    plain, device = both(index, vectors, batch_size=batch_size)
    assert_close(scores(device, index), scores(plain, index))


def test_words_that_are_the_query_words_have_distance_zero(index, vectors):
    """|d|^2 + |q|^2 - 2 d.q would leave a distance of about 1e-3 of the norm in single precision."""
    plain, device = both(index, vectors._replace(numbers=vectors.matrix * 1e3))
    assert_close(scores(device, index), scores(plain, index))


def test_out_of_memory_halves_the_batch_for_good(index, vectors, monkeypatch):
    """Tables that run out of memory beyond seven documents."""
    plain, reranker = both(index, vectors, batch_size=64)
    expected, sizes = scores(plain, index), []
    device = reranker.fast_class(reranker.model, reranker.builder, reranker.options)
    reranker.fast, reranker.prepared, original_forward = device, True, device.tables.forward

    def short_of_memory(queries, query_mask, documents, features):
        sizes.append(documents.shape[0] * documents.shape[1])
        if sizes[-1] > 7:
            raise torch.OutOfMemoryError("out of memory")
        return original_forward(queries, query_mask, documents, features)

    monkeypatch.setattr(device.tables, "forward", short_of_memory)
    assert_close(scores(reranker, index), expected)
    assert device.batch_size == 4 and max(sizes[-5:]) <= 4
    sizes.clear()
    assert_close(scores(reranker, index), expected)
    assert max(sizes) <= 4
    device.batch_size = 1
    monkeypatch.setattr(device.tables, "forward", lambda *_: (_ for _ in ()).throw(torch.OutOfMemoryError("none")))
    with pytest.raises(torch.OutOfMemoryError):
        scores(reranker, index)


def test_half_precision_changes_scores_a_little(index, vectors):
    plain, device = both(index, vectors, precision="bfloat16")
    actual, expected = scores(device, index), scores(plain, index)
    assert_close(actual, expected, tolerance=0.1)
    assert np.abs(actual - expected).max() > 1e-4 * np.abs(expected).max()


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on the CPU")
def test_compiled_and_padded_to_a_common_depth(index, vectors):
    plain, reranker = both(index, vectors, filters=4, compile=True)
    device = reranker.fast_class(reranker.model, reranker.builder, reranker.options)
    reranker.fast, reranker.prepared, shapes, compiled = device, True, [], device.forward

    def watched(queries, query_mask, documents, features):
        shapes.append(tuple(documents.shape))
        return compiled(queries, query_mask, documents, features)

    device.forward = watched
    actual, expected = (
        np.concatenate([scores(each_reranker, index, [query], [range(10)]) for query in QUERIES[:2]])
        for each_reranker in (reranker, plain)
    )
    assert_close(actual, expected)
    assert shapes == [(1, CANDIDATES_STEP, 9)] * 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_scores_of_the_cpu(index, vectors):
    plain, _ = both(index, vectors)
    model = small.delta(vectors, seed=1, lexical_features=LEX3, document_words=9)
    on_gpu = NeuralReranker(model, vectors.vocabulary, index, RerankerOptions("cuda"))
    assert_close(scores(on_gpu, index), scores(plain, index), 1e-4)
