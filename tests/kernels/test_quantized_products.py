"""Exact products of codes against plain numpy in 64-bit integers, and the best documents against sorting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.kernels.quantization import LARGEST_SUM, Codes, QuantizedQueries, Spaces
from rerank_plugin.kernels.quantized_products import best, nearest_lists, scores
from tests import guarded
from tests.processes import run

WIDTHS = st.lists(st.integers(1, 70), min_size=1, max_size=3)
SEEDS = st.integers(0, 2**32 - 1)


def twin(found, queries):
    """The scores float32 [Q, n], in 64-bit integers and double precision."""
    total = np.zeros((len(queries.numbers), len(found.codes)))
    for space, (start, stop) in enumerate(zip(queries.starts, queries.starts[1:])):
        numbers, codes = queries.numbers[:, start:stop].astype(np.int64), found.codes[:, start:stop].astype(np.int64)
        total = total + (numbers @ codes.T) * found.scales[:, space].astype(np.float64) * queries.scales[:, [space]]
    return total.astype(np.float32)


def vectors_of(random, count, size):
    """Vectors of all sizes, some of them 0, and some twice."""
    vectors = random.standard_normal((count, size)) * 10.0 ** random.integers(-5, 5, (count, 1))
    vectors[random.random(count) < 0.2] = 0
    return vectors[random.integers(0, count, count)].astype(np.float32) if count else vectors.astype(np.float32)


def in_ranges(random, count):
    """Ranges of positions in any order that do not overlap: starts and stops."""
    cuts = np.unique(np.concatenate([[0, count], random.integers(0, count + 1, 5)]))
    order = random.permutation(len(cuts) - 1)
    return cuts[:-1][order], cuts[1:][order]


def sorted_best(scores, rows, count):
    order = np.lexsort((rows, -scores))[:count]
    return rows[order].tolist(), scores[order].tolist()


@given(WIDTHS, st.integers(0, 60), st.integers(1, 4), st.integers(1, 70), SEEDS)
def test_every_way_gives_the_same_bits_as_plain_numpy(widths, count, queries, best_of, seed):
    random, spaces = np.random.default_rng(seed), Spaces(widths)
    found = spaces.quantize(vectors_of(random, count, spaces.size))
    asked = spaces.quantize_queries(vectors_of(random, queries, spaces.size))
    expected, all_positions = twin(found, asked), np.arange(count)
    assert np.array_equal(scores(found, all_positions, asked), expected)
    some = random.integers(0, count, 30) if count else all_positions
    for one in range(queries):
        assert np.array_equal(scores(found, some, asked.take([one]))[0], expected[one, some])
    rows = random.permutation(count + 5)[:count].astype(np.int32)
    kept = np.flatnonzero(random.random(count) < 0.5)
    for starts, stops, positions in [(*in_ranges(random, count), all_positions), (kept, kept + 1, kept)]:
        hits = best(found, rows, starts, stops, asked, best_of)
        for one, (found_rows, found_scores) in enumerate(hits):
            expected_best = sorted_best(expected[one, positions], rows[positions], best_of)
            assert (found_rows.tolist(), found_scores.tolist()) == expected_best
        lowest = np.float32([expected[one, random.integers(count)] if count else 0 for one in range(queries)])
        for one, (found_rows, _) in enumerate(best(found, rows, starts, stops, asked, best_of, lowest=lowest)):
            high = positions[expected[one, positions] >= lowest[one]]
            assert found_rows.tolist() == sorted_best(expected[one, high], rows[high], best_of)[0]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_nothing(threads):
    """Enough documents that several parts select on their own, and scores that occur many times."""
    random, spaces = np.random.default_rng(3), Spaces([5])
    found = spaces.quantize(random.integers(-2, 3, (40_000, 5)).astype(np.float32))
    asked = spaces.quantize_queries(np.float32([[3, 1, 0, 1, 2], [0, 0, 1, 0, 0]]))
    rows, starts = random.permutation(40_000).astype(np.int32), np.arange(0, 40_000, 100)
    expected = twin(found, asked)
    assert np.array_equal(scores(found, np.arange(40_000), asked, threads), expected)
    for one, hits in enumerate(best(found, rows, starts, starts + 100, asked, 700, threads)):
        assert (hits[0].tolist(), hits[1].tolist()) == sorted_best(expected[one], rows, 700)


def test_more_keys_than_fit_are_cut_while_they_are_collected():
    """Scores that rise from the first document to the last, so that each displaces an earlier one."""
    spaces, count = Spaces([1]), 10_000
    found = Codes(np.full((count, spaces.padded), 0, np.int8), np.arange(count, dtype=np.float32)[:, None])
    found.codes[:, 0] = 127
    asked = spaces.quantize_queries(np.ones((1, 1), np.float32))
    rows, _ = best(found, np.arange(count, dtype=np.int32), np.array([0]), np.array([count]), asked, 3)[0]
    assert rows.tolist() == [9999, 9998, 9997]


def test_products_of_the_largest_numbers_do_not_overflow():
    """Queries of equal numbers are at the bound: the sum of their 16-bit numbers is as large as it may be."""
    for width in (32, 512, 516, 600, 5000):
        spaces = Spaces([width])
        for sign in (1, -1):
            asked = spaces.quantize_queries(np.full((1, width), sign * 3.0, np.float32))
            assert np.abs(asked.numbers.astype(np.int64)).sum() <= LARGEST_SUM
            found = Codes(np.full((1, spaces.padded), -128, np.int8), np.ones((1, 1), np.float32))
            assert np.array_equal(scores(found, np.array([0]), asked), twin(found, asked))


@given(WIDTHS, SEEDS)
def test_queries_keep_about_15_bits(widths, seed):
    random, spaces = np.random.default_rng(seed), Spaces(widths)
    vectors = vectors_of(random, 5, spaces.size)
    asked = spaces.quantize_queries(vectors)
    decoded = (asked.numbers * np.repeat(asked.scales, np.diff(asked.starts), axis=1))[:, spaces.columns]
    assert asked.numbers.ctypes.data % 64 == 0
    for part, whole in zip(spaces.parts(decoded), spaces.parts(vectors)):
        assert np.abs(part - whole).max() <= np.abs(whole).max() * 2.0**-15


@given(WIDTHS, SEEDS)
def test_codes_are_off_by_half_a_step_at_most(widths, seed):
    random, spaces = np.random.default_rng(seed), Spaces(widths)
    vectors = vectors_of(random, 20, spaces.size)
    found = spaces.quantize(vectors)
    assert found.codes.min() >= -127 and spaces.decode(found).dtype == np.float32
    for part, whole in zip(spaces.parts(spaces.decode(found)), spaces.parts(vectors)):
        assert np.all(np.abs(part - whole) <= np.abs(whole).max(axis=1, keepdims=True) / 127 * 0.501)


def test_worked_example():
    """Two spaces, of two numbers and of one: the codes 127 and -64 of 1 and -0.5, and 127 of 4."""
    spaces = Spaces([2, 1])
    found = spaces.quantize(np.float32([[1, -0.5, 4]]))
    assert found.codes[:, spaces.columns].tolist() == [[127, -64, 127]]
    assert found.scales.ravel().tolist() == pytest.approx([1 / 127, 4 / 127])
    asked = spaces.quantize_queries(np.float32([[2, 1, 0.5]]))
    assert scores(found, np.array([0]), asked)[0, 0] == pytest.approx(2 * 1 - 64 / 127 + 0.5 * 4, rel=1e-4)


@given(st.integers(1, 40), st.integers(1, 20), SEEDS)
def test_the_nearest_centroid_is_the_first_with_the_largest_product(count, lists, seed):
    random, spaces = np.random.default_rng(seed), Spaces([40, 7])
    found = spaces.quantize(vectors_of(random, count, spaces.size))
    asked = spaces.quantize_queries(vectors_of(random, lists, spaces.size))
    nearest, products = nearest_lists(found, asked, threads=2)
    expected = np.zeros((count, lists), np.float32)  # in single precision, space after space
    for space, (start, stop) in enumerate(zip(asked.starts, asked.starts[1:])):
        sums = found.codes[:, start:stop].astype(np.int64) @ asked.numbers[:, start:stop].astype(np.int64).T
        factors = found.scales[:, [space]] * asked.scales[:, space].astype(np.float32)
        expected += sums.astype(np.float32) * factors
    assert np.array_equal(nearest, expected.argmax(axis=1)) and np.array_equal(products, expected.max(axis=1))


def test_nothing_to_find():
    spaces = Spaces([3])
    found, asked = spaces.quantize(np.zeros((0, 3), np.float32)), spaces.quantize_queries(np.ones((2, 3), np.float32))
    none = np.zeros(0, np.int64)
    assert scores(found, none, asked).shape == (2, 0)
    assert [len(rows) for rows, _ in best(found, np.zeros(0, np.int32), none, none, asked, 5)] == [0, 0]
    assert isinstance(asked, QuantizedQueries)


def stay_inside():
    """Codes and scales with forbidden memory directly behind or before."""
    for at_end, count, widths in ((end, *rest) for end in (True, False) for rest in ((1, [1]), (9, [32, 70]))):
        spaces = Spaces(widths)
        found = Codes(
            guarded.fenced((count, spaces.padded), np.int8, at_end),
            guarded.fenced((count, len(widths)), np.float32, at_end),
        )
        asked = spaces.quantize_queries(np.ones((3, spaces.size), np.float32))
        numbers = guarded.fenced(asked.numbers.shape, np.int16, at_end)
        numbers[:], found.codes[:], found.scales[:] = asked.numbers, 1, 1
        asked, rows = asked._replace(numbers=numbers), guarded.fenced((count,), np.int32, at_end)
        rows[:] = np.arange(count)
        expected = twin(found, asked)
        assert np.array_equal(scores(found, np.arange(count), asked), expected)
        assert best(found, rows, np.array([0]), np.array([count]), asked, 1)[0][1] == expected[0, 0]
        assert not nearest_lists(found, asked)[0].any()


@pytest.mark.skipif(not guarded.FENCES, reason="needs Linux's memory protection")
def test_no_memory_outside_the_arrays_is_touched():
    run("-c", "from tests.kernels import test_quantized_products; test_quantized_products.stay_inside()")


def test_products_that_vanish_from_below_are_equal_to_zero():
    """-1e-60 is -0.0 as a float32, and would come after the 0 of a later document."""
    spaces = Spaces([1])
    found, asked = spaces.quantize(np.float32([[-1e-30], [0], [1e-30]])), np.float32([[1e-30]])
    asked = spaces.quantize_queries(asked)
    assert not np.signbit(scores(found, np.arange(3), asked)).any()
    assert best(found, np.arange(3, dtype=np.int32), np.array([0]), np.array([3]), asked, 3)[0][0].tolist() == [0, 1, 2]
