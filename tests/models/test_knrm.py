"""KNRM against scores computed by hand. Tests of every model: ``tests/conformance``."""

import numpy as np
import pytest
import torch

from rerank_plugin.inputs.interactions import cosine_matrix
from rerank_plugin.models.baselines.kernel_pooling import DEVIATIONS, MEANS, kernel_features, soft_counts
from rerank_plugin.models.baselines.knrm import Knrm, KnrmConfig
from tests.models import golden, plain_knrm

VECTORS = torch.tensor([[5.0, 5], [1, 0], [0, 1], [3, 4]])  # UNK first, with a vector that must not count; a, b, c
NEAR, FAR = 0.606531, 0.011109  # a kernel one and three deviations from its mean: exp(-1/2), exp(-9/2)
INPUTS = golden.inputs(["acx", ""], "ab", 4, 3)


def golden_counts():
    return soft_counts(cosine_matrix(VECTORS, INPUTS), INPUTS.document_mask)


def test_golden_counts():
    """Cosines of a: 1 (itself), 0.6, 0 (unknown). Of b: 0, 0.8, 0.

    exp(-(5 * 0.1)^2 / 0.02), five deviations from the mean, is 0.0000037.
    """
    counts = golden_counts()
    farther = 3.7e-6
    expected = [
        # 1, 0.9, 0.7, 0.5, 0.3, 0.1, -0.1, -0.3, -0.5
        [1, NEAR + FAR, FAR + NEAR, farther + NEAR + farther, 2 * FAR, farther + NEAR, NEAR, FAR, farther],
        [0, NEAR, NEAR, FAR + 2 * farther, farther + 2 * FAR, 2 * NEAR, 2 * NEAR, 2 * FAR, 2 * farther],
    ]
    np.testing.assert_allclose(counts[0, :2, :9], expected, rtol=0, atol=1.5e-6)
    assert counts[0, :2, 9].numpy() == pytest.approx([2.29e-11, 4.58e-11], rel=1e-2)  # seven deviations: exp(-49/2)
    assert not counts[1].any()


def test_golden_features():
    """Exact matches: ln 1 of a, and ln 1e-10 of b, which has none; of the empty document ln 1e-10 everywhere."""
    features = kernel_features(golden_counts(), INPUTS.query_mask)
    assert features[0, 0].item() == pytest.approx(-0.2302585)
    # around 0.1: 0.01 * (ln 0.606535 + ln 1.213061) = 0.01 * (-0.499993 + 0.193147)
    assert features[0, 5].item() == pytest.approx(-0.00306846, abs=1e-7)
    assert features[1].tolist() == pytest.approx([-0.460517] * 11)


def test_golden_score():
    """Weights 2 for exact matches, -50 around 0.1: 2 * -0.2302585 + 50 * 0.00306846 + 0.4 = 0.0929060.

    Of the empty document: 48 * 0.460517 + 0.4 = 22.5, of which tanh is 1. Without a query the bias is left.
    """
    weights = [2, 0, 0, 0, 0, -50, 0, 0, 0, 0, 0]
    model = golden.set_weights(Knrm(KnrmConfig(), VECTORS), layer__weight=weights, layer__bias=0.4)
    assert model(INPUTS).tolist() == pytest.approx([np.tanh(0.0929060), 1.0], abs=1e-6)
    assert model(golden.inputs(["acx", ""], "", 4, 3)).tolist() == pytest.approx([np.tanh(0.4)] * 2)


def test_the_authors_kernels():
    assert list(zip(MEANS, DEVIATIONS)) == plain_knrm.kernels()
