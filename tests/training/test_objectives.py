"""Objectives: what is drawn, and losses worked out by hand."""

import math

import numpy as np
import pytest
import torch

from rerank_plugin.files.errors import InputError
from rerank_plugin.training.objectives import objective
from rerank_plugin.training.pairs import Pool


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


def test_pairs_are_the_better_document_and_the_worse():
    one = pool("a", [2, 1, 0, 0, 0])
    drawn = objective("hinge", "sqrt").draw([one], 50, np.random.default_rng(1))
    better, worse = drawn.places
    assert len(better) and (one.relevance[better] > one.relevance[worse]).all()


def test_no_pools():
    for name in ("hinge", "bce"):
        drawn = objective(name, "none").draw([], 5, np.random.default_rng(1))
        assert len(drawn.pool) == 0 and drawn.places.shape[1] == 0


@pytest.mark.parametrize(
    ("loss", "weights", "said"), [("mse", "none", "mse"), ("hinge", "log", "log.*sqrt"), ("bce", "x", "x")]
)
def test_unknown_names(loss, weights, said):
    with pytest.raises(InputError, match=said):
        objective(loss, weights)


def test_sampling_by_groups():
    """A highly relevant document is never drawn against one that is not relevant."""
    one = pool("a", [2, 1, 0, 0, 0])
    better, worse = objective("hinge", "none", "groups").draw([one], 50, np.random.default_rng(1)).places
    assert {tuple(pair) for pair in one.relevance[np.stack([better, worse], 1)].tolist()} == {(2, 1), (1, 0)}
    better, worse = objective("hinge", "none").draw([one], 50, np.random.default_rng(1)).places
    assert (2, 0) in {tuple(pair) for pair in one.relevance[np.stack([better, worse], 1)].tolist()}


@pytest.mark.parametrize(
    ("loss", "sampling", "said"), [("hinge", "x", "balanced, groups"), ("bce", "groups", "balanced")]
)
def test_unknown_samplings(loss, sampling, said):
    with pytest.raises(InputError, match=f"'{loss}' has no sampling '{sampling}'; known: {said}$"):
        objective(loss, "none", sampling)
