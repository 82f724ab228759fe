"""Relevance: golden values, and different relevance of different scores."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.models.register import MODELS
from rerank_plugin.models.relevance import RELEVANCE, Relevance


def test_golden_values():
    fitted = Relevance.fitted(np.array([1, 2, 3, 5, 9], np.float32))
    assert fitted == (3, 1.5)
    assert fitted.of(np.array([3, 4.5, 1.5, 7.5])).tolist() == [0.5, 0.75, 0.25, 0.875]
    assert Relevance.fitted(np.full(3, 2.0)) == (2, 1) and Relevance.fitted(np.zeros(0)) == (0, 1)


@given(st.floats(-1e6, 1e6, width=32), st.floats(-100, 100), st.floats(0.01, 100))
def test_it_increases_strictly_between_0_and_1(score, location, scale):
    pair = np.array([score, np.nextafter(np.float32(score), np.float32(np.inf))], np.float32)
    pair[1] = max(pair[1], pair[0] + np.float32(1e-6))
    low, high = Relevance(location, scale).of(pair)
    assert 0 < low < high < 1


def test_bundled_models_have_their_own():
    for name in ("delta", "ktrel"):
        folder = MODELS.find(name).bundled
        kept = Relevance.of_checkpoint(folder)
        assert kept != Relevance() and kept._asdict() == json.loads((folder / "config.json").read_text())[RELEVANCE]
    assert Relevance.of_checkpoint(None) == Relevance()
