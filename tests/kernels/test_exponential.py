"""The compiled exponential function against the library's in double precision."""

import numpy as np
from numba import njit

from rerank_plugin.kernels.exponential import exponential


@njit(fastmath={"reassoc", "contract", "nsz"})
def exponentials(numbers, found):
    """In a loop that may reorder sums, as its callers' loops."""
    for place in range(len(numbers)):
        found[place] = exponential(numbers[place])


def found_for(numbers):
    numbers = np.asarray(numbers, np.float32)
    found = np.full(len(numbers), 7, np.float32)
    exponentials(numbers, found)
    return found


def test_relative_error():
    """Over the whole range, near 0, and around the borders of the powers of two."""
    ranges = [np.linspace(low, high, 500_001) for low, high in ((-87, 88), (-1, 1), (-1e-3, 1e-3))]
    borders = (np.arange(-125, 127) + 0.5) * np.log(2)
    around = [borders + error for error in (-1e-5, -1e-7, 0, 1e-7, 1e-5)]
    numbers = np.concatenate([*ranges, *around]).astype(np.float32)
    assert np.abs(found_for(numbers) / np.exp(numbers.astype(np.float64)) - 1).max() < 2e-7


def test_large_negative_numbers_give_zero():
    assert found_for([-87.0001, -88, -103, -1e4, -1e30, -np.inf]).tolist() == [0] * 6
    assert found_for([0.0, -0.0]).tolist() == [1, 1]


def test_nan_stays_nan():
    found = found_for([np.nan] * 9 + [1])
    assert np.isnan(found[:9]).all() and found[9] == np.float32(np.e)


def test_a_number_alone_gives_the_same():
    numbers = np.linspace(-80, 80, 97).astype(np.float32)
    assert [found_for([number])[0] for number in numbers] == found_for(numbers).tolist()
