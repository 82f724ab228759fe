"""Score regularization: a worked example, and properties of any scores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.kernels.regularization import regularize

RIGHT, DIAGONAL, UP = [2.0, 0.0], [0.5, 0.5], [0.0, 3.0]


def test_worked_example():
    """The cosines of the diagonal are the same with both others, which are at right angles: 1 / sqrt(2) and 0."""
    found = regularize(np.float32([1.0, 0.5, 0.2, 0.1]), np.float32([RIGHT, DIAGONAL, UP]), neighbours=2, weight=0.4)
    assert found == pytest.approx([0.6 * 1 + 0.4 * 0.5, 0.6 * 0.5 + 0.4 * 0.6, 0.6 * 0.2 + 0.4 * 0.5, 0.6 * 0.1])


def test_only_the_nearest_count():
    """With one neighbour each: cosines .6 and .8 of the middle one make the last its nearest."""
    found = regularize(np.float32([1, 0.5, 0.1]), np.float32([[1, 0], [0.6, 0.8], [0, 1]]), neighbours=1, weight=0.5)
    assert found == pytest.approx([0.75, 0.3, 0.3])


def test_cosines_are_cubed():
    found = regularize(np.float32([1, 0.5, 0]), np.float32([[1, 0], [0.6, 0.8], [0, 1]]), neighbours=2, weight=1)
    assert found[1] == pytest.approx(0.6**3 / (0.6**3 + 0.8**3))


def test_documents_without_a_similar_one_keep_their_share():
    found = regularize(np.float32([1, 0.5, 0.2]), np.float32([[1, 0], [-1, 0], [0, 0]]), neighbours=2, weight=0.25)
    assert found == pytest.approx([0.75, 0.375, 0.15])


@given(st.integers(0, 12), st.integers(0, 12), st.integers(1, 6), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_scores_stay_in_their_range_and_none_passes_the_best_from_below(best, others, neighbours, weight, seed):
    random = np.random.default_rng(seed)
    scores = np.sort(random.random(best + others, np.float32))[::-1]
    found = regularize(scores, random.standard_normal((best, 3)).astype(np.float32), neighbours, weight)
    assert found.dtype == np.float32 and np.all((found >= 0) & (found <= scores.max(initial=0) + 1e-6))
    if best and others:
        assert found[:best].min() >= found[best:].max() - 1e-6
