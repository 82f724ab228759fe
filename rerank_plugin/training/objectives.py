"""Training objectives: how examples are sampled for an epoch, and the loss of their scores.

Letters in shapes: n examples, k documents of an example (2 for a pair, 1 for a single document).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from rerank_plugin.files.errors import InputError
from rerank_plugin.training.losses import (
    binary_cross_entropy,
    log_weights,
    pairwise_hinge,
    relevance_weights,
    root_weights,
)
from rerank_plugin.training.pairs import Pool, draw_documents, draw_pairs, draw_pairs_by_groups


class Examples(NamedTuple):
    """The examples of an epoch, in random order.

    Attributes:
        pool: number of the query's pool, int64 [n].
        places: positions of the documents in the pool, int64 [k, n]; in a pair the more relevant one is first.
    """

    pool: np.ndarray
    places: np.ndarray


class Objective(Protocol):
    """A training objective: a sampling of examples and a loss."""

    def draw(self, pools: Sequence[Pool], at_most: int, generator: np.random.Generator) -> Examples:
        """Examples for an epoch; ``at_most`` bounds their number for each query, with ``groups`` only on average."""
        ...

    def loss(self, scores: Tensor, relevance: Tensor) -> Tensor:
        """The mean loss of a batch: float [k, n] each to a scalar."""
        ...


class PairwiseHinge:
    """Maximum margin over pairs ([D18] 3.4, [P] equation 1), weighted by relevance or equally ([D18] 4.2.1).

    Pairs are drawn ``balanced`` as [D18] does, or by ``groups`` as [P]: see :mod:`rerank_plugin.training.pairs`.
    """

    SAMPLINGS = {"balanced": draw_pairs, "groups": draw_pairs_by_groups}

    def __init__(self, weights: str = "sqrt", sampling: str = "balanced"):
        _check("hinge", "weights", weights, ("sqrt", "none"))
        _check("hinge", "sampling", sampling, tuple(self.SAMPLINGS))
        self.weighted = weights == "sqrt"
        self.draw_pairs = self.SAMPLINGS[sampling]

    def draw(self, pools: Sequence[Pool], at_most: int, generator: np.random.Generator) -> Examples:
        drawn = self.draw_pairs(pools, at_most, generator)
        return Examples(drawn.pool, np.stack([drawn.better, drawn.worse]))

    def loss(self, scores: Tensor, relevance: Tensor) -> Tensor:
        (better, worse), (more, less) = scores, relevance
        weights = relevance_weights(more, less) if self.weighted else torch.ones_like(more)
        return pairwise_hinge(better, worse, weights)


class Classification:
    """Binary cross-entropy over single documents, with equal numbers of relevant and other ones ([D17] 3.1 and 4.6).

    Weights are ``log``, max(1, log(1 + r)) of [D17] 4.6, ``sqrt``, max(1, sqrt(r)) for [D18] 4.3.3's square root, or
    ``none``. A document that is not relevant weighs 1.
    """

    WEIGHTS = {"log": log_weights, "sqrt": root_weights, "none": None}

    def __init__(self, weights: str = "none", sampling: str = "balanced"):
        _check("bce", "weights", weights, tuple(self.WEIGHTS))
        _check("bce", "sampling", sampling, ("balanced",))
        self.weigh = self.WEIGHTS[weights]

    def draw(self, pools: Sequence[Pool], at_most: int, generator: np.random.Generator) -> Examples:
        pool, places = draw_documents(pools, at_most, generator)
        return Examples(pool, places[None])

    def loss(self, scores: Tensor, relevance: Tensor) -> Tensor:
        weights = torch.ones_like(scores) if self.weigh is None else self.weigh(relevance)
        return binary_cross_entropy(scores, relevance > 0, weights)


OBJECTIVES = {"hinge": PairwiseHinge, "bce": Classification}


def objective(loss: str, weights: str, sampling: str = "balanced") -> Objective:
    """The objective with this loss, weighting and sampling, by name.

    Raises:
        InputError: there is no such loss, or it has no such weights or sampling.
    """
    if loss not in OBJECTIVES:
        raise InputError(f"unknown loss '{loss}'; known: {', '.join(OBJECTIVES)}")
    return OBJECTIVES[loss](weights, sampling)


def _check(loss: str, what: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise InputError(f"the loss '{loss}' has no {what} '{given}'; known: {', '.join(known)}")
