"""Objectives: what is drawn, and losses worked out by hand."""

import math

import numpy as np
import pytest
import torch

from rerank_plugin.training.objectives import OBJECTIVES, pairwise_hinge, relevance_weights
from tests.training.learnable import pool_of


def objective(loss, weights, sampling="balanced"):
    return OBJECTIVES[loss](weights, sampling)


def tensor(*values):
    return torch.tensor(values, dtype=torch.float32, requires_grad=True)


def test_pairwise_hinge_by_hand():
    """max(0, 1 - 2 + 0) = 0, max(0, 1 - 0.5 + 0.25) = 0.75, max(0, 1 - 0 + 3) = 4; weights 5, 2, 1: 5.5 / 3.

    A pair that is beyond the margin pays for no other. Gradients are zero there; elsewhere -weight/n for the better and
    +weight/n for the worse document.
    """
    better, worse = tensor(2, 0.5, 0), tensor(0, 0.25, 3)
    loss = pairwise_hinge(better, worse, torch.tensor([5.0, 2.0, 1.0]))
    assert loss.shape == () and loss.item() == pytest.approx(5.5 / 3)
    loss.backward()
    assert better.grad.tolist() == pytest.approx([0, -2 / 3, -1 / 3])
    assert worse.grad.tolist() == pytest.approx([0, 2 / 3, 1 / 3])


def test_weights_are_square_roots_of_the_difference():
    """[D18] 4.2.1."""
    assert relevance_weights(tensor(4, 100, 2.25, 3), tensor(0, 19, 0, 2)).tolist() == pytest.approx([2, 9, 1.5, 1])


PAIRS = torch.tensor([[2.0, 1.0, 0.0], [0.5, 1.0, 1.0]])
SINGLE, LOSSES = torch.tensor([[0.0, math.log(3), math.log(3)]]), (math.log(2), math.log(4), math.log(4 / 3))


@pytest.mark.parametrize(
    ("loss", "weights", "scores", "relevance", "expected"),
    [
        # Pairs (s+, s-, rel+, rel-): (2, 0.5, 4, 0) has margin -0.5 and costs nothing; (1, 1, 2, 1) costs 1, and
        # (0, 1, 4, 0) 2.
        ("hinge", "sqrt", PAIRS, [[4, 2, 4], [0, 1, 0]], (0, 1, 2 * 2)),
        ("hinge", "none", PAIRS, [[4, 2, 4], [0, 1, 0]], (0, 1, 2)),
        # Differences of scores 1.5, 0 and -1 should be 0.5, 1 and 0.25: errors 1, -1 and -1.25.
        ("margin", "none", PAIRS, [[0.75, 1, 0.5], [0.25, 0, 0.25]], (1, 1, 1.5625)),
        # Scores 0 and ln 3 are the probabilities 1/2 and 3/4; ln(1 + 1) < 1.
        ("bce", "none", SINGLE, [[1, 0, 15]], LOSSES),
        ("bce", "log", SINGLE, [[1, 0, 15]], (*LOSSES[:2], math.log(16) * LOSSES[2])),
        ("bce", "sqrt", SINGLE, [[1, 0, 15]], (*LOSSES[:2], math.sqrt(15) * LOSSES[2])),
    ],
)
def test_losses_by_hand(loss, weights, scores, relevance, expected):
    found = objective(loss, weights).loss(scores, torch.tensor(relevance, dtype=torch.float32))
    assert found.item() == pytest.approx(sum(expected) / 3)


def test_a_classifier_draws_as_many_relevant_documents_as_others():
    pools = [pool_of(relevance) for relevance in ([2, 1, 1, 0, 0, 0, 0], [1, 0], [3, 1, 1, 0])]
    drawn = objective("bce", "none").draw(pools, 4, np.random.default_rng(1))
    assert drawn.places.shape == (1, len(drawn.pool))
    for number, (per_class, one) in enumerate(zip([2, 1, 1], pools)):
        places = drawn.places[0][drawn.pool == number]
        assert len(set(places.tolist())) == len(places) == 2 * per_class
        assert (one.relevance[places] > 0).sum() == per_class
    again = objective("bce", "none").draw(pools, 4, np.random.default_rng(1))
    assert (again.places == drawn.places).all() and (again.pool == drawn.pool).all()


def test_every_document_is_drawn_in_time():
    generator, one = np.random.default_rng(3), pool_of([1, 1, 1, 0, 0, 0])
    seen = {int(place) for _ in range(60) for place in objective("bce", "none").draw([one], 2, generator).places[0]}
    assert seen == set(range(6))


def test_no_pools():
    for name, sampling, documents in (("hinge", "balanced", 2), ("hinge", "groups", 2), ("bce", "balanced", 1)):
        drawn = objective(name, "none", sampling).draw([], 5, np.random.default_rng(1))
        assert drawn.pool.shape == (0,) and drawn.places.shape == (documents, 0)


def test_sampling_by_groups():
    """A highly relevant document is never drawn against one that is not relevant."""
    one = pool_of([2, 1, 0, 0, 0])
    better, worse = objective("hinge", "none", "groups").draw([one], 50, np.random.default_rng(1)).places
    assert {tuple(pair) for pair in one.relevance[np.stack([better, worse], 1)].tolist()} == {(2, 1), (1, 0)}
    better, worse = objective("hinge", "none").draw([one], 50, np.random.default_rng(1)).places
    assert (2, 0) in {tuple(pair) for pair in one.relevance[np.stack([better, worse], 1)].tolist()}
