"""How well vectors predict relations that they were not trained on (Bordes et al. 2013, 4.2).

For a held-out triple (h, r, t) all entities are ranked by d(h + r, e) to find t, and by d(e + r, t) to find h.
Filtered ranks leave out other entities that are known to be correct, in training or held out; raw ranks do not. Equal
distances share their mean rank, so that equal vectors get no better than chance.

Pairs of concepts are held out, not triples: UMLS lists most relations in both directions, and a relation is trivial to
predict if its inverse is in the training data. Both concepts of a pair keep at least one training relation.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from rerank_plugin.knowledge.transe import Translation

MOST = 2000  # held-out pairs at most: one rank looks at every concept
BATCH = 64  # held-out triples that are ranked at once


class Prediction(NamedTuple):
    """Shares over head and tail prediction; ``mrr`` is the mean of 1 / filtered rank."""

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
    wanted = min(round(share * len(keys)), MOST)
    held = np.zeros(len(keys), bool)
    taken = 0
    for pair in np.random.default_rng(seed).permutation(len(keys)).tolist():
        if taken == wanted:
            break
        one, other = ends[pair]
        if neighbours[one] > 1 and neighbours[other] > 1:
            neighbours[one] -= 1
            neighbours[other] -= 1
            held[pair] = True
            taken += 1
    return triples[~held[pair_of]], triples[held[pair_of]]


def evaluate(vectors: Translation, held_out: np.ndarray, known: np.ndarray, norm: int) -> Prediction:
    """Predict the tail and the head of held-out triples. Shapes: held_out int32 [H, 3], known int32 [E, 3]."""
    heads, tails = (ranks(vectors, held_out, known, norm, side) for side in (0, 2))  # [2, H] each
    every, every_raw = np.concatenate([heads, tails], axis=1)  # [2 H]
    return Prediction(
        len(held_out),
        float((every <= 1).mean()),
        float((every <= 10).mean()),
        float((1 / every).mean()),
        float((every_raw <= 10).mean()),
        float((tails[0] <= 10).mean()),
        float((heads[0] <= 10).mean()),
    )


def ranks(vectors: Translation, held_out: np.ndarray, known: np.ndarray, norm: int, side: int) -> np.ndarray:
    """Filtered and raw ranks of the heads (side 0) or tails (side 2) of triples, float64 [2, H]."""
    from rerank_plugin.knowledge.transe_step import distances as fill_distances

    entities, relations = vectors
    answers = defaultdict(list)  # the correct entities for each given entity and relation
    for given, relation, answer in known[:, [2 - side, 1, side]].tolist():
        answers[given, relation].append(answer)
    found = np.empty((2, len(held_out)))
    space = np.empty((BATCH, len(entities)), np.float32)
    for begin in range(0, len(held_out), BATCH):
        batch = held_out[begin : begin + BATCH].astype(np.int64)  # [B, 3]
        points = entities[batch[:, 2 - side]] + np.float32(side - 1) * relations[batch[:, 1]]  # [B, D]
        distances = space[: len(batch)]  # [B, C]
        fill_distances(points, entities, norm, distances)
        own = distances[np.arange(len(batch)), batch[:, side]].copy()  # [B]
        for i, (triple, distance) in enumerate(zip(batch.tolist(), own)):
            found[1, begin + i] = _rank(distances[i], distance)
            others = answers[triple[2 - side], triple[1]]
            distances[i, others] = np.inf
            distances[i, triple[side]] = distance
            found[0, begin + i] = _rank(distances[i], distance)
    return found


def _rank(distances: np.ndarray, own: float) -> float:
    """The mean rank among ties: one plus the nearer entities plus half of the other entities at the same distance."""
    return 1 + int((distances < own).sum()) + (int((distances == own).sum()) - 1) / 2
