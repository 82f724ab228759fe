"""Training objectives: how examples are sampled for an epoch, and the loss of their scores.

An objective takes the names of its weights and its sampling (:data:`rerank_plugin.training.config.LOSSES`).

Letters in shapes: n examples, k documents of an example (2 of a pair, 1 of a single document).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rerank_plugin.training.pairs import Examples, Pool, draw_documents, draw_pairs, draw_pairs_by_groups

Sampling = Callable[[Sequence[Pool], int, np.random.Generator], Examples]
SAMPLINGS: dict[str, Sampling] = {"balanced": draw_pairs, "groups": draw_pairs_by_groups}  # of pairs


class Objective(Protocol):
    """A sampling of :mod:`rerank_plugin.training.pairs`, and the loss of its examples."""

    draw: Sampling

    def loss(self, scores: Tensor, relevance: Tensor) -> Tensor:
        """The mean loss of a batch, a scalar; scores and relevance of its documents are float [k, n] each."""


def pairwise_hinge(better: Tensor, worse: Tensor, weights: Tensor) -> Tensor:
    """Weighted maximum-margin loss ``mean(w * max(0, 1 - s+ + s-))`` ([D18] 3.4); float [B] each, result scalar.

    The margin is applied to each pair before the mean.
    """
    return (weights * (1 - better + worse).clamp_min(0)).mean()


def relevance_weights(better: Tensor, worse: Tensor) -> Tensor:
    """``sqrt(rel+ - rel-)``, the weight of a pair by the relevance of its documents ([D18] 4.2.1); float [B]."""
    return (better - worse).sqrt()


class PairwiseHinge:
    """Maximum margin over pairs ([D18] 3.4, [P] equation 1), weighted by relevance or equally ([D18] 4.2.1)."""

    def __init__(self, weights: str, sampling: str):
        self.weighted = weights == "sqrt"
        self.draw = SAMPLINGS[sampling]

    def loss(self, scores: Tensor, relevance: Tensor) -> Tensor:
        (better, worse), (more, less) = scores, relevance
        weights = relevance_weights(more, less) if self.weighted else torch.ones_like(more)
        return pairwise_hinge(better, worse, weights)


class PairwiseMargin:
    """Mean squared error of the difference of two documents' scores from that of their relevance (margin-MSE)."""

    def __init__(self, weights: str, sampling: str):
        self.draw = SAMPLINGS[sampling]

    def loss(self, scores: Tensor, relevance: Tensor) -> Tensor:
        return functional.mse_loss(scores[0] - scores[1], relevance[0] - relevance[1])


class Classification:
    """Binary cross-entropy over as many relevant as non-relevant single documents ([D17] 3.1 and 4.6).

    A relevant document of relevance r weighs max(1, log(1 + r)) with ``log`` ([D17] 4.6), max(1, sqrt(r)) with ``sqrt``
    ([D18] 4.3.3) and 1 with ``none``; a non-relevant document weighs 1.
    """

    WEIGHTS = {
        "log": lambda relevance: relevance.clamp_min(0).log1p().clamp_min(1),
        "sqrt": lambda relevance: relevance.clamp_min(1).sqrt(),
        "none": torch.ones_like,
    }

    def __init__(self, weights: str, sampling: str):
        self.weigh = self.WEIGHTS[weights]
        self.draw: Sampling = draw_documents

    def loss(self, scores: Tensor, relevance: Tensor) -> Tensor:
        relevant = (relevance > 0).to(scores.dtype)
        return functional.binary_cross_entropy_with_logits(scores, relevant, self.weigh(relevance))


# By the name of the loss.
OBJECTIVES: dict[str, Callable[[str, str], Objective]] = {
    "hinge": PairwiseHinge,
    "margin": PairwiseMargin,
    "bce": Classification,
}
