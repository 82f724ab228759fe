"""Inner products of queries with documents whose vectors are 8-bit numbers, and the best documents by them.

The products of the numbers of a space (:mod:`rerank_plugin.kernels.quantization`) are added up as integers, which is
exact, and only these sums are multiplied with the scales, in one order. So a document's score for a query is the same
to the last bit whichever function computes it, in whichever order and thread, and beside whichever others.

The best documents are ordered by score, then by the lowest row. A document's key is a uint64 with that order, so that
selecting is comparing whole numbers, no two of which are equal.

Letters in shapes: R documents, P codes of a vector, S spaces, Q queries, L lists, n documents given.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from llvmlite import ir
from numba import types

from rerank_plugin.kernels.compiling import njit
from rerank_plugin.kernels.intrinsics import AHEAD, code, loop, prefetch_row
from rerank_plugin.kernels.parallel import split
from rerank_plugin.kernels.quantization import LEFT_OUT, STEP, Codes, QuantizedQueries, aligned_zeros

GROUP = 8  # centroids that a document is compared with at once
SMALLEST_PART = 4096  # documents: for fewer, waking a thread takes longer than their products
SLACK = 1024  # keys that are kept beyond twice the best, so that selecting them is rare
BLOCK, CHUNK = 64, 128  # documents and centroids that are compared while both stay in the cache

CODE, NUMBER, SUM = ir.IntType(8), ir.IntType(16), ir.IntType(32)


def _widened(builder, place, kind):
    """STEP numbers at a pointer, int32 [STEP]."""
    vector = ir.VectorType(kind, STEP)
    return builder.sext(builder.load(builder.bitcast(place, vector.as_pointer()), align=1), ir.VectorType(SUM, STEP))


def _pair_sums(builder, one, other):
    """The products of two vectors int32 [STEP] of 16-bit numbers, each with its neighbour's, int32 [STEP / 2].

    LLVM knows the pattern: vpmaddwd, or vpdpwssd together with the sum that follows.
    """
    products = builder.mul(one, other)
    lanes = ir.VectorType(ir.IntType(32), STEP // 2)
    even, odd = (
        builder.shuffle_vector(products, products, ir.Constant(lanes, list(range(start, STEP, 2)))) for start in (0, 1)
    )
    return builder.add(even, odd)


def _total(builder, sums):
    """The sum of a vector int32 [STEP / 2]."""
    name = f"llvm.vector.reduce.add.v{STEP // 2}i32"
    return builder.call(builder.module.declare_intrinsic(name, [], ir.FunctionType(SUM, [sums.type])), [sums])


@code(CODE, NUMBER, types.intp, result=types.int32)
def _product(builder, codes, numbers, steps):
    """The sum of ``codes[i] * numbers[i]`` for i < steps * STEP, by addresses; ``steps`` is at least 1."""

    def add(place, sums):
        start = builder.mul(place, place.type(STEP))
        one = _widened(builder, builder.gep(codes, [start]), CODE)
        other = _widened(builder, builder.gep(numbers, [start]), NUMBER)
        return [builder.add(sums[0], _pair_sums(builder, one, other))]

    return _total(builder, loop(builder, steps, [ir.VectorType(SUM, STEP // 2)(None)], add)[0])


@code(CODE, NUMBER, SUM, types.intp, types.intp)
def _group_products(builder, codes, numbers, target, step, steps):
    """As `_product` with GROUP queries, ``step`` numbers apart, into int32 [GROUP] at ``target``."""
    queries = [builder.gep(numbers, [builder.mul(step, step.type(place))]) for place in range(GROUP)]

    def add(place, sums):
        start = builder.mul(place, place.type(STEP))
        one = _widened(builder, builder.gep(codes, [start]), CODE)
        others = [_widened(builder, builder.gep(query, [start]), NUMBER) for query in queries]
        return [builder.add(total, _pair_sums(builder, one, other)) for total, other in zip(sums, others)]

    zeros = [ir.VectorType(SUM, STEP // 2)(None)] * GROUP
    for place, total in enumerate(loop(builder, steps, zeros, add)):
        builder.store(_total(builder, total), builder.gep(target, [ir.IntType(32)(place)]), align=4)


@njit(nogil=True, inline="always")
def _score(codes, scales, position, numbers, query, query_scales, starts, addresses):
    """The score of the document at a position for a query, float32; never -0.0, so that equal scores are equal bits.

    addresses: of the codes and the numbers, taken outside of loops, where it would count references.
    """
    score = 0.0
    width = codes.shape[1]
    for space in range(len(starts) - 1):
        start = starts[space]
        total = _product(
            addresses[0] + position * width + start,
            addresses[1] + (query * width + start) * 2,
            (starts[space + 1] - start) // STEP,
        )
        score += np.float64(total) * np.float64(scales[position, space]) * query_scales[query, space]
    return np.float32(score) + np.float32(0.0)


@njit(nogil=True, cache=True)
def _scores(codes, scales, positions, numbers, query_scales, offsets, scores, start, stop):
    """``scores[q, i]`` of the documents at ``positions[i]`` for i from start to stop."""
    addresses = codes.ctypes.data, numbers.ctypes.data
    for i in range(start, stop):
        if i + AHEAD < stop:
            prefetch_row(codes, positions[i + AHEAD])
        for query in range(len(numbers)):
            scores[query, i] = _score(codes, scales, positions[i], numbers, query, query_scales, offsets, addresses)


def _for_reading(*arrays: np.ndarray) -> list[np.ndarray]:
    """The arrays as mapped ones are, so that a kernel is compiled once for those and others."""
    views = [array.view() for array in arrays]
    for view in views:
        view.flags.writeable = False
    return views


def scores(found: Codes, positions: np.ndarray, queries: QuantizedQueries, threads: int = 1) -> np.ndarray:
    """The scores of the documents at some positions, int [n], for each query, float32 [Q, n]."""
    computed = np.empty((len(queries.numbers), len(positions)), np.float32)
    given = _for_reading(*found, np.asarray(positions, np.int64), *queries)
    split(partial(_scores, *given, computed), len(positions), threads, SMALLEST_PART)
    return computed


@njit(nogil=True, inline="always")
def _key(bits, row):
    """A key that grows with the score, given as the bits of a float32, and among equal scores falls with the row."""
    ordered = ~bits if bits >> np.uint32(31) else bits | np.uint32(0x80000000)
    return (np.uint64(ordered) << np.uint64(32)) | np.uint64(~np.uint32(row) & np.uint32(0xFFFFFFFF))


def _floors(scores: np.ndarray) -> np.ndarray:
    """Keys that those of rows with these scores or higher ones exceed, uint64 [n]."""
    bits = scores.view(np.uint32)
    ordered = np.where(bits >> np.uint32(31), ~bits, bits | np.uint32(0x80000000))
    return ordered.astype(np.uint64) << np.uint64(32)


def _of_keys(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows int64 [n] and scores float32 [n] of keys uint64 [n]."""
    ordered = (keys >> np.uint64(32)).astype(np.uint32)
    bits = np.where(ordered >> np.uint32(31), ordered & np.uint32(0x7FFFFFFF), ~ordered)
    return (~keys.astype(np.uint32)).astype(np.int64), bits.astype(np.uint32).view(np.float32)


@njit(nogil=True, cache=True)
def _cut(keys, count):
    """Move the largest ``count`` of distinct keys to the front; returns the least of these, found bit by bit."""
    least = np.uint64(0)
    for bit in range(63, -1, -1):
        tried = least | (np.uint64(1) << np.uint64(bit))
        larger = 0
        for key in keys:
            larger += key >= tried
        if larger >= count:
            least = tried
    kept = 0
    for key in keys:
        if key >= least:
            keys[kept] = key
            kept += 1
    return least


@njit(nogil=True, cache=True)
def _collect(
    codes, scales, rows, starts, stops, numbers, query_scales, offsets, floors, keys, held, count, start, stop
):
    """Keep the keys of each query's best ``count`` documents in the ranges of positions start..stop.

    Args:
        rows: of the documents by their positions, int32 [R]; `LEFT_OUT` for one to leave out.
        starts, stops: of the ranges, int64 [n].
        floors: what the keys of each query have to exceed, uint64 [Q].
        keys: uint64 [Q, more than count]; of each query, the first ``held`` int64 [Q] are the result, in no order.
    """
    addresses = codes.ctypes.data, numbers.ctypes.data
    least = floors.copy()  # the keys that the next ones have to exceed
    for i in range(start, stop):
        if i + AHEAD < stop:
            prefetch_row(codes, starts[i + AHEAD])
        for position in range(starts[i], stops[i]):
            if rows[position] == LEFT_OUT:
                continue
            for query in range(len(numbers)):
                score = _score(codes, scales, position, numbers, query, query_scales, offsets, addresses)
                key = _key(np.float32(score).view(np.uint32), rows[position])
                if key > least[query]:
                    keys[query, held[query]] = key
                    held[query] += 1
                    if held[query] == keys.shape[1]:
                        held[query], least[query] = count, _cut(keys[query], count)


def best(
    found: Codes,
    rows: np.ndarray,
    starts: np.ndarray,
    stops: np.ndarray,
    queries: QuantizedQueries,
    count: int,
    threads: int = 1,
    lowest: np.ndarray | None = None,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The best ``count`` documents in some ranges of positions, for each query: rows int64 and scores float32 [any].

    Args:
        rows: of the documents by their positions, int32 [R], `LEFT_OUT` for one that is not found; no other row occurs
            twice.
        starts, stops: of the ranges, int64 [n]. They must not overlap.
        lowest: the lowest score that each query needs of a document, float32 [Q]; by default any.
    """
    ranges, documents = len(starts), int((stops - starts).sum())
    count, parts = min(count, documents), []
    if not count:
        return [(np.zeros(0, np.int64), np.zeros(0, np.float32))] * len(queries.numbers)

    floors = np.zeros(len(queries.numbers), np.uint64) if lowest is None else _floors(lowest)
    given = _for_reading(*found, rows, starts, stops, *queries, floors)

    def part(start: int, stop: int) -> None:
        keys = np.empty((len(queries.numbers), 2 * count + SLACK), np.uint64)
        held = np.zeros(len(keys), np.int64)
        _collect(*given, keys, held, count, start, stop)
        parts.append([some[:number] for some, number in zip(keys, held)])

    split(part, ranges, threads, max(1, SMALLEST_PART * ranges // documents))
    return [_of_keys(_best_keys(np.concatenate(some), count)) for some in zip(*parts)]


def _best_keys(keys: np.ndarray, count: int) -> np.ndarray:
    """The largest ``count`` keys, from the largest on."""
    if count < len(keys):
        keys = np.partition(keys, len(keys) - count)[len(keys) - count :]
    return np.sort(keys)[::-1]


def nearest_lists(found: Codes, centroids: QuantizedQueries, threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """The centroid with the largest product with each document, the first of several: int32 [n]; and that product,
    float32 [n]. There is one centroid at least.
    """
    count = len(centroids.numbers)
    numbers = aligned_zeros((-(-count // GROUP) * GROUP, centroids.numbers.shape[1]), np.int16)
    numbers[:count], numbers[count:] = centroids.numbers, centroids.numbers[-1]  # copies are never nearer
    scales = centroids.scales[np.minimum(np.arange(len(numbers)), count - 1)].T.astype(np.float32)
    given = _for_reading(*found, numbers, np.ascontiguousarray(scales), centroids.starts)
    nearest, products = np.zeros(len(found.codes), np.int32), np.full(len(found.codes), -np.inf, np.float32)
    split(
        partial(_nearest_lists, *given, nearest, products),
        len(nearest), threads, BLOCK,
    )  # fmt: skip
    return nearest, products


@njit(nogil=True, cache=True)
def _nearest_lists(codes, scales, numbers, centroid_scales, starts, nearest, products, start, stop):
    """The nearest centroid of the documents start..stop; the arithmetic of each is in one order.

    centroid_scales: float32 [S, L].
    """
    width, lists, spaces = codes.shape[1], len(numbers), len(starts) - 1
    sums, together = np.empty((BLOCK, spaces, CHUNK), np.int32), np.empty(CHUNK, np.float32)
    from_codes, from_numbers, to_sums = codes.ctypes.data, numbers.ctypes.data, sums.ctypes.data
    for block in range(start, stop, BLOCK):
        end = min(block + BLOCK, stop)
        for chunk in range(0, lists, CHUNK):
            count = min(CHUNK, lists - chunk)
            for first in range(0, count, GROUP):
                for document in range(block, end):
                    for space in range(spaces):
                        begin = starts[space]
                        _group_products(
                            from_codes + document * width + begin,
                            from_numbers + ((chunk + first) * width + begin) * 2,
                            to_sums + (((document - block) * spaces + space) * CHUNK + first) * 4,
                            width,
                            (starts[space + 1] - begin) // STEP,
                        )
            for document in range(block, end):
                together[:count] = 0.0
                for space in range(spaces):
                    scale = scales[document, space]
                    for one in range(count):
                        factor = scale * centroid_scales[space, chunk + one]
                        together[one] += np.float32(sums[document - block, space, one]) * factor
                for one in range(count):
                    if together[one] > products[document]:
                        products[document], nearest[document] = together[one], chunk + one
