"""The compiled inner loop of TransE (numba). Import it lazily."""

from __future__ import annotations

import numpy as np

from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.compiling import njit


@njit(nogil=True, fastmath=REASSOCIATE)
def _residual(entities, relations, triple, norm, gradient):
    """The distance of a triple; ``gradient`` is set to its gradient with respect to the head, float32 [D]."""
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
    """Scale a vector to the length 1; or, if ``longest`` is above 0, scale a longer vector to this length."""
    square = np.float32(0)
    for j in range(len(vector)):
        square += vector[j] * vector[j]
    if square > longest * longest:
        scale = (longest if longest > 0 else np.float32(1)) / np.sqrt(square)
        for j in range(len(vector)):
            vector[j] *= scale


@njit(nogil=True, fastmath=REASSOCIATE)
def step(entities, relations, positives, negatives, margin, learning_rate, norm, longest, residuals, losses):
    """A step of stochastic gradient descent for the sum of [margin + d(positive) - d(negative)]+ over a batch.

    All gradients are computed before the vectors change. Afterwards each changed entity vector is normalized to length
    1; the others have it already, so all are normalized as in algorithm 1, at the cost of a batch.

    Args:
        entities: float32 [C, D], changed in place. relations: float32 [R, D], changed in place.
        positives, negatives: triples and their corruptions, int32 [B, 3].
        norm: d is the L1 norm of head + relation - tail for 1, the square of its L2 norm for 2.
        longest: the largest length of relation vectors; longer vectors are shortened. Infinity for no limit.
        residuals: a buffer for the gradients, float32 [2, B, D]. losses: the output, float32 [B].
    """
    dimension = entities.shape[1]
    for i in range(len(positives)):
        positive = _residual(entities, relations, positives[i], norm, residuals[0, i])
        negative = _residual(entities, relations, negatives[i], norm, residuals[1, i])
        losses[i] = max(np.float32(0), np.float32(margin) + positive - negative)
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
    """Consecutive `step` calls on batches of this size; returns the sum of the losses, float64.

    Shapes: positives, negatives int32 [N, 3], triples and their corruptions.
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
def distances(points, entities, norm, output):
    """Distances of entities [C, D] to points [B, D], written to ``output`` [B, C]; all float32."""
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
            output[k, i] = distance
