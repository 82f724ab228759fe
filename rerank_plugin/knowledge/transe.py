"""TransE: vectors of concepts and relations from the graph of a vocabulary ([K] 4.2).

A. Bordes, N. Usunier, A. Garcia-Duran, J. Weston, O. Yakhnenko. Translating embeddings for modeling multi-relational
data. NIPS 2013. The sum of the vectors of head and relation should be close to the vector of the tail: algorithm 1,

    loss = sum over triples (h, r, t) and a corruption (h', r, t') of  [margin + d(h + r, t) - d(h' + r, t')]+

where d is the L1 norm or the square of the L2 norm, a corruption has another head or another tail, drawn at random, and
entity vectors have length 1. [K] gives 200 dimensions only; we chose the other settings by link prediction on MeSH.
Three extensions of the paper are on by default, because link prediction is poor without them:

* The length of relation vectors is at most 1 (``relation_length``; 0 for no limit, as in the paper). The distance
  between entities is at most 2, so in a graph with one relation a long vector separates leaves from other entities and
  dominates everything else.
* Bernoulli negative sampling (``bernoulli``: Z. Wang et al., Knowledge graph embedding by translating on hyperplanes,
  AAAI 2014) corrupts heads or tails by their numbers per tail and head; otherwise each with probability 1/2.
* The learning rate decays linearly to 0 (``decay``).

A concept without relations starts in a random direction and is updated only as a corruption. So its vector, of length 1
like the others, is close to no other vector, and such concepts do not share a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.settings import check_bounds, setting

DRAWN = 100_000  # triples to draw corruptions for at once


@dataclass(frozen=True)
class TransEConfig:
    """Settings; the dimension is [K]'s, the other defaults had the best hits@10 on held-out relations of MeSH."""

    dimension: int = setting(200, "dimension of the vectors", ge=1)
    epochs: int = setting(40, "passes over the relations", ge=1)
    margin: float = setting(3.0, "margin of the loss between the distances of a relation and its corruption", gt=0)
    learning_rate: float = setting(0.04, "learning rate of stochastic gradient descent", gt=0)
    batch_size: int = setting(4, "relations of each step", ge=1)
    negatives: int = setting(5, "corruptions of each relation", ge=1)
    norm: int = setting(2, "distance: L1, or L2 squared", choices=(1, 2))
    relation_length: float = setting(
        1.0, "largest length of a relation's vector; 0 for no limit, as in the paper", ge=0
    )
    decay: bool = setting(True, "decay the learning rate to 0")
    bernoulli: bool = setting(True, "Bernoulli negative sampling")

    def __post_init__(self) -> None:
        check_bounds(self)


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
        InputError: there are no triples, or the training diverged.
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
        raise InputError("training diverged to infinite vectors: lower the learning rate")
    return vectors


def start(entity_count: int, relation_count: int, dimension: int, random: np.random.Generator) -> Translation:
    """Initial vectors, uniform in [-6 / sqrt D, 6 / sqrt D] and normalized; later steps normalize only entities."""
    bound = 6 / np.sqrt(dimension)
    relations = random.uniform(-bound, bound, (relation_count, dimension)).astype(np.float32)  # [R, D]
    entities = random.uniform(-bound, bound, (entity_count, dimension)).astype(np.float32)  # [C, D]
    for matrix in (relations, entities):
        matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    return Translation(entities, relations)


def _epoch(
    vectors: Translation,
    triples: np.ndarray,
    corruption: Corruption,
    config: TransEConfig,
    rate: float,
    random: np.random.Generator,
) -> None:
    """One pass over the triples in a new order, with this learning rate."""
    from rerank_plugin.knowledge.transe_step import steps

    order = random.permutation(len(triples))
    chunk = max(1, DRAWN // config.batch_size) * config.batch_size
    batch = config.batch_size * config.negatives
    settings = (float(config.margin), float(rate), config.norm, float(config.relation_length or np.inf))
    for begin in range(0, len(order), chunk):
        positives = np.repeat(triples[order[begin : begin + chunk]], config.negatives, axis=0)  # [N, 3]
        steps(*vectors, positives, corruption.draw(positives), batch, *settings)


class Corruption:
    """Draws corrupted triples (negative sampling)."""

    def __init__(
        self,
        triples: np.ndarray,
        entity_count: int,
        relation_count: int,
        config: TransEConfig,
        random: np.random.Generator,
    ):
        self.entity_count, self.random = entity_count, random
        self.head_share = np.full(relation_count, 0.5)  # [R], the probability of replacing the head
        if config.bernoulli:
            self.head_share = head_shares(triples, relation_count)

    def draw(self, positives: np.ndarray) -> np.ndarray:
        """A corruption of each triple, int32 [B, 3]. Shapes: positives int32 [B, 3]."""
        negatives = positives.copy()
        heads = self.random.random(len(negatives)) < self.head_share[negatives[:, 1]]
        entities = self.random.integers(0, self.entity_count, len(negatives), dtype=np.int32)
        negatives[np.arange(len(negatives)), np.where(heads, 0, 2)] = entities
        return negatives


def head_shares(triples: np.ndarray, relation_count: int) -> np.ndarray:
    """tph / (tph + hpt) for each relation, float64 [R]: tails per head, heads per tail (Wang et al. 2014, 3)."""
    shares = np.full(relation_count, 0.5)
    for relation in range(relation_count):
        of_relation = triples[triples[:, 1] == relation]
        if count := len(of_relation):
            tails_per_head, heads_per_tail = (count / len(np.unique(of_relation[:, column])) for column in (0, 2))
            shares[relation] = tails_per_head / (tails_per_head + heads_per_tail)
    return shares
