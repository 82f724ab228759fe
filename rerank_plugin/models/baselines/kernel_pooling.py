"""Kernel pooling, shared by KNRM and Conv-KNRM: soft counts of similarities, their features, and their attribution.

In shapes K are the kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rerank_plugin.models.attribution import Attribution, of_cells

# Means and standard deviations of the kernels: exact matches first, then 0.9, 0.7 .. -0.9 (section 4.3).
MEANS = (1.0, *(step / 10 for step in range(9, -10, -2)))
DEVIATIONS = (1e-3, *[0.1] * 10)
KERNELS = len(MEANS)
SMALLEST_COUNT = 1e-10
LEAST_EXPONENT = -80.0  # far below the smallest count; a power that underflows takes ten times as long
LOG_SCALE = 0.01
SMALLEST_CHANGE = 1e-12  # below it the slope between two points is the derivative


def soft_counts(similarities: Tensor, document_mask: Tensor) -> Tensor:
    """Soft-TF of each query word (equation 'K_k(M_i)'): document words in the reach of each kernel, float [B, M, K].

    similarities: float [B, M, N]. document_mask: bool [B, N], False for words that are not counted.
    """
    present = document_mask[:, None, :]  # [B, 1, N]
    counts = []
    for mean, deviation in zip(MEANS, DEVIATIONS):
        exponents = (similarities - mean) ** 2 * (-0.5 / deviation**2)  # [B, M, N]
        closeness = exponents.clamp_min(LEAST_EXPONENT).exp()  # [B, M, N]
        counts.append((closeness * present).sum(dim=2))  # [B, M]
    return torch.stack(counts, dim=2)


def kernel_features(counts: Tensor, query_mask: Tensor) -> Tensor:
    """The soft-TF features of a query (equation 'phi(M)'), float [B, K], from counts [B, M, K] and mask bool [B, M]."""
    logarithms = counts.clamp_min(SMALLEST_COUNT).log() * LOG_SCALE  # [B, M, K]
    return (logarithms * query_mask[:, :, None]).sum(dim=1)


def without_matches(query_mask: Tensor, weights: Tensor) -> Tensor:
    """The sum before tanh without bias and without matches: a scalar, from a mask bool [1, M] and weights float [K]."""
    return query_mask.sum() * weights.sum() * np.log(SMALLEST_COUNT) * LOG_SCALE


def kernel_cells(similarities: Tensor, document_mask: Tensor, query_mask: Tensor, weights: Tensor) -> Tensor:
    """The contribution of each cell to the sum before tanh, float [M, N].

    The arguments are those of `soft_counts` with B = 1, a query mask bool [1, M] and weights float [K].
    """
    counts = soft_counts(similarities, document_mask)[0].clamp_min(SMALLEST_COUNT)  # [M, K]
    gained = (counts.log() - np.log(SMALLEST_COUNT)) * LOG_SCALE * query_mask[0, :, None]  # [M, K]
    single = similarities.flatten(1)[:, :, None]  # [1, M * N, 1]: the count of each cell alone
    closeness = soft_counts(single, torch.ones_like(document_mask[:, :1])).view(
        *similarities.shape[1:], -1
    )  # [M, N, K]
    shares = closeness * document_mask[0, :, None] / counts[:, None, :]  # [M, N, K]
    return (shares * (gained * weights)[:, None, :]).sum(dim=2)


def tanh_attribution(start: float, cells: Tensor, **attributes: Any) -> Attribution:
    """The attribution of tanh of ``start`` plus all cells, float64 [M, N]; ``attributes`` are the other attributes."""
    change = float(cells.sum())
    slope = (
        (np.tanh(start + change) - np.tanh(start)) / change
        if abs(change) > SMALLEST_CHANGE
        else 1 - np.tanh(start) ** 2
    )
    return of_cells(float(np.tanh(start)), cells.numpy() * slope, exact=True, **attributes)
