"""Vectors on a device, against the exhaustive search of the store on the CPU."""

import gc
import weakref

import numpy as np
import pytest

from rerank_plugin.indexes.device_vectors import DeviceVectors, vectors_on
from rerank_plugin.indexes.vector_store import VectorStore
from rerank_plugin.kernels.quantization import Spaces
from tests.devices import DEVICE

QUERIES = 5


def store_of(widths, documents, seed=3):
    spaces = Spaces(widths)
    vectors = np.random.default_rng(seed).standard_normal((documents, spaces.size), dtype=np.float32)
    vectors[1::7] = vectors[0]  # ties, which the lowest row decides
    return VectorStore.of_vectors(spaces, vectors, np.arange(documents), documents)


@pytest.fixture(params=[(33,), (16, 40)], ids=str)
def store(request):
    return store_of(request.param, 300)


@pytest.fixture
def queries(store):
    return np.random.default_rng(5).standard_normal((QUERIES, store.size), dtype=np.float32)


@pytest.mark.parametrize("count", [1, 20, 300, 1000])
def test_the_documents_and_scores_of_the_store(store, queries, count):
    on_device = DeviceVectors(store, DEVICE)
    for (rows, scores), (expected, theirs) in zip(
        on_device.search_many(queries, count), store.search_many(queries, count), strict=True
    ):
        assert rows.tolist() == expected.tolist() and scores.tobytes() == theirs.tobytes()


def test_a_filter(store, queries):
    fits = np.arange(300) % 3 == 1
    rows, scores = DeviceVectors(store, DEVICE).search(queries[0], 10, fits)
    expected, theirs = store.search(queries[0], 10, fits)
    assert rows.tolist() == expected.tolist() and scores.tobytes() == theirs.tobytes()
    assert fits[rows].all()


def test_scores_of_given_documents(store, queries):
    rows, query = np.array([7, 0, 299, 7, 12]), np.array([0, 0, 4, 3, 1])
    scores = DeviceVectors(store, DEVICE).scores(store.quantize(queries), query, rows)
    expected = [store.scores(queries[number], rows[[place]])[0] for place, number in enumerate(query)]
    assert scores.tolist() == expected


def test_few_queries_at_once(store, queries, monkeypatch):
    expected = DeviceVectors(store, DEVICE).search_many(queries, 10)
    monkeypatch.setattr("rerank_plugin.indexes.device_vectors.PRODUCTS", 2 * len(store))
    for (rows, _), (others, _) in zip(DeviceVectors(store, DEVICE).search_many(queries, 10), expected, strict=True):
        assert rows.tolist() == others.tolist()


def test_vectors_are_held_once_and_as_long_as_they_are_used(store):
    """Also by stores that were opened one after the other from the same encodings."""
    opened = [store_of((33,), 20), store_of((33,), 20)]
    for one in opened:
        one.description = {"checksum": "of these encodings"}
    held = vectors_on(opened[0], DEVICE)
    assert vectors_on(opened[1], DEVICE) is held and vectors_on(store, DEVICE) is not held
    left = weakref.ref(held)
    del held
    gc.collect()
    assert left() is None


def test_documents_deleted_from_one_of_two_stores_of_the_same_encodings(store, queries):
    """The one that was opened first, as that of an index whose copy from before the deletion is opened beside it."""
    best, of_both = store.search(queries[0], 4)[0], (store.spaces, store.segments, store.row_map, store.centroids)
    deleted, whole = (
        VectorStore(*of_both, description={"checksum": "of both"}, deleted=rows) for rows in (best, best[:0])
    )
    held = vectors_on(deleted, DEVICE)
    for opened, fits in ((whole, None), (deleted, ~np.isin(np.arange(300), best))):
        assert vectors_on(opened, DEVICE) is held
        found, expected = held.search(queries[0], 20, opened.fitting(fits)), opened.search(queries[0], 20)
        assert found[0].tolist() == expected[0].tolist() and found[1].tobytes() == expected[1].tobytes()
