"""The windows that PACRR's kwindow keeps, in compiled code: the module's choice, window by window.

In shapes U are the candidates' distinct words and m the words of the query.
"""

from __future__ import annotations

import math

import numpy as np

from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.compiling import njit
from rerank_plugin.models.pacrr.model import PARTS, SIMILARITY_STEPS

NEAR = 1 / 32  # of a step: far above the rounding errors of a cosine in float32


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def precise_cosine(numbers, scale, query, length):
    """The cosine of a vector of float32 numbers, and of a query word's vector, float64 [D] of this length."""
    product = square = 0.0
    for i in range(len(query)):
        number = np.float64(np.float32(numbers[i] * scale))
        product += number * query[i]
        square += number * number
    return product / (math.sqrt(square) * length)


@njit(nogil=True, cache=True)
def closest_steps(table, numbers, scales, ids, queries, lengths, steps, start, stop):
    """The similarity of words start..stop to their closest query word, in whole steps, as the module computes it.

    Only a similarity near the border of two steps is computed again, in double precision.

    Args:
        table: float32 [U, m]. numbers, scales: of :class:`ComparedVectors`. ids: int32 [U], rows of ``numbers``.
        queries, lengths: the vectors of the query words, float64 [m, D], and their lengths. steps: int32 [U], to be
            filled.
    """
    for word in range(start, stop):
        value = table[word, 0]
        for column in range(1, len(queries)):
            value = max(value, table[word, column])
        similarity = np.float64(value) * SIMILARITY_STEPS
        if abs(similarity - np.floor(similarity) - 0.5) < NEAR:
            largest = -1.0
            for column in range(len(queries)):
                if table[word, column] * SIMILARITY_STEPS > similarity - 2 * NEAR:
                    row = ids[word]
                    largest = max(largest, precise_cosine(numbers[row], scales[row], queries[column], lengths[column]))
            similarity = np.rint(largest * (SIMILARITY_STEPS * PARTS)) / PARTS
        steps[word] = np.int32(np.floor(similarity + 0.5))


@njit(nogil=True, cache=True)
def choose(similarities, length, words, room, sums, chosen):
    """Write the starts of the ``room`` windows with the largest sums to ``chosen``, ascending; return their number.

    The first of equal sums are chosen. ``sums`` is scratch, int32, at least one number per word.
    """
    windows = max(0, length - words + 1)
    if windows <= room:
        for window in range(windows):
            chosen[window] = window
        return windows
    smallest, largest = np.int32(0), np.int32(0)
    for window in range(windows):
        total = np.int32(0)
        for word in range(words):
            total += similarities[window + word]
        sums[window] = total
        smallest, largest = min(smallest, total), max(largest, total)
    threshold = _largest_threshold(sums[:windows], room, smallest, largest)
    equal = room - _count_from(sums[:windows], threshold + 1)
    count = 0
    for window in range(windows):
        if sums[window] == threshold:
            equal -= 1
        if sums[window] > threshold or (sums[window] == threshold and equal >= 0):
            chosen[count] = window
            count += 1
    return count


@njit(nogil=True, cache=True)
def _largest_threshold(sums, room, smallest, largest):
    """The largest threshold that at least ``room`` sums reach; sums are between ``smallest`` and ``largest``."""
    reached, missed = np.int64(smallest), np.int64(largest) + 1
    while missed - reached > 1:
        middle = (reached + missed) // 2
        if _count_from(sums, middle) >= room:
            reached = middle
        else:
            missed = middle
    return reached


@njit(nogil=True, cache=True)
def _count_from(sums, threshold):
    """The number of sums that reach the threshold."""
    threshold, count = np.int32(threshold), np.int32(0)
    for value in sums:
        count += np.int32(value >= threshold)
    return count
