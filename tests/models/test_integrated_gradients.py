"""Contributions computed by hand, and paths on which equal steps would fail."""

import numpy as np
import pytest
import torch

from rerank_plugin.models.integrated_gradients import integrated_gradients


def test_a_sum_and_a_product():
    """x + 3 y adds 1 and 3; of the product of two inputs each adds half."""
    base, (words, cells) = integrated_gradients(
        lambda words, cells: 5 + words @ torch.tensor([1.0, 3.0]).double() + 8 * cells[:, 0, 0] * cells[:, 1, 1],
        [(2,), (2, 2)],
    )
    assert base == 5
    np.testing.assert_allclose(words, [1, 3])
    np.testing.assert_allclose(cells, [[4, 0], [0, 4]])


def test_what_the_larger_of_two_inputs_hides_adds_nothing():
    _, (actual,) = integrated_gradients(lambda x: torch.maximum(2 * x[:, 0], x[:, 1]), [(2,)])
    np.testing.assert_allclose(actual, [2, 0])


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (lambda x: torch.log((x.sum(dim=1)).clamp_min(1e-10)), [11.8595, 11.8595]),  # ln 2 - ln 1e-10, in halves
        (lambda x: torch.sigmoid((x[:, 0] - 0.73521) * 1e5), [1, 0]),  # changes within a ten thousandth of the path
        (lambda x: (x[:, 0] - 0.3).abs() - (x[:, 1] - 0.9).abs(), [0.4, 0.8]),
    ],
)
def test_sudden_changes(score, expected):
    base, (actual,) = integrated_gradients(score, [(2,)])
    total = float(score(torch.ones(1, 2).double()))
    assert base == pytest.approx(float(score(torch.zeros(1, 2).double())))
    assert actual.sum() == pytest.approx(total - base, rel=0.005)
    np.testing.assert_allclose(actual, expected, atol=0.06)


def test_nothing_to_attribute():
    base, (none, constant) = integrated_gradients(lambda _, x: 0 * x[:, 0] + 2, [(0,), (3,)])
    assert base == 2 and none.shape == (0,)
    np.testing.assert_array_equal(constant, 0)
