"""KNRM as it is served: the same scores as :class:`~rerank_plugin.models.knrm.model.Knrm`.

What a document word adds to the soft-TF of a query word depends on these two words only. So the kernels are computed
once for each distinct word of the candidates, and a document's soft-TF is a sum of rows of that table. Logarithms that
are only added up are the logarithm of a product: one a kernel, not one a kernel and query word.

The loops that count are used by :mod:`rerank_plugin.models.conv_knrm.fused`, too. In shapes K are the kernels.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from rerank_plugin.features.inputs import InputBuilder, ModelQuery
from rerank_plugin.features.interactions import UnitVectors, candidate_words, similarity_table
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import IndexQuery
from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.compiling import njit
from rerank_plugin.kernels.dense_layers import numbers
from rerank_plugin.kernels.exponential import exponential
from rerank_plugin.kernels.parallel import split
from rerank_plugin.models.fast_paths import FastPath
from rerank_plugin.models.knrm.model import DEVIATIONS, KERNELS, LOG_SCALE, MEANS, SMALLEST_COUNT, Knrm

KERNEL_LANES = 16  # kernels with padding: two vectors of 8
FACTORS = 16  # counts that are multiplied before a logarithm is taken: from 1e-160, far from the end of float64
_MEANS = np.array([*MEANS, *[0.0] * (KERNEL_LANES - KERNELS)], np.float32)
_SHARPNESS = np.array([-0.5 / deviation**2 for deviation in DEVIATIONS] + [0.0] * (KERNEL_LANES - KERNELS), np.float32)
_SMALLEST_COUNT = np.float32(SMALLEST_COUNT)


def table_width(columns: int) -> int:
    """Columns of a table of kernels [U, width]: K a query word, and room for the lanes written beyond the last."""
    return -(-(columns * KERNELS + KERNEL_LANES - KERNELS) // 8) * 8


class FusedKnrm(FastPath):
    """Scores candidates as the module does."""

    def __init__(self, model: Knrm, builder: InputBuilder, threads: int):
        super().__init__(model, builder, threads)
        self.vectors = UnitVectors(model.vectors)
        self.weights = numbers(model.layer.weight)[0].astype(np.float64) * LOG_SCALE  # [K]
        self.bias = model.layer.bias.item()

    def score(self, terms: IndexQuery, query: ModelQuery, candidates: Candidates) -> np.ndarray:
        count = int(query.mask.sum())  # m
        words = candidate_words(self.builder, candidates, self.workspace)
        similarities = similarity_table(self.vectors, query, words, self.workspace, self.threads)  # [U, m]
        width = table_width(count)
        table = self.workspace.array("kernels", (len(words.ids), width), np.float32)
        scores = np.empty(len(candidates), np.float32)

        def documents(start: int, stop: int) -> None:
            counts = self.workspace.array("counts", (width,), np.float32)
            _score_documents(
                table, words.places, words.lengths, count, self.weights, self.bias, counts, scores, start, stop
            )

        split(partial(_word_kernels, similarities, table), len(words.ids), self.threads, smallest=256)
        split(documents, len(candidates), self.threads, smallest=32)
        return scores


@njit(nogil=True, cache=True, forceinline=True)
def write_kernels(similarity, row, start):
    """The kernels of one similarity, from ``row[start]`` on: KERNEL_LANES numbers, the first K of them kernels."""
    for kernel in range(KERNEL_LANES):
        distance = similarity - _MEANS[kernel]
        row[start + kernel] = exponential(distance * distance * _SHARPNESS[kernel])


@njit(nogil=True, cache=True)
def _word_kernels(similarities, table, start, stop):
    """Rows start..stop of the table of kernels, float32 [U, table_width(m)], from similarities float32 [U, m]."""
    for word in range(start, stop):
        row = table[word]
        for column in range(similarities.shape[1]):
            write_kernels(similarities[word, column], row, column * KERNELS)
        row[similarities.shape[1] * KERNELS :] = 0.0  # columns that mean nothing, but are added up with the others


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def add_rows(table, places, count, sums):
    """``sums = table[places[:count]].sum(axis=0)``, four rows at a time; table float32 [U, width]."""
    width = len(sums)
    sums[:] = 0.0
    for position in range(0, count - 3, 4):
        first, second = table[places[position]], table[places[position + 1]]
        third, fourth = table[places[position + 2]], table[places[position + 3]]
        for i in range(width):
            sums[i] += (first[i] + second[i]) + (third[i] + fourth[i])
    for position in range(count - count % 4, count):
        row = table[places[position]]
        for i in range(width):
            sums[i] += row[i]


@njit(nogil=True, cache=True)
def weighted_logarithms(counts, first, last, weights):
    """``sum_k weights[k] sum_j ln(max(counts[j, k], 1e-10))`` over the query words j of first..last.

    counts: float32 [m * K or more], K numbers for each query word. weights: float64 [K].
    """
    total = 0.0
    for kernel in range(KERNELS):
        for begin in range(first, last, FACTORS):
            product = 1.0
            for column in range(begin, min(begin + FACTORS, last)):
                count = counts[column * KERNELS + kernel]
                product *= _SMALLEST_COUNT if count < _SMALLEST_COUNT else count  # NaN stays NaN
            total += weights[kernel] * math.log(product)
    return total


@njit(nogil=True, cache=True)
def _score_documents(table, places, lengths, columns, weights, bias, counts, scores, start, stop):
    """Scores of candidates start..stop; table float32 [U, width], ``columns`` is m, ``counts`` scratch [width]."""
    for candidate in range(start, stop):
        add_rows(table, places[candidate], lengths[candidate], counts)
        scores[candidate] = math.tanh(bias + weighted_logarithms(counts, 0, columns, weights))
