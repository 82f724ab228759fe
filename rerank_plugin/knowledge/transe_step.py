"""The inner loop of TransE, compiled (numba). Import it only where vectors are trained."""

from __future__ import annotations

import numpy as np

from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.compiling import njit


@njit(nogil=True, fastmath=REASSOCIATE)
def _residual(entities, relations, triple, norm, gradient):
    """The distance of a triple; fills its gradient by the head, float32 [D]."""
    head, relation, tail = entities[triple[0]], relations[triple[1]], entities[triple[2]]
    distance = np.float32(0)
    if norm == 1:
        for j in range(len(head)):
            difference = head[j] + relation[j] - tail[j]
            distance += abs(difference)
            gradient[j] = np.float32(difference > 0) - np.float32(difference < 0)
    else:
        for j in range(len(head)):
            difference = head[j] + relation[j] - tail[j]
            distance += difference * difference
            gradient[j] = np.float32(2) * difference
    return distance


@njit(nogil=True, fastmath=REASSOCIATE)
def _normalize(vector, longest):
    """Give a vector the length 1, or with ``longest`` this length if it is longer."""
    square = np.float32(0)
    for j in range(len(vector)):
        square += vector[j] * vector[j]
    if square > longest * longest:
        scale = (longest if longest > 0 else np.float32(1)) / np.sqrt(square)
        for j in range(len(vector)):
            vector[j] *= scale


@njit(nogil=True, fastmath=REASSOCIATE)
def step(entities, relations, positives, negatives, margin, learning_rate, norm, longest, residuals, losses):
    """One step of stochastic gradient descent on a batch: on the sum of [margin + d(positive) - d(negative)]+ .

    All gradients are taken where the vectors stood before the step. Afterwards every entity vector that moved has
    length 1 again; the others still have it, so all are normalized as the algorithm asks, at the cost of a batch.

    Args:
        entities: float32 [C, D], changed. relations: float32 [R, D], changed.
        positives, negatives: int32 [B, 3], a triple and its corruption.
        norm: 1 for d the L1 norm of head + relation - tail, 2 for the square of its L2 norm.
        longest: relation vectors that are longer afterwards are shortened to this length; infinity leaves them free.
        residuals: float32 [2, B, D], space for the gradients. losses: float32 [B], filled.
    """
    dimension = entities.shape[1]
    for i in range(len(positives)):
        good = _residual(entities, relations, positives[i], norm, residuals[0, i])
        bad = _residual(entities, relations, negatives[i], norm, residuals[1, i])
        losses[i] = max(np.float32(0), np.float32(margin) + good - bad)
    for i in range(len(positives)):
        if losses[i] > 0:
            for side in range(2):
                triple = positives[i] if side == 0 else negatives[i]
                rate = np.float32(-learning_rate if side == 0 else learning_rate)
                head, relation, tail = entities[triple[0]], relations[triple[1]], entities[triple[2]]
                for j in range(dimension):
                    change = rate * residuals[side, i, j]
                    head[j] += change
                    relation[j] += change
                    tail[j] -= change
    for i in range(len(positives)):
        if losses[i] > 0:
            for triple in (positives[i], negatives[i]):
                _normalize(entities[triple[0]], np.float32(0))
                _normalize(entities[triple[2]], np.float32(0))
            _normalize(relations[positives[i, 1]], np.float32(longest))


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def steps(entities, relations, positives, negatives, batch, margin, learning_rate, norm, longest):
    """One `step` after the other on batches of this size; returns the sum of the losses, float64.

    Shapes: positives, negatives int32 [N, 3], a triple and its corruption.
    """
    residuals = np.empty((2, batch, entities.shape[1]), np.float32)
    losses = np.empty(batch, np.float32)
    total = 0.0
    for begin in range(0, len(positives), batch):
        end = min(begin + batch, len(positives))
        step(
            entities, relations, positives[begin:end], negatives[begin:end], margin, learning_rate, norm, longest,
            residuals, losses,
        )  # fmt: skip
        total += losses[: end - begin].sum()
    return total


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def distances(points, entities, norm, found):
    """Distances of entities [C, D] to points [B, D], filled into ``found``; all float32, ``found`` is [B, C]."""
    for i in range(len(entities)):
        for k in range(len(points)):
            distance = np.float32(0)
            if norm == 1:
                for j in range(points.shape[1]):
                    distance += abs(points[k, j] - entities[i, j])
            else:
                for j in range(points.shape[1]):
                    difference = points[k, j] - entities[i, j]
                    distance += difference * difference
            found[k, i] = distance
