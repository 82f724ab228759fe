"""Link prediction: evaluates vectors on held-out relations (Bordes et al. 2013, 4.2).

For a held-out triple (h, r, t) all entities e are ranked by d(h + r, e) to predict t, and by d(e + r, t) to predict h.
Filtered ranks leave out other correct entities, of training or held-out triples; raw ranks do not. Equal distances
share their mean rank, so that equal vectors are no better than chance.

Pairs of concepts are held out, not triples: UMLS lists most relations in both directions, and a relation is trivial to
predict if its inverse is in the training data. Both concepts of a pair keep at least one training relation.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from rerank_plugin.knowledge.transe import Translation

MOST = 2000  # largest number of held-out pairs: a rank needs the distances to all concepts
BATCH = 64  # held-out triples to rank at once


class Prediction(NamedTuple):
    """Hits@k over head and tail prediction, filtered unless raw; ``mrr`` is the mean of 1 / filtered rank."""

    triples: int
    hits_at_1: float
    hits_at_10: float
    mrr: float
    raw_hits_at_10: float
    tail_hits_at_10: float
    head_hits_at_10: float


def hold_out(triples: np.ndarray, entity_count: int, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and held-out triples, int32 [., 3] each, in their original order. Shapes: triples int32 [E, 3]."""
    pairs = np.sort(triples[:, [0, 2]], axis=1).astype(np.int64)  # [E, 2]
    keys, first, pair_of = np.unique(pairs[:, 0] * entity_count + pairs[:, 1], return_index=True, return_inverse=True)
    ends = pairs[first]  # [P, 2]
    neighbours = np.bincount(ends.ravel(), minlength=entity_count)  # [C]
    target = min(round(share * len(keys)), MOST)
    held_out = np.zeros(len(keys), bool)
    count = 0
    for pair in np.random.default_rng(seed).permutation(len(keys)).tolist():
        if count == target:
            break
        first_end, second_end = ends[pair]
        if neighbours[first_end] > 1 and neighbours[second_end] > 1:
            neighbours[first_end] -= 1
            neighbours[second_end] -= 1
            held_out[pair] = True
            count += 1
    return triples[~held_out[pair_of]], triples[held_out[pair_of]]


def evaluate(vectors: Translation, held_out: np.ndarray, known: np.ndarray, norm: int) -> Prediction:
    """Predict the tail and the head of held-out triples. Shapes: held_out int32 [H, 3], known int32 [E, 3]."""
    heads, tails = (ranks(vectors, held_out, known, norm, side) for side in (0, 2))  # [2, H] each
    filtered, raw = np.concatenate([heads, tails], axis=1)  # [2 H]
    return Prediction(
        len(held_out),
        float((filtered <= 1).mean()),
        float((filtered <= 10).mean()),
        float((1 / filtered).mean()),
        float((raw <= 10).mean()),
        float((tails[0] <= 10).mean()),
        float((heads[0] <= 10).mean()),
    )


def ranks(vectors: Translation, held_out: np.ndarray, known: np.ndarray, norm: int, side: int) -> np.ndarray:
    """Filtered and raw ranks of the heads (side 0) or tails (side 2) of triples, float64 [2, H]."""
    from rerank_plugin.knowledge.transe_step import distances as fill_distances

    entities, relations = vectors
    answers = defaultdict(list)  # the correct entities for each entity on the other side and relation
    for entity, relation, answer in known[:, [2 - side, 1, side]].tolist():
        answers[entity, relation].append(answer)
    result = np.empty((2, len(held_out)))
    buffer = np.empty((BATCH, len(entities)), np.float32)
    for begin in range(0, len(held_out), BATCH):
        batch = held_out[begin : begin + BATCH].astype(np.int64)  # [B, 3]
        points = entities[batch[:, 2 - side]] + np.float32(side - 1) * relations[batch[:, 1]]  # [B, D]
        distances = buffer[: len(batch)]  # [B, C]
        fill_distances(points, entities, norm, distances)
        correct = distances[np.arange(len(batch)), batch[:, side]].copy()  # [B]
        for i, (triple, distance) in enumerate(zip(batch.tolist(), correct)):
            result[1, begin + i] = _rank(distances[i], distance)
            distances[i, answers[triple[2 - side], triple[1]]] = np.inf
            distances[i, triple[side]] = distance
            result[0, begin + i] = _rank(distances[i], distance)
    return result


def _rank(distances: np.ndarray, distance: float) -> float:
    """The mean rank among ties: one plus the nearer entities plus half of the other entities at the same distance."""
    return 1 + int((distances < distance).sum()) + (int((distances == distance).sum()) - 1) / 2
