"""Training objectives: how examples are sampled for an epoch, and the loss of their scores.

Letters in shapes: n examples, k documents of an example (2 of a pair, 1 of a single document).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rerank_plugin.training.config import check_objective
from rerank_plugin.training.pairs import Examples, Pool, draw_documents, draw_pairs, draw_pairs_by_groups

SAMPLINGS = {"balanced": draw_pairs, "groups": draw_pairs_by_groups}  # of pairs


def pairwise_hinge(better: Tensor, worse: Tensor, weights: Tensor) -> Tensor:
    """Weighted maximum-margin loss ``mean(w * max(0, 1 - s+ + s-))`` ([D18] 3.4); float [B] each, result scalar.

    The margin is applied to each pair before the mean.
    """
    return (weights * (1 - better + worse).clamp_min(0)).mean()


def relevance_weights(better: Tensor, worse: Tensor) -> Tensor:
    """``sqrt(rel+ - rel-)``, the weight of a pair by the relevance of its documents ([D18] 4.2.1); float [B]."""
    return (better - worse).sqrt()


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

    def __init__(self, weights: str, sampling: str):
        self.weighted = weights == "sqrt"
        self.draw = SAMPLINGS[sampling]

    def loss(self, scores: Tensor, relevance: Tensor) -> Tensor:
        (better, worse), (more, less) = scores, relevance
        weights = relevance_weights(more, less) if self.weighted else torch.ones_like(more)
        return pairwise_hinge(better, worse, weights)


class PairwiseMargin:
    """Mean squared error of the difference of two documents' scores, against that of their relevance (margin-MSE)."""

    def __init__(self, weights: str, sampling: str):
        self.draw = SAMPLINGS[sampling]

    def loss(self, scores: Tensor, relevance: Tensor) -> Tensor:
        return functional.mse_loss(scores[0] - scores[1], relevance[0] - relevance[1])


class Classification:
    """Binary cross-entropy over single documents, with equal numbers of relevant and other ones ([D17] 3.1 and 4.6).

    A relevant document of relevance r weighs max(1, log(1 + r)) with ``log`` ([D17] 4.6), max(1, sqrt(r)) with ``sqrt``
    ([D18] 4.3.3) and 1 with ``none``; a document that is not relevant weighs 1.
    """

    WEIGHTS = {
        "log": lambda relevance: relevance.clamp_min(0).log1p().clamp_min(1),
        "sqrt": lambda relevance: relevance.clamp_min(1).sqrt(),
        "none": torch.ones_like,
    }

    def __init__(self, weights: str, sampling: str):
        self.weigh, self.draw = self.WEIGHTS[weights], draw_documents

    def loss(self, scores: Tensor, relevance: Tensor) -> Tensor:
        relevant = (relevance > 0).to(scores.dtype)
        return functional.binary_cross_entropy_with_logits(scores, relevant, self.weigh(relevance))


def objective(loss: str, weights: str, sampling: str = "balanced") -> Objective:
    """The objective with this loss, weighting and sampling, by name.

    Raises:
        InputError: there is no such loss, or it has no such weights or sampling.
    """
    check_objective(loss, weights, sampling)
    kinds = {"hinge": PairwiseHinge, "margin": PairwiseMargin, "bce": Classification}
    return kinds[loss](weights, sampling)
