"""The Delta Relevance Classifier against scores computed by hand, and the words that it skips."""

import math

import numpy as np
import pytest
import torch

from rerank_plugin.inputs.builder import InputBuilder
from rerank_plugin.models.baselines.delta_classifier import DeltaClassifier, DeltaClassifierConfig, difference_rows
from rerank_plugin.text.vocabulary import Vocabulary
from tests import small
from tests.conformance.models import Case, make
from tests.models import golden


def test_golden_rows():
    """Query UNK a b; UNK, x, has the vector (6,8), which would be closest to two of the words.

    Words: UNK, c = (6,8), UNK, d = (-3,0): rows of (6,8) - (3,4), length 5, cosine 1, and of (-3,0) - (-3,4), length 4,
    cosine 9 / 15; then none.
    """
    vectors = torch.tensor([[6.0, 8.0], [3.0, 4.0], [-3.0, 4.0], [6.0, 8.0], [-3.0, 0.0]])
    rows, mask = difference_rows(vectors, golden.inputs(["xcxd"], "xab", 5))
    assert mask.tolist() == [[True, True, False, False, False]]
    np.testing.assert_allclose(rows[0, :2], [[3, 4, 1, 5], [0, -4, 0.6, 4]], atol=1e-6)
    assert not rows[0, 2:].any()


def test_of_equally_close_query_words_the_first_counts_and_zero_vectors_have_cosine_0():
    vectors = torch.tensor([[9.0, 9.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])
    for query, expected in (("ab", [-1, 0, 0, 1]), ("ba", [1, 0, 0, 1])):
        rows, _ = difference_rows(vectors, golden.inputs(["c"], query))
        assert rows[0, 0].tolist() == expected


def test_golden_network():
    """Vectors of one number, one filter that reads distances, one feature, one hidden unit.

    Query [2]; document [5, UNK, 1] and a pad: distances 3, 1, side by side. The filter weighs the word two before by 1,
    the one before by 10, the last by 100, bias -120; the four windows (0,0,3) (0,3,1) (3,1,0) (1,0,0) give
    180, 10, -107, -119; the maximum is 180. Unskipped, (3,UNK,1) would add -17 and (0,3,UNK) 210 or more.
    Feature (7 - 4) / 2 = 1.5. Hidden: 180 - 20 * 1.5 = 150. Logit: -2 * 150 + 3 = -297, not cut off at 0.
    """
    config = DeltaClassifierConfig(filters=1, convolutions=1, hidden=(1,), lexical_features=("jaccard_text",))
    model = golden.set_weights(
        DeltaClassifier(config, torch.tensor([[99.0], [2.0], [5.0], [1.0]])),
        convolutions__0__weight=[0] * 6 + [1, 10, 100], convolutions__0__bias=-120, layers__0__weight=[1, -20],
        layers__1__weight=-2, layers__1__bias=3,
    )  # fmt: skip
    model.set_feature_statistics(torch.tensor([4.0]), torch.tensor([2.0]))
    assert model(golden.inputs(["bxc"], "a", 4, features=[[7.0]])).tolist() == pytest.approx([-297])


def test_the_four_overlaps(index):
    """Query 'aspirin zyzzyva aspirin stroke' and document a7, 'Aspirin': one word in common, of three, and no bigram.

    aspirin is in 3 of 10 documents, stroke in 2, zyzzyva in 1: ln(1 + (10 - df + 0.5) / (df + 0.5)) is their IDF.
    """
    builder = InputBuilder(index, Vocabulary(["aspirin"]), 50, 7, DeltaClassifierConfig().lexical_features)
    terms = index.query("aspirin zyzzyva aspirin stroke")
    weights = [math.log(1 + (10.5 - df) / (df + 0.5)) for df in (3, 1, 2)]
    actual = builder.features(terms, small.candidates(index, [2]))
    np.testing.assert_allclose(actual, [[1 / 3, weights[0] / sum(weights), 1 / 3, 0]], rtol=1e-6)


@pytest.mark.parametrize("query", ["", "x", "xxx"])
@pytest.mark.parametrize("document", ["abc", "xx", ""])
def test_without_known_words_only_the_overlaps_count(document, query):
    """The pooled vector is zeros: such pairs have equal scores, unless their overlaps differ."""
    model = make(Case("delta-classifier", {"filters": 6}), small.word_vectors(list("abcdefgh"), 4, seed=5))
    features = [[0.5] * 4, [0.5] * 4, [0.9] * 4]
    actual = model(golden.inputs([document, "", document], [query, "a", query], features=features)).tolist()
    assert actual[0] == pytest.approx(actual[1], abs=1e-6) and abs(actual[2] - actual[0]) > 1e-3
