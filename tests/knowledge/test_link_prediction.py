import numpy as np
import pytest

from rerank_plugin.knowledge.link_prediction import evaluate, hold_out, ranks
from rerank_plugin.knowledge.transe import Translation

LINE = Translation(np.array([[0], [1], [2], [3], [10]], np.float32), np.array([[1]], np.float32))


def test_ranks_by_hand():
    # 1 + 1 = 2, so 2 is nearest, 1 and 3 tie, then 0, then 4; to find a head of 2, 1 is nearest, then 0 and 2, then 3.
    held_out = np.array([[1, 0, 3]], np.int32)
    known = np.array([[1, 0, 3], [1, 0, 2], [0, 0, 1]], np.int32)
    filtered, raw = ranks(LINE, held_out, known, 1, side=2)
    assert (filtered, raw) == ([1.5], [2.5])
    filtered, raw = ranks(LINE, held_out, known, 1, side=0)  # 3 - 1 = 2 is nearest; 1 and 3 tie at 1
    assert (filtered, raw) == ([2.5], [2.5])


@pytest.mark.parametrize("norm", [1, 2])
def test_figures_agree_with_a_plain_twin(norm):
    random = np.random.default_rng(5)
    entities = random.normal(size=(150, 6)).astype(np.float32)
    relations = random.normal(size=(3, 6)).astype(np.float32)
    known = np.unique(np.stack([random.integers(0, n, 2000) for n in (150, 3, 150)], axis=1), axis=0).astype(np.int32)
    held_out = known[::17]
    true = set(map(tuple, known.tolist()))
    filtered, raw = [], []
    for side in (0, 2):
        for triple in held_out:
            others = np.tile(triple, (150, 1))
            others[:, side] = range(150)
            residuals = entities[others[:, 0]].astype(float) + relations[others[:, 1]] - entities[others[:, 2]]
            distances = abs(residuals).sum(axis=1) if norm == 1 else (residuals**2).sum(axis=1)
            nearer = set(map(tuple, others[distances < distances[triple[side]]].tolist()))
            raw.append(1 + len(nearer))
            filtered.append(1 + len(nearer - true))
    ranked, count = np.array(filtered), len(held_out)
    assert evaluate(Translation(entities, relations), held_out, known, norm)._asdict() == pytest.approx(
        {
            "triples": count,
            "hits_at_10": (ranked <= 10).mean(),
            "hits_at_1": (ranked <= 1).mean(),
            "mrr": (1 / ranked).mean(),
            "raw_hits_at_10": (np.array(raw) <= 10).mean(),
            "head_hits_at_10": (ranked[:count] <= 10).mean(),
            "tail_hits_at_10": (ranked[count:] <= 10).mean(),
        }
    )


def test_held_out_pairs_leave_no_trace_and_no_orphan():
    random = np.random.default_rng(2)
    pairs = np.unique(np.sort(random.integers(0, 60, (150, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    forward = np.stack([pairs[:, 0], np.zeros(len(pairs), int), pairs[:, 1]], axis=1)
    triples = np.concatenate([forward, forward[::2, ::-1] + [0, 1, 0]]).astype(np.int32)  # half in both directions
    training, held_out = hold_out(triples, 60, 0.2, seed=1)
    assert len(training) + len(held_out) == len(triples)
    unordered = [{frozenset((h, t)) for h, _, t in part.tolist()} for part in (training, held_out)]
    assert not unordered[0] & unordered[1]
    assert len(unordered[1]) == round(0.2 * len(pairs))
    left = set(training[:, [0, 2]].ravel().tolist())
    assert left == set(triples[:, [0, 2]].ravel().tolist())
    assert [part.tolist() for part in hold_out(triples, 60, 0.2, seed=1)] == [training.tolist(), held_out.tolist()]
    assert hold_out(triples, 60, 0.2, seed=2)[1].tolist() != held_out.tolist()
