"""Heaps' law, fitted to sizes by hand, and to generated citations."""

import numpy as np
import pytest

from experiments.vocabulary_growth import Growth, _generated, growth


def test_a_law_by_hand():
    tokens = np.array([10_000, 40_000, 160_000])
    exact = Growth(tokens, np.array([500, 1000, 2000]), np.ones(1), np.ones(1))
    assert exact.law() == pytest.approx((5, 0.5, 0), abs=1e-6)
    assert exact._replace(terms=np.array([500, 1100, 2000])).law()[2] == pytest.approx(0.0615, abs=0.001)


def test_generated_citations_grow_as_real_ones():
    found = growth(_generated(1500, 42))
    assert found.terms[-1] == pytest.approx(19.2 * found.tokens[-1] ** 0.539, rel=0.1)
    assert np.median(found.abstracts[found.abstracts > 0]) == pytest.approx(204, rel=0.06)
