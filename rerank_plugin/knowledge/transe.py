"""TransE: vectors of concepts and relations from the graph of a vocabulary ([K] 4.2).

A. Bordes, N. Usunier, A. Garcia-Duran, J. Weston, O. Yakhnenko. Translating embeddings for modeling multi-relational
data. NIPS 2013. The vector of a head plus that of the relation should come near the vector of the tail: algorithm 1,

    loss = sum over triples (h, r, t) and a corruption (h', r, t') of  [margin + d(h + r, t) - d(h' + r, t')]+

where d is the L1 norm or the square of the L2 norm, a corruption has another head or another tail, drawn at random, and
entity vectors have length 1. [K] takes 200 dimensions and says no more; the rest is chosen here by link prediction on
MeSH. Three things that go beyond the paper are on by default, because without them little is predicted there:

* Relation vectors are kept from growing longer than 1 (``relation_length``; 0 leaves them free, as the paper does).
  Entities lie within a distance of 2, so in a graph with one relation a long vector tells leaves from the others and
  drowns everything else.
* Which side is corrupted follows how many heads a tail has, and the other way round (``bernoulli``: Z. Wang et al.,
  Knowledge graph embedding by translating on hyperplanes, AAAI 2014), else each is in half of the cases.
* The learning rate falls to 0 in equal steps (``decay``).

A concept without any relation starts in a random direction and is updated only as a corruption. So its vector, of
length 1 like the others, is near to no other, and such concepts do not share one vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.settings import setting

DRAWN = 100_000  # triples for which corruptions are drawn at once


@dataclass(frozen=True)
class TransEConfig:
    """Defaults beyond [K]'s dimension: the best hits@10 on held-out relations of MeSH among those tried."""

    dimension: int = setting(200, "dimension of the vectors")
    epochs: int = setting(40, "passes over the relations")
    margin: float = setting(3.0, "margin of the loss: how much farther a corruption should be")
    learning_rate: float = setting(0.04, "learning rate of stochastic gradient descent")
    batch_size: int = setting(4, "relations of each step")
    negatives: int = setting(5, "corruptions of each relation")
    norm: int = setting(2, "distance: L1, or L2 squared", choices=(1, 2))
    relation_length: float = setting(1.0, "largest length of a relation's vector; 0 for no limit, as in the paper")
    decay: bool = setting(True, "decay the learning rate to 0")
    bernoulli: bool = setting(True, "Bernoulli negative sampling")


class Translation(NamedTuple):
    """Entity vectors float32 [C, D], of length 1, and relation vectors float32 [R, D]."""

    entities: np.ndarray
    relations: np.ndarray


def train(
    triples: np.ndarray,
    entity_count: int,
    relation_count: int,
    config: TransEConfig,
    seed: int,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> Translation:
    """Train on triples int32 [E, 3] (head, relation, tail); the same seed gives the same vectors.

    Raises:
        InputError: there is no triple, or the training diverged.
    """
    if not len(triples):
        raise InputError("the knowledge base has no relation to learn from")
    random = np.random.default_rng(seed)
    vectors = start(entity_count, relation_count, config.dimension, random)
    corruption = Corruption(triples, entity_count, relation_count, config, random)
    for epoch in progress(range(config.epochs)):
        rate = config.learning_rate * (1 - epoch / config.epochs if config.decay else 1)
        _epoch(vectors, triples, corruption, config, rate, random)
    if not all(np.isfinite(matrix).all() for matrix in vectors):
        raise InputError("the vectors became infinite: lower the learning rate")
    return vectors


def start(entity_count: int, relation_count: int, dimension: int, random: np.random.Generator) -> Translation:
    """Uniform in [-6 / sqrt D, 6 / sqrt D], then normalized: relations only now, entities always (algorithm 1)."""
    bound = 6 / np.sqrt(dimension)
    relations = random.uniform(-bound, bound, (relation_count, dimension)).astype(np.float32)  # [R, D]
    entities = random.uniform(-bound, bound, (entity_count, dimension)).astype(np.float32)  # [C, D]
    for matrix in (relations, entities):
        matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    return Translation(entities, relations)


def _epoch(
    vectors: Translation, triples: np.ndarray, corruption: Corruption, config: TransEConfig, rate: float, random
):
    """One pass over the triples in a new order, at this learning rate."""
    from rerank_plugin.knowledge.transe_step import steps

    order = random.permutation(len(triples))
    at_once = max(1, DRAWN // config.batch_size) * config.batch_size
    batch = config.batch_size * config.negatives
    settings = (float(config.margin), float(rate), config.norm, float(config.relation_length or np.inf))
    for begin in range(0, len(order), at_once):
        positives = np.repeat(triples[order[begin : begin + at_once]], config.negatives, axis=0)  # [N, 3]
        steps(*vectors, positives, corruption.of(positives), batch, *settings)


class Corruption:
    """Draws corrupted triples."""

    def __init__(self, triples: np.ndarray, entity_count: int, relation_count: int, config: TransEConfig, random):
        self.entity_count, self.random = entity_count, random
        self.head_share = np.full(relation_count, 0.5)  # [R], how often the head is the one that is replaced
        if config.bernoulli:
            self.head_share = head_shares(triples, relation_count)

    def of(self, positives: np.ndarray) -> np.ndarray:
        """A corruption of each triple, int32 [B, 3]. Shapes: positives int32 [B, 3]."""
        negatives = positives.copy()
        heads = self.random.random(len(negatives)) < self.head_share[negatives[:, 1]]
        drawn = self.random.integers(0, self.entity_count, len(negatives), dtype=np.int32)
        negatives[np.arange(len(negatives)), np.where(heads, 0, 2)] = drawn
        return negatives


def head_shares(triples: np.ndarray, relation_count: int) -> np.ndarray:
    """tph / (tph + hpt) of each relation, float64 [R], of tails per head and heads per tail (Wang et al. 2014, 3)."""
    shares = np.full(relation_count, 0.5)
    for relation in range(relation_count):
        of_it = triples[triples[:, 1] == relation]
        if len(of_it):
            tails_per_head, heads_per_tail = (len(of_it) / len(np.unique(of_it[:, column])) for column in (0, 2))
            shares[relation] = tails_per_head / (tails_per_head + heads_per_tail)
    return shares
