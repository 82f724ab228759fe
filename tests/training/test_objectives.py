"""Objectives: what is drawn, and losses worked out by hand."""

import math

import numpy as np
import pytest
import torch

from rerank_plugin.files.errors import InputError
from rerank_plugin.training.objectives import objective, pairwise_hinge, relevance_weights
from rerank_plugin.training.pairs import Pool


def tensor(*values):
    return torch.tensor(values, dtype=torch.float32, requires_grad=True)


def test_pairwise_hinge_by_hand():
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


def pool(name, relevance):
    relevance = np.array(relevance, np.float32)
    return Pool(name, None, np.arange(len(relevance)), relevance, np.zeros((len(relevance), 0), np.float32))


def test_hinge_by_hand():
    """Pairs (s+, s-, rel+, rel-): (2, 0.5, 4, 0) has margin -0.5 and costs nothing; (1, 1, 2, 1) costs 1,
    and (0, 1, 4, 0) 2."""
    scores = torch.tensor([[2.0, 1.0, 0.0], [0.5, 1.0, 1.0]])
    relevance = torch.tensor([[4.0, 2.0, 4.0], [0.0, 1.0, 0.0]])
    assert objective("hinge", "sqrt").loss(scores, relevance).item() == pytest.approx((0 + 1 + 2 * 2) / 3)
    assert objective("hinge", "none").loss(scores, relevance).item() == pytest.approx((0 + 1 + 2) / 3)


def test_margins_by_hand():
    """Differences of scores 1.5, 0 and -1 should be 0.5, 1 and 0.25: errors 1, -1 and -1.25."""
    scores = torch.tensor([[2.0, 1.0, 0.0], [0.5, 1.0, 1.0]])
    relevance = torch.tensor([[0.75, 1.0, 0.5], [0.25, 0.0, 0.25]])
    assert objective("margin", "none").loss(scores, relevance).item() == pytest.approx((1 + 1 + 1.5625) / 3)


def test_cross_entropy_by_hand():
    """Scores 0 and ln 3 are the probabilities 1/2 and 3/4."""
    scores, relevance = torch.tensor([[0.0, math.log(3), math.log(3)]]), torch.tensor([[1.0, 0.0, 15.0]])
    losses = [math.log(2), math.log(4), math.log(4 / 3)]
    assert objective("bce", "none").loss(scores, relevance).item() == pytest.approx(sum(losses) / 3)
    weighted = [1 * losses[0], 1 * losses[1], math.log(16) * losses[2]]  # ln(1 + 1) < 1
    assert objective("bce", "log").loss(scores, relevance).item() == pytest.approx(sum(weighted) / 3)
    weighted[2] = math.sqrt(15) * losses[2]
    assert objective("bce", "sqrt").loss(scores, relevance).item() == pytest.approx(sum(weighted) / 3)


def test_a_classifier_draws_as_many_relevant_documents_as_others():
    pools = [pool("a", [2, 1, 1, 0, 0, 0, 0]), pool("b", [1, 0]), pool("c", [3, 1, 1, 0])]
    drawn = objective("bce", "none").draw(pools, 4, np.random.default_rng(1))
    assert drawn.places.shape == (1, len(drawn.pool))
    for number, (per_class, one) in enumerate(zip([2, 1, 1], pools)):
        places = drawn.places[0][drawn.pool == number]
        assert len(set(places.tolist())) == len(places) == 2 * per_class
        assert (one.relevance[places] > 0).sum() == per_class
    again = objective("bce", "none").draw(pools, 4, np.random.default_rng(1))
    assert (again.places == drawn.places).all() and (again.pool == drawn.pool).all()


def test_every_document_is_drawn_in_time():
    generator, one = np.random.default_rng(3), pool("a", [1, 1, 1, 0, 0, 0])
    seen = {int(place) for _ in range(60) for place in objective("bce", "none").draw([one], 2, generator).places[0]}
    assert seen == set(range(6))


def test_no_pools():
    for name, sampling, documents in (("hinge", "balanced", 2), ("hinge", "groups", 2), ("bce", "balanced", 1)):
        drawn = objective(name, "none", sampling).draw([], 5, np.random.default_rng(1))
        assert drawn.pool.shape == (0,) and drawn.places.shape == (documents, 0)


def test_sampling_by_groups():
    """A highly relevant document is never drawn against one that is not relevant."""
    one = pool("a", [2, 1, 0, 0, 0])
    better, worse = objective("hinge", "none", "groups").draw([one], 50, np.random.default_rng(1)).places
    assert {tuple(pair) for pair in one.relevance[np.stack([better, worse], 1)].tolist()} == {(2, 1), (1, 0)}
    better, worse = objective("hinge", "none").draw([one], 50, np.random.default_rng(1)).places
    assert (2, 0) in {tuple(pair) for pair in one.relevance[np.stack([better, worse], 1)].tolist()}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("mse", "none", "balanced"), "unknown loss 'mse'; known: hinge, bce, margin"),
        (("hinge", "log", "balanced"), "the loss 'hinge' has no weights 'log'; known: sqrt, none"),
        (("bce", "x", "balanced"), "the loss 'bce' has no weights 'x'; known: log, sqrt, none"),
        (("hinge", "none", "x"), "the loss 'hinge' has no sampling 'x'; known: balanced, groups"),
        (("bce", "none", "groups"), "the loss 'bce' has no sampling 'groups'; known: balanced"),
    ],
)
def test_unknown_names(given, said):
    with pytest.raises(InputError, match=f"{said}$"):
        objective(*given)
