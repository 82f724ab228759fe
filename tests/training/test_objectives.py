"""Objectives: sampled examples, and losses computed by hand."""

import math

import numpy as np
import pytest
import torch

from rerank_plugin.training.objectives import OBJECTIVES, pairwise_hinge, relevance_weights
from tests.training.learnable import pool_of


def objective(loss, weights, sampling="balanced"):
    return OBJECTIVES[loss](weights, sampling)


def drawn_from(pools, count, loss, sampling="balanced", seed=1):
    return objective(loss, "none", sampling).draw(
        [pool_of(relevance) for relevance in pools], count, np.random.default_rng(seed)
    )


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
SINGLE, LOSSES = torch.tensor([[math.log(3)] * 3]), (math.log(4 / 3), math.log(4), math.log(4 / 3))


@pytest.mark.parametrize(
    ("loss", "weights", "scores", "relevance", "expected"),
    [
        # Pairs (s+, s-, rel+, rel-): (2, 0.5, 4, 0) has margin -0.5 and costs nothing; (1, 1, 2, 1) costs 1, and
        # (0, 1, 4, 0) 2.
        ("hinge", "sqrt", PAIRS, [[4, 2, 4], [0, 1, 0]], (0, 1, 2 * 2)),
        ("hinge", "none", PAIRS, [[4, 2, 4], [0, 1, 0]], (0, 1, 2)),
        # Differences of scores 1.5, 0 and -1 should be 0.5, 1 and 0.25: errors 1, -1 and -1.25.
        ("margin", "none", PAIRS, [[0.75, 1, 0.5], [0.25, 0, 0.25]], (1, 1, 1.5625)),
        # The score ln 3 is the probability 3/4; ln(1 + 1) < 1.
        ("bce", "none", SINGLE, [[1, 0, 15]], LOSSES),
        ("bce", "log", SINGLE, [[1, 0, 15]], (*LOSSES[:2], math.log(16) * LOSSES[2])),
        ("bce", "sqrt", SINGLE, [[1, 0, 15]], (*LOSSES[:2], math.sqrt(15) * LOSSES[2])),
    ],
)
def test_losses_by_hand(loss, weights, scores, relevance, expected):
    found = objective(loss, weights).loss(scores, torch.tensor(relevance, dtype=torch.float32))
    assert found.item() == pytest.approx(sum(expected) / 3)


def test_a_classifier_draws_as_many_relevant_documents_as_others():
    pools = [[2, 1, 1, 0, 0, 0, 0], [1, 0], [3, 1, 1, 0]]
    drawn, again = (drawn_from(pools, 4, "bce") for _ in range(2))
    assert drawn.places.shape == (1, len(drawn.pool))
    for number, (per_class, relevance) in enumerate(zip([2, 1, 1], pools)):
        places = drawn.places[0][drawn.pool == number].tolist()
        assert len(set(places)) == len(places) == 2 * per_class
        assert sum(relevance[place] > 0 for place in places) == per_class
    assert (again.places == drawn.places).all() and (again.pool == drawn.pool).all()


def test_every_document_is_drawn_in_time():
    drawn = [drawn_from([[1, 1, 1, 0, 0, 0]], 2, "bce", seed=seed).places for seed in range(60)]
    assert set(np.concatenate(drawn, axis=1)[0]) == set(range(6))


@pytest.mark.parametrize(("loss", "sampling", "documents"), [
    ("hinge", "balanced", 2), ("hinge", "groups", 2), ("bce", "balanced", 1),
])  # fmt: skip
def test_no_pools(loss, sampling, documents):
    drawn = drawn_from([], 5, loss, sampling)
    assert drawn.pool.shape == (0,) and drawn.places.shape == (documents, 0)


@pytest.mark.parametrize(("sampling", "pairs"), [("groups", {(1, 0), (2, 1)}), ("balanced", {(1, 0), (2, 1), (2, 0)})])
def test_sampling(sampling, pairs):
    """By groups, a highly relevant document is never drawn against one that is not relevant."""
    relevance = [2, 1, 0, 0, 0]
    better, worse = drawn_from([relevance], 50, "hinge", sampling).places.tolist()
    assert {(relevance[b], relevance[w]) for b, w in zip(better, worse)} == pairs
