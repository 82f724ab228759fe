"""Losses over scores, and the weights of their examples."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional


def pairwise_hinge(better: Tensor, worse: Tensor, weights: Tensor) -> Tensor:
    """Weighted maximum-margin loss ``mean(w * max(0, 1 - s+ + s-))`` ([D18] 3.4); float [B] each, result scalar.

    The margin is applied to each pair before the mean.
    """
    return (weights * (1 - better + worse).clamp_min(0)).mean()


def relevance_weights(better: Tensor, worse: Tensor) -> Tensor:
    """``sqrt(rel+ - rel-)``, the weight of a pair by the relevance of its documents ([D18] 4.2.1); float [B]."""
    return (better - worse).sqrt()


def binary_cross_entropy(scores: Tensor, relevant: Tensor, weights: Tensor) -> Tensor:
    """Weighted mean of ``-log p`` of the right class, p the sigmoid of the score ([D17] 4.6).

    Args:
        scores: logits, float [...]. relevant: bool, of the same shape. weights: float, of the same shape.
    """
    return functional.binary_cross_entropy_with_logits(scores, relevant.to(scores.dtype), weights)


def log_weights(relevance: Tensor) -> Tensor:
    """``max(1, log(1 + r))`` ([D17] 4.6); float, of the shape of ``relevance``."""
    return relevance.clamp_min(0).log1p().clamp_min(1)


def root_weights(relevance: Tensor) -> Tensor:
    """``max(1, sqrt(r))``: the square root of [D18] 4.3.3, where a document that is not relevant has weight 1, too."""
    return relevance.clamp_min(1).sqrt()
