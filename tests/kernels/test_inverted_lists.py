"""Spherical k-means over codes."""

import numpy as np
import pytest

from rerank_plugin.kernels.inverted_lists import place_in_lists, train_centroids
from rerank_plugin.kernels.quantization import Spaces
from rerank_plugin.kernels.quantized_products import nearest_lists

SPACES = Spaces([24, 8])


def clustered(lists, each, spread, seed=1):
    """Vectors of any length around ``lists`` directions, and the directions."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((lists, SPACES.size))
    vectors = np.repeat(centres, each, axis=0) + spread * random.standard_normal((lists * each, SPACES.size))
    return (vectors * random.uniform(0.1, 10, (len(vectors), 1))).astype(np.float32)


def test_a_centroid_is_the_direction_of_the_mean_of_its_unit_vectors():
    """With one list after the first round, it is that of all; plain numpy says which."""
    vectors = clustered(3, 40, 0.5)
    found = SPACES.quantize(vectors)
    decoded = SPACES.decode(found)
    mean = (decoded / np.linalg.norm(decoded, axis=1, keepdims=True)).sum(axis=0)
    centroids = train_centroids(found, SPACES, 1, seed=2)
    assert centroids[0] == pytest.approx(mean / np.linalg.norm(mean), abs=1e-5)


def test_rounds_improve_the_lists():
    found = SPACES.quantize(clustered(30, 40, 0.6))
    decoded = SPACES.decode(found)
    units = decoded / np.linalg.norm(decoded, axis=1, keepdims=True)
    trained = train_centroids(found, SPACES, 30, seed=5)
    first = units[np.sort(np.random.default_rng(5).choice(len(units), 30, replace=False))]
    cosines = [(units @ centroids.T).max(axis=1).mean() for centroids in (first, trained)]
    assert cosines[1] > cosines[0] + 0.02
    assert np.linalg.norm(trained, axis=1) == pytest.approx(1, abs=1e-5)


def test_neither_threads_nor_a_second_time_change_the_centroids():
    found = SPACES.quantize(clustered(20, 30, 1.0))
    one, again, three = (train_centroids(found, SPACES, 25, seed=7, threads=threads) for threads in (1, 1, 3))
    assert np.array_equal(one, again) and np.array_equal(one, three)
    assert not np.array_equal(one, train_centroids(found, SPACES, 25, seed=8))


def test_no_list_stays_empty():
    """Nine copies of one vector and a zero vector beside others: lists of copies lose their documents to the first."""
    vectors = np.vstack([np.repeat(clustered(1, 1, 0.0), 9, axis=0), clustered(3, 2, 0.1), np.zeros((1, 32))])
    found = SPACES.quantize(vectors.astype(np.float32))
    centroids = train_centroids(found, SPACES, 6, seed=0)
    assert np.isfinite(centroids).all()
    nearest, _ = nearest_lists(found, SPACES.quantize_queries(centroids))
    assert len(np.unique(nearest)) >= 4


def test_places_are_in_the_order_of_lists_then_rows():
    lists, offsets, rows = np.array([2, 0, 3, 2, 0, 2], np.int32), np.zeros(5, np.int64), np.zeros(6, np.int32)
    place_in_lists(lists, offsets, rows)
    assert offsets.tolist() == [0, 2, 2, 5, 6]
    assert lists.tolist() == [2, 0, 5, 3, 1, 4] and rows.tolist() == [1, 4, 0, 3, 5, 2]
