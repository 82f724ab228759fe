"""MatchPyramid (Pang et al., 2016) as it is served: the same scores as
:class:`~rerank_plugin.models.matchpyramid.model.MatchPyramid`.

A similarity is computed once for each distinct word of the candidates. Then a document's picture is never drawn: for
one query word its neighbours' similarities are looked up, word by word of the document, so that what a filter sees lies
in one run of memory; a small matrix product gives all filters, and their maxima over the columns of the grid are all
that stays. Where filters are few, several query words are done at once, side by side in the lanes of the product.

Only with a second layer are the values of all query words kept, those of one document at a time.

Letters in shapes: C candidates, U distinct words, N document words, m words of the query, K filters (padded to a
multiple of 16), P x Q cells of the grid, S x T rows and columns of a filter.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from rerank_plugin.features.inputs import InputBuilder, ModelQuery
from rerank_plugin.features.interactions import CandidateWords, UnitVectors, candidate_words, similarity_table
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import IndexQuery
from rerank_plugin.kernels.convolution import LANES, ROWS, leaky_convolution, pad_columns, round_up
from rerank_plugin.kernels.parallel import Workspace, split
from rerank_plugin.models.fast_paths import FastPath
from rerank_plugin.models.matchpyramid.model import MatchPyramid

PIECE = 8  # numbers that are copied at once
RELU, LINEAR = np.float32(0.0), np.float32(1.0)  # slopes below zero


class FusedMatchPyramid(FastPath):
    """Scores candidates as the module does.

    Args:
        model: in eval mode, on the CPU.
        builder: the input builder of the candidates' index.
        threads: how many threads share the words and documents.
    """

    def __init__(self, model: MatchPyramid, builder: InputBuilder, threads: int):
        config = model.config
        self.config, self.builder, self.threads = config, builder, threads
        self.workspace = Workspace()
        self.vectors = UnitVectors(model.vectors) if config.similarity == "cosine" else None
        convolutions = [_numbers(layer) for layer in model.convolutions]  # weights [K, inward, S, T], biases [K]
        filters = round_up(max(config.filters))
        self.together = 1 if len(convolutions) > 1 else max(1, LANES // config.filters[0])  # query words at once
        self.first = _first_layer(*convolutions[0], self.together, filters)
        later, runs = len(convolutions) - 1, config.kernel_rows * config.kernel_columns * filters
        self.later_weights = np.zeros((later, runs, filters), np.float32)
        self.later_biases = np.zeros((later, filters), np.float32)
        for place, (weight, bias) in enumerate(convolutions[1:]):
            taps = np.zeros((config.kernel_columns, config.kernel_rows, filters, filters), np.float32)
            taps[:, :, : weight.shape[1], : weight.shape[0]] = weight.transpose(3, 2, 1, 0)
            self.later_weights[place] = taps.reshape(runs, filters)
            self.later_biases[place, : len(bias)] = bias
        self.layers = self._dense_layers(model)
        # A maximum would hide what is not a number, so it is looked for here.
        self.poison = np.float32(sum(float((one.detach() * 0).sum()) for one in model.parameters()))

    def _dense_layers(self, model: MatchPyramid) -> list[tuple[np.ndarray, np.ndarray]]:
        """The feed-forward layers as (weights [inward, outward], bias [outward]), outward padded to multiples of 16.

        The first one reads cells in the order [P, Q, K] instead of [K, P, Q].
        """
        layers = []
        for layer in model.layers:
            weight, bias = _numbers(layer)
            if not layers:
                grid = (len(weight), self.config.filters[-1], self.config.pool_rows, self.config.pool_columns)
                weight = weight.reshape(grid).transpose(0, 2, 3, 1).reshape(len(weight), -1)
            rows = np.zeros((layers[-1][0].shape[1] if layers else weight.shape[1], len(weight)), np.float32)
            rows[: weight.shape[1]] = weight.T
            layers.append((pad_columns(rows), pad_columns(bias[None])[0]))
        return layers

    def score(self, terms: IndexQuery, query: ModelQuery, candidates: Candidates) -> np.ndarray:
        """Scores, float32 [C]."""
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
            weights, bias = self.first
            channels = config.kernel_rows + self.together - 1
            source = self.workspace.array("source", (rows, channels), np.float32)
            maxima = self.workspace.array("maxima", (config.pool_columns, len(bias)), np.float32)
            if len(self.later_weights):
                maps = self.workspace.array("maps", (2, m, rows, len(bias)), np.float32)
                stacked = self.workspace.array("stacked", (rows, config.kernel_rows * len(bias)), np.float32)
                _pool_layers(
                    framed, places, lengths, m, weights, bias, self.later_weights, self.later_biases,
                    config.kernel_columns, source, stacked, maps, maxima, grid,
                )  # fmt: skip
            else:
                values = self.workspace.array("values", (rows, len(bias)), np.float32)
                _pool_one_layer(
                    framed, places, lengths, m, weights, bias, config.kernel_columns, self.together, source, values,
                    maxima, grid,
                )  # fmt: skip
            hidden = pooled
            for place, (weights, bias) in enumerate(self.layers):
                target = self.workspace.array(f"layer {place}", (count + ROWS, len(bias)), np.float32)
                slope = RELU if place < len(self.layers) - 1 else LINEAR
                leaky_convolution(hidden, weights, bias, slope, target, count, 1)
                hidden = target
            scores[start:stop] = hidden[:count, 0] + self.poison

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
        split(lambda start, stop: _frame(table, height // 2, framed, start, stop), len(table), self.threads)
        return framed


def _numbers(layer) -> tuple[np.ndarray, np.ndarray]:
    """Weights and bias of a layer."""
    return layer.weight.detach().float().numpy(), layer.bias.detach().float().numpy()


def _first_layer(weight: np.ndarray, bias: np.ndarray, together: int, filters: int) -> tuple[np.ndarray, np.ndarray]:
    """The first convolution as a product of runs of T columns of ``S + together - 1`` similarities.

    Args:
        weight: float32 [K, 1, S, T]. bias: float32 [K]. together: query words at once. filters: K, padded.

    Returns:
        weights float32 [T * channels, lanes], and biases [lanes]; filter k of query word r is lane ``r * K + k``.
    """
    count, _, height, width = weight.shape
    lanes = np.zeros((width, height + together - 1, together * count), np.float32)
    for r in range(together):
        lanes[:, r : r + height, r * count : (r + 1) * count] = weight[:, 0].transpose(2, 1, 0)
    biases = pad_columns(np.tile(bias, together)[None])[0]
    lanes = pad_columns(lanes.reshape(-1, together * count))
    beyond = max(0, filters - lanes.shape[1]) if together == 1 else 0
    return np.pad(lanes, ((0, 0), (0, beyond))), np.pad(biases, (0, beyond))


@intrinsic
def _maxima(typing_context, source, step, count, target):
    """``target[:LANES] = max(0, source[i * step :][:LANES])`` for i < count, at least one; addresses of float32."""
    signature = types.void(types.uintp, types.intp, types.intp, types.uintp)

    def generate(context, builder, _, arguments):
        vector = ir.VectorType(ir.FloatType(), LANES)
        source, target = (builder.inttoptr(arguments[i], ir.FloatType().as_pointer()) for i in (0, 3))
        step, count = arguments[1:3]
        entry = builder.block
        loop, end = builder.append_basic_block("rows"), builder.append_basic_block("rows_end")
        builder.branch(loop)
        builder.position_at_end(loop)
        row, best = builder.phi(step.type), builder.phi(vector)
        address = builder.gep(source, [builder.mul(row, step)])
        values = builder.load(builder.bitcast(address, vector.as_pointer()), align=4)
        largest = builder.select(builder.fcmp_ordered(">", values, best), values, best)
        following = builder.add(row, row.type(1))
        builder.cbranch(builder.icmp_signed("<", following, count), loop, end)
        row.add_incoming(row.type(0), entry)
        row.add_incoming(following, loop)
        best.add_incoming(ir.Constant(vector, [0.0] * LANES), entry)
        best.add_incoming(largest, loop)
        builder.position_at_end(end)
        builder.store(largest, builder.bitcast(target, vector.as_pointer()), align=4)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _copy_piece(typing_context, source, target):
    """Copy PIECE numbers float32 from address to address."""
    signature = types.void(types.uintp, types.uintp)

    def generate(context, builder, _, arguments):
        pointer = ir.VectorType(ir.FloatType(), PIECE).as_pointer()
        source, target = (builder.inttoptr(address, pointer) for address in arguments)
        builder.store(builder.load(source, align=4), target, align=4)
        return context.get_dummy_value()

    return signature, generate


@njit(nogil=True, cache=True)
def _frame(table, above, framed, start, stop):
    """Rows start..stop of a table float32 [U, m], with ``above`` zeros before and as many as there is room for behind.

    Args:
        framed: float32 [U, above + m + any], to be filled.
    """
    words = table.shape[1]
    for word in range(start, stop):
        framed[word, :above] = 0.0
        framed[word, above : above + words] = table[word]
        framed[word, above + words :] = 0.0


@njit(nogil=True, inline="always")
def _look_up(framed, places, length, first, border, source):
    """The filters' input for a document: one row of ``source`` for each word, between ``border`` rows of zeros.

    Pieces are copied whole: what is too much is overwritten by the next word, and after the last one by zeros.

    Args:
        framed: of :func:`_frame`, with PIECE numbers behind it. places: int32 [N], one document's.
        first: the column of ``framed`` that goes into the first of ``source``.
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
    """Bring a query word's maxima, which begin at ``lane``, into the cells that it belongs to.

    Args:
        row: the query word's number, of ``words``. grid: float32 [P, Q, K].
    """
    rows, columns, filters = grid.shape
    for i in range(rows):
        if i * words // rows <= row < ((i + 1) * words + rows - 1) // rows:
            for column in range(columns):
                for k in range(filters):
                    grid[i, column, k] = max(grid[i, column, k], maxima[column, lane + k])


@njit(nogil=True, cache=True)
def _pool_one_layer(framed, places, lengths, words, weights, bias, width, together, source, values, maxima, grid):
    """The grids of documents, of one convolution.

    Args:
        framed: of :func:`_frame`. places: int32 [C, N]. lengths: int32 [C]. words: m.
        weights, bias: of :func:`_first_layer`. width: T. together: query words at once.
        source, values, maxima: scratch, float32 [N + T - 1 + 2 ROWS, channels], [so many, lanes], [Q, lanes].
        grid: float32 [C, P, Q, K], to be filled.
    """
    filters, border = grid.shape[3], width // 2
    for candidate in range(len(lengths)):
        length = lengths[candidate]
        grid[candidate] = 0.0
        if length == 0:
            continue
        for first in range(0, words, together):
            _look_up(framed, places[candidate], length, first, border, source)
            leaky_convolution(source, weights, bias, RELU, values, length, width)
            _pool_columns(values, length, maxima)
            for row in range(first, min(first + together, words)):
                _pool_row(maxima, (row - first) * filters, row, words, grid[candidate])


@njit(nogil=True, cache=True)
def _pool_layers(
    framed, places, lengths, words, weights, bias, later_weights, later_biases, width, source, stacked, maps, maxima,
    grid,
):  # fmt: skip
    """The grids of documents, of several convolutions: as :func:`_pool_one_layer`.

    Args:
        later_weights: float32 [layers - 1, T * S * K, K]. later_biases: float32 [layers - 1, K].
        stacked, maps: scratch, float32 [N + T - 1 + 2 ROWS, S * K] and [2, m, N + T - 1 + 2 ROWS, K].
    """
    border = width // 2
    for candidate in range(len(lengths)):
        length = lengths[candidate]
        grid[candidate] = 0.0
        if length == 0:
            continue
        for row in range(words):
            _look_up(framed, places[candidate], length, row, border, source)
            leaky_convolution(source, weights, bias, RELU, maps[0, row, border:], length, width)
            _clear_borders(maps[0, row], border, length)
        for layer in range(len(later_weights)):
            before, after = maps[layer % 2], maps[(layer + 1) % 2]
            for row in range(words):
                _stack(before, row, 2 * border + length + ROWS, stacked)
                target = after[row, border:]
                leaky_convolution(stacked, later_weights[layer], later_biases[layer], RELU, target, length, width)
                _clear_borders(after[row], border, length)
        last = maps[len(later_weights) % 2]
        for row in range(words):
            _pool_columns(last[row, border:], length, maxima)
            _pool_row(maxima, 0, row, words, grid[candidate])


@njit(nogil=True, inline="always")
def _clear_borders(rows, border, length):
    rows[:border] = 0.0
    rows[border + length : 2 * border + length + ROWS] = 0.0


@njit(nogil=True, inline="always")
def _stack(maps, row, count, stacked):
    """The input of a later layer for a query word: its rows and its neighbours', side by side.

    Args:
        maps: float32 [m, rows, K]. count: rows to be filled. stacked: float32 [rows, S * K].
    """
    words, filters = len(maps), maps.shape[2]
    height = stacked.shape[1] // filters
    for tap in range(height):
        neighbour, start = row + tap - height // 2, tap * filters
        for i in range(count):
            for k in range(filters):
                stacked[i, start + k] = maps[neighbour, i, k] if 0 <= neighbour < words else np.float32(0.0)
