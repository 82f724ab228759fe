"""TransE: a step by hand, a plain twin, training on a learnable graph, and the seed."""

import numpy as np
import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.knowledge import transe
from rerank_plugin.knowledge.link_prediction import evaluate, hold_out
from rerank_plugin.knowledge.transe import Corruption, TransEConfig, head_shares, start, train
from rerank_plugin.knowledge.transe_step import steps

PLAIN = TransEConfig(relation_length=0, decay=False, bernoulli=False)  # as in the paper


@pytest.mark.parametrize(
    "norm, loss, relation, moved",
    [
        # Residuals: (1, 0) + (-.5, .5) - (0, 1) = (.5, -.5), distance .5; minus (.6, .8): (-.1, -.3), distance .1.
        # Gradients 2 (.5, -.5) = (1, -1) and 2 (-.1, -.3) = (-.2, -.6); head and relation move by -.1 (1.2, -.4),
        # the tails by .1 (1, -1) and -.1 (-.2, -.6).
        (2, 1 + 0.5 - 0.1, [-0.5 - 0.12, 0.5 + 0.04], [[0.88, 0.04], [0.1, 0.9], [0.62, 0.86]]),
        # Distances 1 and .4; signs (1, -1) and (-1, -1): head and relation move by -.1 (2, 0).
        (1, 1 + 1 - 0.4, [-0.7, 0.5], [[0.8, 0], [0.1, 0.9], [0.7, 0.9]]),
    ],
)
def test_a_step_by_hand(norm, loss, relation, moved):
    entities = np.array([[1, 0], [0, 1], [0.6, 0.8]], np.float32)
    relations = np.array([[-0.5, 0.5]], np.float32)
    positive, negative = np.array([[0, 0, 1]], np.int32), np.array([[0, 0, 2]], np.int32)
    assert steps(entities, relations, positive, negative, 1, 1.0, 0.1, norm, np.inf) == pytest.approx(loss)
    assert relations[0] == pytest.approx(relation)
    assert entities == pytest.approx(np.array(moved) / np.linalg.norm(moved, axis=1, keepdims=True))


def twin_step(entities, relations, positives, negatives, margin, rate, norm, longest):
    """The same with plain numpy, in float64: gradients where the vectors stood, then all normalized; and the loss."""
    loss = 0
    moves, relation_moves = np.zeros(entities.shape), np.zeros(relations.shape)
    for good, bad in zip(positives, negatives):
        residuals = [entities[h] + relations[r] - entities[t] for h, r, t in (good, bad)]
        distances = [abs(residual).sum() if norm == 1 else (residual**2).sum() for residual in residuals]
        if margin + distances[0] - distances[1] > 0:
            loss += margin + distances[0] - distances[1]
            for (h, r, t), residual, sign in zip((good, bad), residuals, (-1, 1)):
                gradient = sign * rate * (np.sign(residual) if norm == 1 else 2 * residual)
                moves[h] += gradient
                relation_moves[r] += gradient
                moves[t] -= gradient
    moved = entities + moves
    free = relations + relation_moves
    lengths = np.linalg.norm(free, axis=1, keepdims=True)
    return moved / np.linalg.norm(moved, axis=1, keepdims=True), free / np.maximum(1, lengths / longest), loss


@pytest.mark.parametrize("norm, longest, margin", [(1, np.inf, 1), (1, 5, 0.3), (2, np.inf, 0.3), (2, 0.9, 1)])
def test_steps_agree_with_a_plain_twin(norm, longest, margin):
    """Relations are shortened where they are too long; what is far enough apart already does not move."""
    random = np.random.default_rng(3)
    vectors = start(20, 3, 8, random)
    vectors.relations[:] *= min(1, longest)
    *expected, total = *(matrix.astype(np.float64) for matrix in vectors), 0
    triples = np.stack([random.integers(0, high, 23) for high in (20, 3, 20)], axis=1).astype(np.int32)
    corrupted = np.stack([random.integers(0, 20, 23), triples[:, 1], triples[:, 2]], axis=1).astype(np.int32)
    for begin in range(0, 23, 5):
        batch = triples[begin : begin + 5], corrupted[begin : begin + 5]
        *expected, loss = twin_step(*expected, *batch, margin, 0.05, norm, longest)
        total += loss
    assert steps(*vectors, triples, corrupted, 5, margin, 0.05, norm, longest) == pytest.approx(total, rel=1e-4)
    for matrix, expected_matrix in zip(vectors, expected):
        assert matrix == pytest.approx(expected_matrix, abs=1e-5)


def families():
    """40 families of 4 kinds of concepts, and a relation between each two kinds within a family: a translation."""
    at = np.arange(160).reshape(40, 4)
    kinds = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    return np.array([(of[a], number, of[b]) for of in at for number, (a, b) in enumerate(kinds)], np.int32)


@pytest.mark.parametrize("norm", [1, 2])
def test_a_learnable_graph_is_learned(norm):
    triples = families()
    training, held_out = hold_out(triples, 160, 0.1, seed=0)
    config = TransEConfig(20, 150, 2.0, 0.01, 8, 5, norm, 0, False, False)
    vectors = train(training, 160, 6, config, seed=1)
    learned = evaluate(vectors, held_out, triples, norm)
    untrained = evaluate(start(160, 6, 20, np.random.default_rng(1)), held_out, triples, norm)
    assert learned.hits_at_10 > 0.9 > 0.3 > untrained.hits_at_10
    assert np.linalg.norm(vectors.entities, axis=1) == pytest.approx(np.ones(160), abs=1e-5)


def test_the_seed_decides():
    config = TransEConfig(8, 3, 1.0, 0.01, 8, 2, 1, 0)
    first, repeated, other_seed = (train(families(), 160, 6, config, seed) for seed in (1, 1, 2))
    assert all((a == b).all() for a, b in zip(first, repeated))
    assert not np.allclose(first.entities, other_seed.entities)


def test_the_learning_rate_decays_to_0(monkeypatch):
    rates = []
    monkeypatch.setattr(transe, "_epoch", lambda *arguments: rates.append(arguments[-2]))
    for decay in (True, False):
        train(families(), 160, 6, TransEConfig(8, 4, learning_rate=0.1, decay=decay), seed=1)
    assert rates == pytest.approx([0.1, 0.075, 0.05, 0.025, 0.1, 0.1, 0.1, 0.1])


def test_chunks_of_corruptions_keep_every_triple(monkeypatch):
    seen = []
    original = Corruption.draw
    monkeypatch.setattr(transe, "DRAWN", 20)
    monkeypatch.setattr(Corruption, "draw", lambda self, positives: seen.append(positives) or original(self, positives))
    train(families(), 160, 6, TransEConfig(8, 1, batch_size=8, negatives=3), seed=1)
    assert max(map(len, seen)) == 16 * 3
    drawn, counts = np.unique(np.concatenate(seen), axis=0, return_counts=True)
    assert (drawn == np.unique(families(), axis=0)).all() and (counts == 3).all()


def test_a_corruption_replaces_one_side_and_keeps_the_relation():
    triples = families()
    corrupted = Corruption(triples, 160, 6, PLAIN, np.random.default_rng(0)).draw(np.repeat(triples, 20, axis=0))
    heads, tails = (corrupted[:, side] != np.repeat(triples, 20, axis=0)[:, side] for side in (0, 2))
    assert not (heads & tails).any() and (corrupted[:, 1] == np.repeat(triples[:, 1], 20)).all()
    assert 0.45 < heads.mean() < 0.55 and 0.45 < tails.mean() < 0.55


def test_the_side_with_fewer_answers_is_corrupted_more_often():
    many_to_one = np.array([(h, 0, 9) for h in range(4)] + [(0, 1, 1)], np.int32)
    corruption = Corruption(many_to_one, 99, 3, TransEConfig(bernoulli=True), np.random.default_rng(0))
    negatives = corruption.draw(np.repeat(many_to_one[:4], 500, axis=0))
    assert 0.75 < (negatives[:, 2] != 9).mean() < 0.83  # the tail in four of five cases
    assert head_shares(many_to_one, 3) == pytest.approx([1 / 5, 1 / 2, 1 / 2])  # one tail per head, four heads per tail


def test_concepts_without_a_relation_have_a_direction_of_length_1():
    vectors = train(np.array([[0, 0, 1], [1, 0, 2]], np.int32), 6, 1, TransEConfig(16, 2), seed=1)
    assert np.linalg.norm(vectors.entities, axis=1) == pytest.approx(np.ones(6), abs=1e-5)


def test_nothing_to_learn_from_and_divergence_are_errors():
    with pytest.raises(InputError, match="no relation"):
        train(np.zeros((0, 3), np.int32), 5, 0, TransEConfig(), seed=1)
    with pytest.raises(InputError, match="lower the learning rate"):
        train(families(), 160, 6, TransEConfig(8, 20, learning_rate=1e38), seed=1)
