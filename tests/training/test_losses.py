"""Losses against numbers worked out by hand."""

import pytest
import torch

from rerank_plugin.training.losses import pairwise_hinge, relevance_weights


def tensor(*values):
    return torch.tensor(values, dtype=torch.float32, requires_grad=True)


def test_hinge_by_hand():
    """max(0, 1 - 2 + 0) = 0, max(0, 1 - 0.5 + 0.25) = 0.75, max(0, 1 - 0 + 3) = 4; weights 5, 2, 1: 5.5 / 3."""
    loss = pairwise_hinge(tensor(2, 0.5, 0), tensor(0, 0.25, 3), tensor(5, 2, 1))
    assert loss.shape == () and loss.item() == pytest.approx(5.5 / 3)


def test_margin_before_mean():
    """A pair that is far beyond the margin pays for no other: the mean of (0, 2), not max(0, 1 - mean difference)."""
    assert pairwise_hinge(tensor(100, 0), tensor(0, 1), tensor(1, 1)).item() == pytest.approx(1)


def test_gradients():
    """Zero beyond the margin; elsewhere -weight/n for the better and +weight/n for the worse document."""
    better, worse = tensor(2, 0.5, 0), tensor(0, 0.25, 3)
    pairwise_hinge(better, worse, torch.tensor([5.0, 2.0, 1.0])).backward()
    assert better.grad.tolist() == pytest.approx([0, -2 / 3, -1 / 3])
    assert worse.grad.tolist() == pytest.approx([0, 2 / 3, 1 / 3])


def test_weights_are_square_roots_of_the_difference():
    """[D18] 4.2.1."""
    assert relevance_weights(tensor(4, 100, 2.25, 3), tensor(0, 19, 0, 2)).tolist() == pytest.approx([2, 9, 1.5, 1])
