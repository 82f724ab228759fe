"""MatchPyramid (Pang et al., 2016) as it is served: the same scores as
:class:`~rerank_plugin.models.matchpyramid.model.MatchPyramid`.

A similarity is computed once for each distinct word of the candidates. Then a document's picture is never drawn: for
one query word its neighbours' similarities are looked up, word by word of the document, so that what a filter sees lies
in one run of memory; a small matrix product gives all filters, and their maxima over the columns of the grid are all
that stays. Where filters are few, several query words are done at once, side by side in the lanes of the product.

Only with a second layer are the values of all query words kept, those of one document at a time.

In shapes P x Q are the cells of the grid and S x T the rows and columns of a filter.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from rerank_plugin.features.inputs import InputBuilder, ModelQuery
from rerank_plugin.features.interactions import CandidateWords, UnitVectors, candidate_words, similarity_table
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import IndexQuery
from rerank_plugin.kernels.compiling import njit
from rerank_plugin.kernels.dense_layers import (
    RELU,
    ROWS,
    DenseLayers,
    dense,
    numbers,
    pack_panels,
    pad_columns,
    pad_vector,
    round_up,
)
from rerank_plugin.kernels.intrinsics import LANES, NUMBER, VECTOR, code, larger, load_lanes, loop, store_lanes
from rerank_plugin.kernels.parallel import split
from rerank_plugin.models.fast_paths import FastPath
from rerank_plugin.models.matchpyramid.model import MatchPyramid

PIECE = 8  # numbers that are copied at once


class FusedMatchPyramid(FastPath):
    """Scores candidates as the module does."""

    def __init__(self, model: MatchPyramid, builder: InputBuilder, threads: int):
        super().__init__(model, builder, threads)
        config = self.config
        self.vectors = UnitVectors(model.vectors) if config.similarity == "cosine" else None
        # weights [K, inward, S, T], biases [K]
        first, *later = ((numbers(layer.weight), numbers(layer.bias)) for layer in model.convolutions)
        filters = round_up(max(config.filters))
        self.together = 1 if later else max(1, LANES // config.filters[0])  # query words at once
        self.first = _first_layer(*first, self.together, filters)
        runs = config.kernel_rows * config.kernel_columns * filters
        self.later_panels = np.zeros((len(later), filters // LANES, runs, LANES), np.float32)
        self.later_biases = np.zeros((len(later), filters), np.float32)
        for place, (weight, bias) in enumerate(later):
            taps = np.zeros((config.kernel_columns, config.kernel_rows, filters, filters), np.float32)
            taps[:, :, : weight.shape[1], : weight.shape[0]] = weight.transpose(3, 2, 1, 0)
            self.later_panels[place] = pack_panels(taps.reshape(runs, filters))
            self.later_biases[place, : len(bias)] = bias
        weights, biases = zip(*((numbers(layer.weight), numbers(layer.bias)) for layer in model.layers))
        # The first layer reads cells in the order [P, Q, K] instead of [K, P, Q].
        grid = (-1, config.filters[-1], config.pool_rows, config.pool_columns)
        cells = weights[0].reshape(grid).transpose(0, 2, 3, 1).reshape(weights[0].shape)
        self.layers = DenseLayers(zip((cells, *weights[1:]), biases), RELU)
        # A maximum would hide what is not a number, so it is looked for here.
        self.poison = np.float32(sum(float((one.detach() * 0).sum()) for one in model.parameters()))

    def score(self, terms: IndexQuery, query: ModelQuery, candidates: Candidates) -> np.ndarray:
        config = self.config
        words = candidate_words(self.builder, candidates, self.workspace)
        m = int(query.mask.sum())
        framed = self._framed_table(query, words)  # [U, m and a frame]
        scores = np.empty(len(candidates), np.float32)

        def documents(start: int, stop: int) -> None:
            count, border = stop - start, config.kernel_columns // 2
            places, lengths = words.places[start:stop], words.lengths[start:stop]
            cells = config.pool_rows * config.pool_columns * config.filters[-1]
            pooled = self.workspace.array("pooled", (count + ROWS, cells), np.float32)
            grid = pooled[:count].reshape(count, config.pool_rows, config.pool_columns, config.filters[-1])
            rows = int(lengths.max(initial=0)) + 2 * border + 2 * ROWS
            panels, bias = self.first
            source = self.workspace.array("source", (rows, config.kernel_rows + self.together - 1), np.float32)
            maps = self.workspace.array("maps", (2, m, rows, len(bias)), np.float32)
            stacked = self.workspace.array("stacked", (rows, config.kernel_rows * len(bias)), np.float32)
            maxima = self.workspace.array("maxima", (config.pool_columns, len(bias)), np.float32)
            _pool_documents(
                framed, places, lengths, m, panels, bias, self.later_panels, self.later_biases,
                config.kernel_columns, self.together, source, maps, stacked, maxima, grid,
            )  # fmt: skip
            scores[start:stop] = self.layers.outputs(pooled, count, self.workspace) + self.poison

        split(documents, len(candidates), self.threads, smallest=16)
        return scores

    def _framed_table(self, query: ModelQuery, words: CandidateWords) -> np.ndarray:
        """Similarities of the candidates' distinct words to the query's words, with zeros before and behind each row.

        Returns:
            float32 [U, S - 1 + m rounded up to whole groups of query words], with PIECE numbers behind it in memory.
        """
        if self.vectors is not None:
            table = similarity_table(self.vectors, query, words, self.workspace, self.threads)  # [U, m]
        else:
            table = (words.terms[:, None] == query.terms[query.mask].astype(np.int32)).astype(np.float32)  # [U, m]
        count, height = table.shape[1], self.config.kernel_rows
        columns = height - 1 - (-count // self.together) * self.together
        memory = self.workspace.array("framed", (len(table) * columns + PIECE,), np.float32)
        framed = memory[: len(table) * columns].reshape(len(table), columns)
        framed[:] = 0.0
        framed[:, height // 2 : height // 2 + count] = table
        return framed


def _first_layer(weight: np.ndarray, bias: np.ndarray, together: int, filters: int) -> tuple[np.ndarray, np.ndarray]:
    """The first convolution as a product of runs of T columns of ``S + together - 1`` similarities.

    Returns panels of weights [T * channels, lanes] and biases [lanes] for ``together`` query words at once; filter k of
    query word r is lane ``r * K + k``.
    """
    count, _, height, width = weight.shape
    lanes = np.zeros((width, height + together - 1, together * count), np.float32)
    for r in range(together):
        lanes[:, r : r + height, r * count : (r + 1) * count] = weight[:, 0].transpose(2, 1, 0)
    lanes, biases = pad_columns(lanes.reshape(-1, together * count)), pad_vector(np.tile(bias, together))
    beyond = max(0, filters - len(biases)) if together == 1 else 0
    return pack_panels(np.pad(lanes, ((0, 0), (0, beyond)))), np.pad(biases, (0, beyond))


@code(NUMBER, types.intp, types.intp, NUMBER)
def _maxima(builder, source, step, count, target):
    """``target[:LANES] = max(0, source[i * step :][:LANES])`` for i < count, at least one; addresses of float32."""

    def row_maxima(row, best):
        return [larger(builder, load_lanes(builder, builder.gep(source, [builder.mul(row, step)])), best[0])]

    store_lanes(builder, loop(builder, count, [VECTOR(None)], row_maxima)[0], target)


@code(*[ir.VectorType(NUMBER, PIECE)] * 2)
def _copy_piece(builder, source, target):
    """Copy PIECE numbers float32 from address to address."""
    builder.store(builder.load(source, align=4), target, align=4)


@njit(nogil=True, inline="always")
def _look_up(framed, places, length, first, border, source):
    """The filters' input for a document: a row of ``source`` for each word, between ``border`` rows of zeros.

    ``first`` is the column of ``framed`` that goes into the first of ``source``. Pieces are copied whole: what is too
    much is overwritten by the next word, and after the last one by zeros.
    """
    columns, step = source.shape[1], framed.shape[1]
    for position in range(length):
        origin = framed.ctypes.data + (places[position] * step + first) * 4
        target = source.ctypes.data + (border + position) * columns * 4
        for column in range(0, columns, PIECE):
            _copy_piece(origin + column * 4, target + column * 4)
    source[:border] = 0.0
    source[border + length : 2 * border + length + ROWS] = 0.0


@njit(nogil=True, inline="always")
def _pool_columns(values, length, maxima):
    """The largest of rows of ``values`` in each column of the grid: float32 [Q, lanes]."""
    columns, lanes = maxima.shape
    for column in range(columns):
        start = column * length // columns
        stop = ((column + 1) * length + columns - 1) // columns
        for lane in range(0, lanes, LANES):
            _maxima(
                values.ctypes.data + (start * lanes + lane) * 4,
                lanes,
                stop - start,
                maxima.ctypes.data + (column * lanes + lane) * 4,
            )


@njit(nogil=True, inline="always")
def _pool_row(maxima, lane, row, words, grid):
    """Bring the maxima of query word ``row`` of ``words``, from ``lane`` on, into its cells of a grid [P, Q, K]."""
    rows, columns, filters = grid.shape
    for i in range(rows):
        if i * words // rows <= row < ((i + 1) * words + rows - 1) // rows:
            for column in range(columns):
                for k in range(filters):
                    grid[i, column, k] = max(grid[i, column, k], maxima[column, lane + k])


@njit(nogil=True, inline="always")
def _pool(values, length, first, stop, words, maxima, grid):
    """Bring the values of query words first..stop of ``words``, side by side in rows, into their cells of a grid."""
    _pool_columns(values, length, maxima)
    for row in range(first, stop):
        _pool_row(maxima, (row - first) * grid.shape[2], row, words, grid)


@njit(nogil=True, cache=True)
def _pool_documents(
    framed, places, lengths, words, panels, bias, later_panels, later_biases, width, together, source, maps, stacked,
    maxima, grid,
):  # fmt: skip
    """The grids of documents, float32 [C, P, Q, K].

    Without a later layer, values are pooled at once: all query words share the memory of the first.

    panels, bias: of :func:`_first_layer`, for ``together`` query words, which is one before a later layer.
    later_panels: float32 [layers - 1, K / LANES, T * S * K, LANES]. source, maps, stacked, maxima: scratch, float32
    [N + T - 1 + 2 ROWS, channels], [2, m, so many, lanes], [so many, S * lanes] and [Q, lanes].
    """
    border, later = width // 2, len(later_panels)
    for candidate in range(len(lengths)):
        length = lengths[candidate]
        grid[candidate] = 0.0
        if length == 0:
            continue
        for first in range(0, words, together):
            values = maps[0, first if later else 0]
            _look_up(framed, places[candidate], length, first, border, source)
            dense(source, panels, bias, RELU, values[border:], length)
            if later:
                _clear_borders(values, border, length)
            else:
                _pool(values[border:], length, first, min(first + together, words), words, maxima, grid[candidate])
        for layer in range(later):
            before, after = maps[layer % 2], maps[(layer + 1) % 2]
            for row in range(words):
                _stack(before, row, 2 * border + length + ROWS, stacked)
                dense(stacked, later_panels[layer], later_biases[layer], RELU, after[row, border:], length)
                _clear_borders(after[row], border, length)
        if later:
            for row in range(words):
                _pool(maps[later % 2, row, border:], length, row, row + 1, words, maxima, grid[candidate])


@njit(nogil=True, inline="always")
def _clear_borders(rows, border, length):
    rows[:border] = 0.0
    rows[border + length : 2 * border + length + ROWS] = 0.0


@njit(nogil=True, inline="always")
def _stack(maps, row, count, stacked):
    """A later layer's input for a query word: ``count`` rows [S * K] of its maps [m, rows, K] and its neighbours'."""
    words, filters = len(maps), maps.shape[2]
    height = stacked.shape[1] // filters
    for tap in range(height):
        neighbour, start = row + tap - height // 2, tap * filters
        for i in range(count):
            for k in range(filters):
                stacked[i, start + k] = maps[neighbour, i, k] if 0 <= neighbour < words else np.float32(0.0)
