"""The fast path of PACRR ([P] 2): the scores of :class:`~rerank_plugin.models.pacrr.model.Pacrr`.

The cosine of a word and a query term is computed once per distinct word of the candidates. A document is then a grid of
looked-up cosines, one row per query term, and most time is spent on the filters. Pooling makes most of it unnecessary:

* Pooling keeps only the maximum over the filters: LANES adjacent cells are computed for FILTERS filters at once, in
  registers, and only the maximum of each cell is written.
* Pooling keeps only the n_s largest cells of a query term. The value of a filter w with bias b for a window x is at
  most ``b + |w| |x|``. The filters are sorted by strength. The strongest ones are computed for all cells; a block of
  cells is finished as soon as the remaining filters cannot exceed the term's n_s largest values, often before the
  second group.
* Rows of the filters beyond the query are skipped.

The skipped computations do not change a single bit of a score.

In shapes n are the words of an n-gram, G groups of FILTERS filters and W the columns of a scratch grid.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types

from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import IndexQuery
from rerank_plugin.inputs.builder import InputBuilder, ModelQuery
from rerank_plugin.inputs.interactions import ComparedVectors, candidate_words, similarity_table
from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.compiling import njit
from rerank_plugin.kernels.intrinsics import (
    LANES,
    NUMBER,
    VECTOR,
    WHOLE,
    code,
    halves,
    larger,
    load_lanes,
    loop,
    multiply_add,
    repeat,
    store_lanes,
)
from rerank_plugin.kernels.parallel import split
from rerank_plugin.models.fast_paths import FastPath
from rerank_plugin.models.pacrr.model import PacrrConfig
from rerank_plugin.models.pacrr.windows import choose, closest_steps

RANKS = 2  # number of largest values selected in one pass
FILTERS = 4  # filters computed at once: FILTERS * LANES sums keep the CPU's multipliers busy
USUAL_TAPS = sorted({rows * words for words in (2, 3, 4) for rows in range(1, words + 1)})
ROUNDING = 1e-4  # relative increase of bounds: far above the rounding errors of sums of products in float32
SMALLEST_NORM = 1e-30  # of filters, to avoid division by zero


class Filters(NamedTuple):
    """The filters of all sizes, in groups of FILTERS; filters that can reach the largest values come first.

    Attributes:
        weights: float32, flat: the groups of each n from 2 to l_g; in each group FILTERS biases, and then FILTERS
            weights for each of its n * n taps. Filters are repeated up to a multiple of FILTERS.
        starts: index of the first weight of n, int64 [l_g + 1].
        bias, reach: float32 [l_g + 1, l_g + 1, l_g + 1, G]. With rows ``first`` to ``last - 1`` of their n, the filters
            of group g and of later groups have at most the value ``bias[n, first, last, g] + |x| / reach[...]`` for a
            window x.
    """

    weights: np.ndarray
    starts: np.ndarray
    bias: np.ndarray
    reach: np.ndarray


def pack_filters(convolutions: list[tuple[np.ndarray, np.ndarray]], filters: int) -> Filters:
    """Pack the filters of n = 2, 3, ..: weights float32 [filters, n, n] and biases float32 [filters] each."""
    sizes, groups = len(convolutions) + 2, -(-filters // FILTERS)
    starts = np.zeros(sizes, np.int64)
    bounds = np.zeros((2, sizes, sizes, sizes, groups), np.float32)
    packed: list[np.ndarray] = []
    for words, (weight, bias) in enumerate(convolutions, 2):
        starts[words] = sum(map(len, packed))
        weight, bias = weight.astype(np.float64), bias.astype(np.float64)
        order = np.argsort(-(bias + np.linalg.norm(weight, axis=(1, 2))), kind="stable")
        order = np.resize(order, groups * FILTERS)
        rows = np.concatenate([bias[order, None], weight[order].reshape(len(order), -1)], axis=1)
        packed.append(rows.reshape(groups, FILTERS, -1).transpose(0, 2, 1).ravel())
        for first in range(words):
            for last in range(first + 1, words + 1):
                norms = np.linalg.norm(weight[order, first:last], axis=(1, 2)) * (1 + ROUNDING)
                bounds[0, words, first, last] = _largest_from_here(bias[order] + ROUNDING * np.abs(bias[order]))
                bounds[1, words, first, last] = 1 / _largest_from_here(np.maximum(norms, SMALLEST_NORM))
    return Filters(np.concatenate([*packed, np.zeros(0)]).astype(np.float32), starts, bounds[0], bounds[1])


def _largest_from_here(values: np.ndarray) -> np.ndarray:
    """The largest value in each group of FILTERS and all later groups."""
    return np.maximum.accumulate(values.reshape(-1, FILTERS).max(axis=1)[::-1])[::-1]


class FastPacrr(FastPath[PacrrConfig]):
    """Scores candidates like :class:`~rerank_plugin.models.pacrr.model.Pacrr`."""

    decodes = False

    def __init__(self, config: PacrrConfig, arrays: Mapping[str, Any], builder: InputBuilder, threads: int):
        super().__init__(config, arrays, builder, threads)
        self.vectors = ComparedVectors(arrays["vectors"])
        layers = [f"convolutions.{at}" for at in range(config.longest_ngram - 1)]
        convolutions = [(arrays[f"{layer}.weight"][:, 0], arrays[f"{layer}.bias"]) for layer in layers]
        self.filters = pack_filters(convolutions, config.filters)
        inputs, state = arrays["lstm.weight_ih_l0"], arrays["lstm.weight_hh_l0"]
        self.gate_inputs = np.ascontiguousarray(inputs[:, :-1].T)  # [l_g * n_s, 4]
        self.gate_share, self.gate_state = inputs[:, -1].copy(), state[:, 0].copy()  # [4]
        self.gate_bias = arrays["lstm.bias_ih_l0"] + arrays["lstm.bias_hh_l0"]  # [4]
        # Comparisons would lose a NaN among the weights: the guard, 0 or NaN, is added to every score.
        self.nan_guard = np.float32((self.filters.weights * 0).sum())

    def score(self, terms: IndexQuery, query: ModelQuery, candidates: Candidates) -> np.ndarray:
        config = self.config
        words = candidate_words(self.builder, candidates, self.workspace)
        table = similarity_table(self.vectors, query, words, self.workspace, self.threads)  # [U, m]
        gates = self._gates(query.idf[query.mask])  # [m, 4]
        distilled_words, steps = 0, self.workspace.array("steps", table.shape[:1], np.int32)
        if config.distillation == "kwindow":
            distilled_words = config.distilled_words
            compared = self.vectors.take(query.ids[: len(gates)]).astype(np.float64)  # [m, D]
            closest = partial(
                closest_steps, table, self.vectors.numbers, self.vectors.scales, words.ids, compared,
                np.linalg.norm(compared, axis=1), steps,
            )  # fmt: skip
            split(closest, len(table), self.threads)
        columns = int(words.lengths.max()) + 2 * (config.longest_ngram + LANES)
        scores = np.empty(len(candidates), np.float32)

        def documents(start: int, stop: int) -> None:
            grids = self.workspace.array("grids", (1 + config.longest_ngram, len(gates), columns), np.float32)
            _score_documents(
                table, steps, words.places, words.lengths, config.signals, distilled_words, *self.filters,
                self.gate_inputs, gates, self.gate_state, self.nan_guard, grids, scores, start, stop,
            )  # fmt: skip

        split(documents, len(candidates), self.threads, smallest=16)
        return scores

    def _gates(self, idf: np.ndarray) -> np.ndarray:
        """The contribution of each query term to the LSTM's gates, independent of the document: float32 [m, 4]."""
        exponentials = np.exp(idf - idf.max())
        shares = (exponentials / exponentials.sum()).astype(np.float32)
        return shares[:, None] * self.gate_share + self.gate_bias


def _largest_lane(builder, values):
    while values.type.count > 1:
        values = larger(builder, *halves(builder, values))
    return builder.extract_element(values, ir.IntType(32)(0))


def _over_taps(builder, source, offsets, taps, sums, add):
    """``sums = add(tap, lanes of source[offsets[tap]], sums)`` for all taps; the sums stay in registers.

    The loops of the usual numbers of taps are unrolled, because leaving a short loop costs more than one iteration.
    """
    any_number, end = builder.append_basic_block("taps"), builder.append_basic_block("taps_end")
    choice = builder.switch(taps, any_number)

    def step(tap, before):
        place = builder.load(builder.gep(offsets, [tap]))
        return add(tap, load_lanes(builder, builder.gep(source, [place])), before)

    builder.position_at_end(any_number)
    branches = [(loop(builder, taps, sums, step), builder.block)]
    builder.branch(end)
    for count in USUAL_TAPS:
        block, after = builder.append_basic_block(f"taps_{count}"), sums
        choice.add_case(taps.type(count), block)
        builder.position_at_end(block)
        for tap in range(count):
            after = step(taps.type(tap), after)
        builder.branch(end)
        branches.append((after, block))

    builder.position_at_end(end)
    totals = [builder.phi(VECTOR) for _ in sums]
    for after, block in branches:
        for total, value in zip(totals, after):
            total.add_incoming(value, block)
    return totals


@code(NUMBER, result=types.uintp)
def lane_of_largest(builder, source):
    """The index of the largest of LANES float32 numbers, none of them NaN, from the address ``source`` on."""
    values = load_lanes(builder, source)
    largest = repeat(builder, _largest_lane(builder, values))
    bits = builder.bitcast(builder.fcmp_ordered("==", values, largest), ir.IntType(LANES))
    return builder.zext(builder.cttz(bits, ir.IntType(1)(0)), WHOLE)


@code(NUMBER, NUMBER, types.intp, NUMBER)
def merge_largest(builder, source, rest, blocks, lanes):
    """Merge the numbers of each lane in all blocks into ``lanes``, the lane's RANKS largest in descending order.

    ``lanes`` holds initial values. The numbers that are not among the largest go to ``rest``, which may be ``source``.

    Args:
        source, rest, lanes: addresses of float32 [blocks, LANES], twice, and [RANKS, LANES]. ``blocks`` is at least 1.
    """
    size = blocks.type
    ranks = [builder.gep(lanes, [size(rank * LANES)]) for rank in range(RANKS)]

    def sort_block(block, kept):
        place = builder.mul(block, size(LANES))
        value, largest = load_lanes(builder, builder.gep(source, [place])), []
        for rank in kept:
            largest.append(larger(builder, value, rank))
            value = builder.select(builder.fcmp_ordered(">", value, rank), rank, value)
        store_lanes(builder, value, builder.gep(rest, [place]))
        return largest

    sorted_lanes = loop(builder, blocks, [load_lanes(builder, rank) for rank in ranks], sort_block)
    for largest, rank in zip(sorted_lanes, ranks):
        store_lanes(builder, largest, rank)


@code(NUMBER, WHOLE, types.intp, result=types.float32)
def largest_window(builder, source, offsets, taps):
    """The largest ``sum(source[i + offsets] ** 2)`` for i < LANES; arguments as of :func:`add_maxima`."""

    def add(tap, value, sums):
        return [multiply_add(builder, value, value, sums[0])]

    return _largest_lane(builder, _over_taps(builder, source, offsets, taps, [VECTOR(None)], add)[0])


@code(NUMBER, WHOLE, types.intp, NUMBER, NUMBER, NUMBER)
def add_maxima(builder, source, offsets, taps, biases, weights, target):
    """``target[i] = max(target[i], one group of filters of source[i + offsets])`` for i < LANES.

    All arguments except ``taps`` are addresses of float32; the offsets are int64, counted in floats. ``taps`` is the
    number of offsets, at least 1.
    """
    size = taps.type

    def load_filters(address):
        return [repeat(builder, builder.load(builder.gep(address, [size(i)]))) for i in range(FILTERS)]

    def add(tap, value, sums):
        factors = load_filters(builder.gep(weights, [builder.mul(tap, size(FILTERS))]))
        return [multiply_add(builder, value, factor, total) for factor, total in zip(factors, sums)]

    largest = load_lanes(builder, target)
    for total in _over_taps(builder, source, offsets, taps, load_filters(biases), add):
        largest = larger(builder, total, largest)
    store_lanes(builder, largest, target)


@njit(nogil=True, cache=True)
def _score_documents(
    table, steps, places, lengths, count, distilled_words, weights, starts, bias, reach,
    gate_inputs, gates, gate_state, nan_guard, grids, scores, start, stop,
):  # fmt: skip
    """Scores of candidates start..stop.

    steps: of :func:`closest_steps`, for kwindow. count: n_s. distilled_words: l_d of kwindow, 0 for firstk. weights,
    starts, bias, reach: of :class:`Filters`. gates: float32 [m, 4]. nan_guard: added to all scores. grids: scratch,
    float32 [1 + l_g, m, W], with W at least 2 (l_g + LANES) more than the longest document.
    """
    terms, columns, longest = len(gates), grids.shape[2], len(starts) - 1
    border = (longest - 1) // 2
    signals, lanes = np.empty((terms, longest * count), np.float32), np.empty((count + RANKS, LANES), np.float32)
    sizes, totals = np.empty((terms, columns // LANES), np.float32), np.empty(columns // LANES, np.float32)
    cells, rest = np.empty(columns, np.float32), np.empty(columns, np.float32)
    least = np.empty(bias.shape[3], np.float32)
    offsets = np.empty(longest * longest, np.int64)
    similarities, sums, chosen = np.empty(columns, np.int32), np.empty(columns, np.int32), np.empty(columns, np.int32)
    for candidate in range(start, stop):
        length = lengths[candidate]
        similarity_guard = _look_up(table, places[candidate], length, border, LANES + longest, grids[0])
        if distilled_words:
            for position in range(length):
                similarities[position] = steps[places[candidate, position]]
        for words in range(1, longest + 1):
            before = (words - 1) // 2
            plane, begin, windows, word_step = 0, border - before, length, 1
            if distilled_words:
                windows = choose(similarities, length, words, distilled_words // words, sums, chosen)
                _copy_windows(grids, border, chosen, windows, words)
                plane, begin, word_step = 1, 0, terms * columns
            for tap in range(words * words):
                offsets[tap] = tap // words * columns + tap % words * word_step
            if words == 1:
                _keep_similarities(grids[plane], begin, windows, cells, rest, lanes, signals, count)
                continue
            _measure(grids[plane], begin, windows, offsets, words, sizes)
            _keep_matches(
                grids[plane], begin, windows, offsets, words, sizes, weights, starts[words], bias[words], reach[words],
                totals, least, cells, rest, lanes, signals, count,
            )  # fmt: skip
        scores[candidate] = _recur(signals, gate_inputs, gates, gate_state) + similarity_guard + nan_guard


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def _look_up(table, places, length, border, behind, grid):
    """A document's similarities as rows of ``grid``, float32 [m, W], between ``border`` and ``behind`` zeros.

    Returns 0, or NaN if a similarity is NaN, which comparisons would lose.
    """
    total = np.float32(0.0)
    for row in range(len(grid)):
        grid[row, :border] = 0.0
        line = grid[row, border : border + length + behind]
        for position in range(length):
            line[position] = table[np.uintp(places[position]), row]  # unsigned: skips the test for negative indices
        for position in range(length, length + behind):
            line[position] = 0.0
        for position in range(length):
            total += line[position] * np.float32(0.0)
    return total


@njit(nogil=True, cache=True)
def _copy_windows(grids, border, chosen, windows, words):
    """Copy word i of every chosen window from ``grids[0]`` to ``grids[1 + i]``, with zeros behind the last window."""
    for word in range(words):
        for row in range(grids.shape[1]):
            for window in range(windows):
                grids[1 + word, row, window] = grids[0, row, border + chosen[window] + word]
            for window in range(windows, windows + LANES):
                grids[1 + word, row, window] = 0.0


@njit(nogil=True, cache=True)
def _keep_largest(cells, windows, lowest, rest, lanes, signals, term, column, count):
    """Write the ``count`` largest of the first ``windows`` cells, or ``lowest``, to ``signals[term, column:]``.

    cells: float32 [blocks * LANES]; those from ``windows`` on become ``lowest``. rest, lanes: scratch, float32
    [blocks * LANES] and [count rounded up to RANKS, LANES].
    """
    blocks, rest_at, lanes_at = (windows + LANES - 1) // LANES, rest.ctypes.data, lanes.ctypes.data
    for cell in range(windows, blocks * LANES):
        cells[cell] = lowest
    lanes[:] = lowest
    source = cells.ctypes.data
    for rank in range(0, count if blocks else 0, RANKS):
        merge_largest(source, rest_at, blocks, lanes_at + rank * LANES * 4)
        source = rest_at
    for i in range(count):
        lane = lane_of_largest(lanes_at)
        signals[term, column + i] = lanes[0, lane]
        for rank in range(count - 1 - i):
            lanes[rank, lane] = lanes[rank + 1, lane]


@njit(nogil=True, cache=True)
def _keep_similarities(grid, begin, windows, cells, rest, lanes, signals, count):
    """Write the largest similarities of each query term, padded with 0, to the first columns of signals."""
    for term in range(len(grid)):
        values = grid[term, begin : begin + windows]
        for window in range(len(values)):
            cells[window] = values[window]
        _keep_largest(cells, windows, np.float32(-np.inf), rest, lanes, signals, term, 0, count)
        for i in range(windows, count):
            signals[term, i] = 0.0


@njit(nogil=True, cache=True)
def _measure(grid, begin, windows, offsets, words, sizes):
    """Write the largest sum of ``words`` squares in each row and block to ``sizes``, float32 [m, blocks]."""
    first, offsets_at = grid.ctypes.data + begin * 4, offsets.ctypes.data
    for row in range(len(grid)):
        source = first + row * grid.shape[1] * 4
        for block in range((windows + LANES - 1) // LANES):
            sizes[row, block] = largest_window(source + block * LANES * 4, offsets_at, words)


@njit(nogil=True, cache=True)
def _keep_matches(
    grid, begin, windows, offsets, words, sizes, weights, first_weight, bias, reach,
    totals, least, cells, rest, lanes, signals, count,
):  # fmt: skip
    """Write the largest matches of each query term to columns of signals.

    The strongest filters are computed for all cells. Most blocks can skip the others, which cannot exceed their
    results.

    grid: float32 [m, W]; the first window begins in column ``begin``. sizes: from :func:`_measure`. totals, least,
    cells, rest, lanes: scratch, float32 [blocks], [G], [blocks * LANES] twice, [n_s, LANES].
    """
    before, column, zero = (words - 1) // 2, (words - 1) * count, np.float32(0.0)
    blocks, block_step, group_step = (windows + LANES - 1) // LANES, LANES * 4, FILTERS * (1 + words * words) * 4
    grid_at, row_step, cells_at = grid.ctypes.data + begin * 4, grid.shape[1] * 4, cells.ctypes.data
    offsets_at, weights_at = offsets.ctypes.data, weights.ctypes.data + first_weight * 4
    for term in range(len(grid)):
        first, last = max(0, before - term), min(words, len(grid) + before - term)
        row, taps = term - before + first, (last - first) * words
        source, taps_at = grid_at + row * row_step, (1 + first * words) * FILTERS * 4
        cells[: blocks * LANES] = zero
        for block in range(blocks):
            add_maxima(
                source + block * block_step, offsets_at, taps, weights_at, weights_at + taps_at,
                cells_at + block * block_step,
            )  # fmt: skip
        _keep_largest(cells, windows, zero, rest, lanes, signals, term, column, count)
        for group in range(len(least)):
            length = (signals[term, column + count - 1] - bias[first, last, group]) * reach[first, last, group]
            least[group] = length * abs(length)  # squared; negative if any window may exceed the kept matches
        for block in range(blocks):
            totals[block] = sizes[row, block]
        for next_row in range(row + 1, row + last - first):
            for block in range(blocks):
                totals[block] += sizes[next_row, block]
        changed = False
        for block in range(blocks):
            group = 1
            while group < len(least) and totals[block] > least[group]:
                add_maxima(
                    source + block * block_step, offsets_at, taps, weights_at + group * group_step,
                    weights_at + group * group_step + taps_at, cells_at + block * block_step,
                )  # fmt: skip
                group += 1
                changed = True
        if changed:
            _keep_largest(cells, windows, zero, rest, lanes, signals, term, column, count)


@njit(nogil=True, cache=True)
def _recur(signals, gate_inputs, gates, gate_state):
    """The last output of the LSTM over the rows of signals, float32 [m, l_g * n_s]."""
    unit, state, output = np.float32(1.0), np.float32(0.0), np.float32(0.0)
    for term in range(len(signals)):
        input_gate, forget_gate, cell, output_gate = gates[term]
        for i in range(signals.shape[1]):
            value = signals[term, i]
            input_gate += value * gate_inputs[i, 0]
            forget_gate += value * gate_inputs[i, 1]
            cell += value * gate_inputs[i, 2]
            output_gate += value * gate_inputs[i, 3]
        input_gate += output * gate_state[0]
        forget_gate += output * gate_state[1]
        cell += output * gate_state[2]
        output_gate += output * gate_state[3]
        state = state / (unit + math.exp(-forget_gate)) + math.tanh(cell) / (unit + math.exp(-input_gate))
        output = math.tanh(state) / (unit + math.exp(-output_gate))
    return output
