"""Triton kernels for NVIDIA GPUs: what torch does in several kernels, each of which writes and reads all values.

Import this module only on a GPU: PyTorch's builds for CUDA bring Triton, those for the CPU do not. With
``TRITON_INTERPRET=1`` the kernels run on a CPU, to test them.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 64  # windows or words of a program
LEAST = 16  # rows and columns of a matrix product


@triton.jit
def _strongest_filter(
    matrix, weights, bias, strongest, rows, columns, windows, stride, above, before,
    SIZE: tl.constexpr, CELLS: tl.constexpr, FILTERS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One row of one document: matrix [B, rows, columns], weights [CELLS, FILTERS], strongest [B, rows, windows]."""
    row = tl.program_id(0)
    window = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    cell, filters = tl.arange(0, CELLS), tl.arange(0, FILTERS)
    at = row % rows - above + cell // SIZE  # [CELLS]
    column = (window * stride - before)[:, None] + (cell % SIZE)[None, :]  # [BLOCK, CELLS]
    inside = ((cell < SIZE * SIZE) & (at >= 0) & (at < rows))[None, :] & (column >= 0) & (column < columns)
    first = (row // rows).to(tl.int64) * rows * columns
    values = tl.load(matrix + first + at[None, :] * columns + column, mask=inside, other=0.0)
    kernel = tl.load(weights + cell[:, None] * FILTERS + filters[None, :])
    found = tl.dot(values, kernel, input_precision="ieee") + tl.load(bias + filters)[None, :]  # [BLOCK, FILTERS]
    highest = tl.maximum(tl.max(found, axis=1), 0.0)
    tl.store(strongest + row.to(tl.int64) * windows + window, highest, mask=window < windows)


def strongest_filter(
    weight: Tensor, bias: Tensor, matrix: Tensor, stride: int, above: int, before: int, behind: int
) -> Tensor:
    """The maximum of ReLUs over the filters of a convolution over each matrix, float32 [B, M, W].

    Args:
        weight: float32 [F, 1, n, n]. bias: float32 [F].
        matrix: float32 [B, M, N].
        stride: between the columns of windows.
        above, before, behind: zeros that filters read above a row, and before and behind the columns.
    """
    filters, size = len(weight), weight.shape[2]
    batch, rows, columns = matrix.shape
    windows = (columns + before + behind - size) // stride + 1
    cells, padded = (max(LEAST, triton.next_power_of_2(count)) for count in (size * size, filters))
    weights, biases = matrix.new_zeros(cells, padded), matrix.new_full((padded,), -torch.inf)
    weights[: size * size, :filters], biases[:filters] = weight.flatten(1).T, bias
    strongest = matrix.new_empty(batch, rows, windows)
    _strongest_filter[batch * rows, triton.cdiv(windows, BLOCK)](
        matrix.contiguous(), weights, biases, strongest, rows, columns, windows, stride, above, before,
        SIZE=size, CELLS=cells, FILTERS=padded, BLOCK=BLOCK,
    )  # fmt: skip
    return strongest + 0 * (weight.sum() + bias.sum())  # a maximum leaves out weights that are no numbers


@triton.jit
def _soft_counts(
    similarities, present, means, factors, counts, rows, columns, batch_step, row_step, column_step, least,
    KERNELS: tl.constexpr, PADDED: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One row of one document: similarities [B, rows, columns] with these steps, counts [B, rows, KERNELS]."""
    row, kernel = tl.program_id(0), tl.arange(0, PADDED)
    document, known = (row // rows).to(tl.int64), kernel < KERNELS
    mean, factor = tl.load(means + kernel, mask=known, other=0.0), tl.load(factors + kernel, mask=known, other=0.0)
    total = tl.zeros([PADDED], tl.float32)
    start = similarities + document * batch_step + (row % rows) * row_step
    for first in tl.static_range(0, WIDTH, BLOCK):
        column = first + tl.arange(0, BLOCK)
        counted = (tl.load(present + document * columns + column, mask=column < columns, other=0) != 0).to(tl.float32)
        values = tl.load(start + column * column_step, mask=column < columns, other=0.0)
        distance = values[:, None] - mean[None, :]
        exponent = distance * distance * factor[None, :]
        exponent = tl.where(exponent < least, least, exponent)  # NaN stays NaN
        total += tl.sum(tl.exp(exponent) * counted[:, None], axis=0)
    tl.store(counts + row.to(tl.int64) * KERNELS + kernel, total, mask=known)


def soft_counts(similarities: Tensor, mask: Tensor, means: Tensor, factors: Tensor, least: float) -> Tensor:
    """The sums over words of ``exp(max((similarity - mean)^2 * factor, least))``, float32 [B, M, K].

    Args:
        similarities: float32 [B, M, N]. mask: bool [B, N], of the words that are counted.
        means, factors: float32 [K].
    """
    batch, rows, columns = similarities.shape
    counts = similarities.new_empty(batch, rows, len(means))
    _soft_counts[(batch * rows,)](
        similarities, mask.contiguous().view(torch.uint8), means, factors, counts, rows, columns,
        *similarities.stride(), least, KERNELS=len(means), PADDED=triton.next_power_of_2(len(means)),
        WIDTH=triton.next_power_of_2(max(columns, BLOCK)), BLOCK=BLOCK,
    )  # fmt: skip
    return counts
