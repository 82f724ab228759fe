"""The compiled layers and convolutions against numpy in double precision, one number at a time and beyond borders."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.kernels.dense_layers import (
    ROWS,
    DenseLayers,
    dense,
    pack_panels,
    pad_columns,
    pad_vector,
    round_up,
)
from rerank_plugin.kernels.intrinsics import LANES
from rerank_plugin.kernels.parallel import Workspace
from tests import guarded
from tests.processes import run

EPSILON = float(np.finfo(np.float32).eps)


def plain_convolution(source, weights, bias, slope, rows, width):
    """``leaky(bias + windows @ weights)`` and the sums of the terms' sizes, float64 [rows, filters] both."""
    inward = np.stack([source[row : row + width].astype(np.float64).ravel() for row in range(rows)])
    sums = inward @ weights.astype(np.float64) + bias
    sizes = np.abs(inward) @ np.abs(weights.astype(np.float64)) + np.abs(bias)
    return np.where(sums > 0, sums, sums * float(slope)), sizes


def convolved(source, weights, bias, slope, rows, width):
    """The compiled convolution of real filters, float32 [rows, filters], from arrays that end where they may."""
    filters = weights.shape[1]
    longer = np.full((rows + width - 1 + ROWS, source.shape[1]), np.nan, np.float32)
    longer[: rows + width - 1] = source[: rows + width - 1]
    target = np.full((rows + ROWS - 1, round_up(filters)), np.nan, np.float32)
    dense(longer, pack_panels(weights), pad_vector(bias), np.float32(slope), target, rows)
    return target[:rows, :filters]


@pytest.mark.parametrize(
    ("filters", "padded"), [(0, 0), (1, 16), (15, 16), (16, 16), (17, 32), (32, 32), (33, 48), (70, 80)]
)
def test_filters_are_padded_to_whole_vectors(filters, padded):
    assert round_up(filters) == padded and padded % LANES == 0
    matrix = np.arange(3 * filters, dtype=np.float32).reshape(3, filters) + 1
    wide, panels = pad_columns(matrix), pack_panels(matrix)
    assert wide.shape == (3, padded) and wide.dtype == np.float32
    assert wide.flags.c_contiguous and not np.shares_memory(wide, matrix)
    np.testing.assert_array_equal(wide[:, :filters], matrix)
    assert not wide[:, filters:].any()
    assert panels.shape == (padded // LANES, 3, LANES) and panels.flags.c_contiguous
    assert all((panels[i // LANES, :, i % LANES] == wide[:, i]).all() for i in range(padded))


def test_golden_convolution():
    """Width 3 over the rows 1, 2, 3, 4, 5 with weights 1, 10, 100 and -1, 0, 0; biases 1000 and 2; slope 0.5.

    321 = 1 + 2 * 10 + 3 * 100, and 2 - 4 = -2 leaks half of itself.
    """
    source = np.array([[1], [2], [3], [4], [5], [6]], np.float32)
    weights = np.array([[1, -1], [10, 0], [100, 0]], np.float32)
    found = convolved(source, weights, np.array([1000, 2], np.float32), 0.5, 4, 3)
    assert found.tolist() == [[1321, 1], [1432, 0], [1543, -0.5], [1654, -1]]


@given(
    rows=st.integers(1, 4 * ROWS + 2),
    width=st.sampled_from([1, 3, 5, 7]),
    inward=st.integers(1, 40),
    filters=st.integers(1, 70),
    slope=st.sampled_from([0.0, 0.01, 0.3, 1.0, 1.5]),
    seed=st.integers(0, 2**32 - 1),
    whole=st.booleans(),
)
def test_convolution_agrees_with_numpy(rows, width, inward, filters, slope, seed, whole):
    """Rows that are not multiples of ROWS, filters that are not multiples of LANES, and NaN behind the last row.

    Sums of small whole numbers are exact in any order; 0.25 of them, too.
    """
    random = np.random.default_rng(seed)

    def numbers(*shape):
        drawn = random.integers(-8, 9, size=shape) if whole else random.normal(size=shape)
        return drawn.astype(np.float32)

    source, weights, bias = numbers(rows + width - 1, inward), numbers(width * inward, filters), numbers(filters)
    slope = 0.25 if whole else slope
    expected, sizes = plain_convolution(source, weights, bias, np.float32(slope), rows, width)
    found = convolved(source, weights, bias, slope, rows, width)
    assert (np.abs(found - expected) <= (0 if whole else (width * inward + 3) * EPSILON * sizes)).all()


@pytest.mark.parametrize("width", [1, 3])
def test_a_row_has_the_same_bits_wherever_it_stands(width):
    """A document must not score otherwise because its rows fall differently into blocks of ROWS."""
    random = np.random.default_rng(5)
    rows = 3 * ROWS + 1
    source = random.normal(size=(rows + width - 1, 33)).astype(np.float32)
    weights = random.normal(size=(width * 33, 21)).astype(np.float32)
    bias = random.normal(size=21).astype(np.float32)
    whole = convolved(source, weights, bias, 0.3, rows, width)
    assert len(np.unique(whole)) == whole.size
    for first in range(rows):
        for count in (1, rows - first):
            found = convolved(source[first:], weights, bias, 0.3, count, width)
            assert found.tobytes() == whole[first : first + count].tobytes()


@pytest.mark.parametrize("place", range(2 * ROWS))
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity_stay_in_their_windows(place, value):
    source = np.ones((2 * ROWS, 2), np.float32)
    source[place, 1] = value
    found = convolved(source, np.ones((6, 3), np.float32), np.zeros(3, np.float32), 0.3, 2 * ROWS - 2, 3)
    touched = np.zeros(2 * ROWS - 2, bool)
    touched[max(place - 2, 0) : place + 1] = True
    np.testing.assert_array_equal(np.isfinite(found), np.repeat(~touched[:, None], 3, axis=1))


def test_minus_infinity_leaks_as_a_module_lets_it():
    """-inf times slope 0.3 is -inf, and times slope 0 not a number: nothing hides it."""
    source, one = np.full((1, 1), -np.inf, np.float32), np.ones((1, 1), np.float32)
    assert convolved(source, one, np.zeros(1, np.float32), 0.3, 1, 1).tolist() == [[-np.inf]]
    assert np.isnan(convolved(source, one, np.zeros(1, np.float32), 0.0, 1, 1)).all()


def test_rows_in_front_and_behind_are_left_alone():
    """No more than ROWS - 1 rows behind the last one are overwritten, and nothing before the first."""
    for rows in range(3 * ROWS):
        target = np.full((rows + 4 * ROWS, LANES), 7, np.float32)
        source = np.ones((rows + 4 * ROWS, 2), np.float32)
        panels, bias = np.ones((1, 2, LANES), np.float32), np.zeros(LANES, np.float32)
        dense(source, panels, bias, np.float32(1), target[ROWS:], rows)
        assert (target[:ROWS] == 7).all()
        assert (target[ROWS : ROWS + rows] == 2).all()
        assert (target[ROWS + rows + (ROWS - 1 if rows else 0) :] == 7).all()


def test_layers_are_applied_in_a_row():
    """Of one layer and of three, with another bias of the first one, against one matrix product after the other."""
    random = np.random.default_rng(1)
    for widths in ((9, 1), (9, 20, 17, 1)):
        layers = [(random.normal(size=(b, a)), random.normal(size=b)) for a, b in zip(widths, widths[1:])]
        source = random.normal(size=(7 + ROWS, 9)).astype(np.float32)
        packed = DenseLayers(layers, 0.1)
        for first_bias in (None, random.normal(size=widths[1]).astype(np.float32)):
            expected = source[:7].astype(np.float64)
            for place, (weight, bias) in enumerate(layers):
                expected = expected @ weight.T + (bias if place or first_bias is None else first_bias)
                if place + 1 < len(layers):
                    expected = np.where(expected > 0, expected, 0.1 * expected)
            padded = None if first_bias is None else pad_vector(first_bias)
            found = packed.outputs(source, 7, Workspace(), padded)
            np.testing.assert_allclose(found, expected[:, 0], rtol=1e-4, atol=1e-5)
    steep = DenseLayers([(np.ones((1, 1)), np.zeros(1))], 0.5, 0.25)  # the last layer has a slope of its own
    assert steep.outputs(-np.ones((6, 1), np.float32), 1, Workspace()).tolist() == [-0.25]


def stay_inside():
    """Arrays of the smallest size that the documentation allows, with forbidden memory directly behind or before."""
    for at_end, width, (inward, filters) in product((True, False), (1, 3), ((1, LANES), (5, 2 * LANES))):
        for rows in range(1, 2 * ROWS + 2):
            source = guarded.fenced((rows + width - 1 + ROWS, inward), np.float32, at_end)
            panels = guarded.fenced((filters // LANES, width * inward, LANES), np.float32, at_end)
            bias = guarded.fenced((filters,), np.float32, at_end)
            target = guarded.fenced((rows + ROWS - 1, filters), np.float32, at_end)
            source[: rows + width - 1], panels[:], bias[:] = 2, 3, 1
            dense(source, panels, bias, np.float32(0.3), target, rows)
            assert (target[:rows] == 6 * width * inward + 1).all()


@pytest.mark.skipif(not guarded.FENCES, reason="needs Linux's memory protection")
def test_no_memory_outside_the_arrays_is_touched():
    run("-c", "from tests.kernels import test_dense_layers; test_dense_layers.stay_inside()")
