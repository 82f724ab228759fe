"""Spherical k-means: divides vectors, kept as 8-bit codes, into inverted lists by their nearest centroids.

A centroid is the direction of the mean of its list's unit vectors (Dhillon and Modha, Machine Learning 42, 2001). Which
centroid is nearest is told by exact integer products, and a mean is summed in the order of the vectors, so that the
result depends on neither the number of threads nor the processor's vectors.

Letters in shapes: n documents, P codes, S spaces, L lists.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from rerank_plugin.kernels.compiling import njit
from rerank_plugin.kernels.parallel import split
from rerank_plugin.kernels.quantization import Codes, Spaces
from rerank_plugin.kernels.quantized_products import nearest_lists

ROUNDS = 5
SMALLEST = np.float32(1e-30)  # length of a vector that is not 0


def train_centroids(sample: Codes, spaces: Spaces, lists: int, seed: int, threads: int = 1) -> np.ndarray:
    """Centroids of some documents after `ROUNDS` of k-means, unit vectors float32 [L, E].

    Args:
        sample: at least as many documents as lists.
        lists: L.
        seed: of the documents that the first centroids are.
    """
    first = np.sort(np.random.default_rng(seed).choice(len(sample.codes), lists, replace=False))
    centroids = _units(spaces.decode(sample.take(first)))
    lengths = np.maximum(_lengths(sample, spaces), SMALLEST)
    weights = sample.scales / lengths[:, None]
    for _ in range(ROUNDS):
        nearest, products = nearest_lists(sample, spaces.quantize_queries(centroids), threads)
        nearest = _without_empty(nearest, products / lengths, lists)
        order = np.argsort(nearest, kind="stable")
        ends = np.cumsum(np.bincount(nearest, minlength=lists))
        sums = np.zeros((lists, spaces.padded), np.float32)
        split(partial(_add_up, sample.codes, weights, spaces.starts, order, ends, sums), lists, threads, 16)
        centroids = _units(sums[:, spaces.columns])
    return centroids


def _lengths(found: Codes, spaces: Spaces) -> np.ndarray:
    """The Euclidean lengths of vectors, float32 [n]."""
    squares = np.zeros(len(found.codes))
    for start, stop, scales in zip(spaces.starts, spaces.starts[1:], found.scales.T):
        part = found.codes[:, start:stop].astype(np.int32)
        squares += np.einsum("np,np->n", part, part) * scales.astype(np.float64) ** 2
    return np.sqrt(squares).astype(np.float32)


def _units(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), SMALLEST)


def _without_empty(nearest: np.ndarray, cosines: np.ndarray, lists: int) -> np.ndarray:
    """The lists int32 [n], where each empty one gets a document of those furthest from their centroids."""
    empty = np.flatnonzero(np.bincount(nearest, minlength=lists) == 0)
    if len(empty):
        furthest = np.argsort(cosines, kind="stable")[: len(empty)]
        nearest = nearest.copy()
        nearest[furthest] = empty
    return nearest


@njit(nogil=True, cache=True)
def _add_up(codes, weights, starts, order, ends, sums, start, stop):
    """Fill ``sums[start:stop]``, which are 0, with those of the weighted codes of the lists' documents."""
    for one in range(start, stop):
        total = sums[one]
        for i in range(ends[one - 1] if one else 0, ends[one]):
            row = codes[order[i]]
            for space in range(len(starts) - 1):
                weight = weights[order[i], space]
                for place in range(starts[space], starts[space + 1]):
                    total[place] += weight * np.float32(row[place])


@njit(nogil=True, cache=True)
def place_in_lists(lists, offsets, rows):
    """Give documents their positions: list after list, in each by increasing row. No other memory is needed.

    Args:
        lists: of each document, int32 [n]; its position stands there afterwards.
        offsets: zeros int64 [L + 1]; where the lists start, and where the last one ends, stands there afterwards.
        rows: int32 [n]; the document at each position stands there afterwards.
    """
    for one in lists:
        offsets[one + 1] += 1
    for one in range(1, len(offsets)):
        offsets[one] += offsets[one - 1]
    following = offsets[:-1].copy()
    for row in range(len(lists)):
        one = lists[row]
        lists[row] = following[one]
        rows[following[one]] = row
        following[one] += 1
