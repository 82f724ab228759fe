"""Losses over pairs of scores."""

from __future__ import annotations

from torch import Tensor


def pairwise_hinge(better: Tensor, worse: Tensor, weights: Tensor) -> Tensor:
    """Weighted maximum-margin loss ``mean(w * max(0, 1 - s+ + s-))`` ([D18] 3.4); float [B] each, result scalar.

    The margin is taken pair by pair before anything is averaged.
    """
    return (weights * (1 - better + worse).clamp_min(0)).mean()


def relevance_weights(better: Tensor, worse: Tensor) -> Tensor:
    """``sqrt(rel+ - rel-)``, the weight of a pair by the relevance of its documents ([D18] 4.2.1); float [B]."""
    return (better - worse).sqrt()
