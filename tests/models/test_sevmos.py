"""SevMos against numbers worked out by hand. What holds for every model is in ``tests/conformance``."""

import pytest
import torch

from rerank_plugin.models.baselines.sevmos import SevMos, SevMosConfig
from tests.models import golden


def encoded(model, text, width=0):
    with torch.no_grad():
        ids, mask, _ = golden.padded([text], width, padding="x")
        return model.encode_documents(ids, mask).tolist()


def test_golden_network():
    """Vectors of one number, one filter of width 2, one lexical feature, one hidden unit; ReLU.

    Query [2]; the query's filter is 1, 3 with bias -1: its windows (0,2) and (2,0) give 6-1 = 5 and 2-1 = 1; x_q = 5.
    Document [-1, 4] and a pad of 100; the filter is 2, -1 with bias 0.5: (0,-1) gives 1.5, (-1,4) -5.5 and so 0,
    (4,0) 8.5; x_d = 8.5. With the pad as a word it would be another number, and without full borders 0.
    M = 0.1: sim = 5 * 0.1 * 8.5 = 4.25. Feature (7 - 4) / 2 = 1.5.
    Hidden: 1 * 5 + 2 * 4.25 - 2 * 8.5 + 10 * 1.5 + 0.5 = 12. Output, without ReLU: -1 * 12 + 3 = -9.
    """
    config = SevMosConfig(filters=1, width=2, hidden=(1,), lexical_features=("bm25_title",), document_words=3)
    model = golden.set_weights(
        SevMos(config, torch.tensor([[100.0], [2.0], [-1.0], [4.0]])),
        query_convolutions__0__weight=[1, 3], query_convolutions__0__bias=-1, similarity=0.1,
        document_convolutions__0__weight=[2, -1], document_convolutions__0__bias=0.5,
        layers__0__weight=[1, 2, -2, 10], layers__0__bias=0.5, layers__1__weight=-1, layers__1__bias=3,
    )  # fmt: skip
    model.set_feature_statistics(torch.tensor([4.0]), torch.tensor([2.0]))
    inputs = golden.inputs(["bc"], "a", 3, 2, features=[[7.0]], padding="x")
    assert model.encode_queries(inputs.queries, inputs.query_mask).tolist() == [[5.0]]
    assert encoded(model, "bc", 3) == [[8.5]]
    assert model(inputs).tolist() == pytest.approx([-9.0])


@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_golden_stack(slope):
    """Two convolutions of width 2, both 1, 1 with bias 0, over [1, -3, 1]: windows 1, -2, -2, 1, by ReLU 1, 0, 0, 1;
    then 1, 1, 0, 1, 1. With a slope of 0.5: 1, -1, -1, 1, then 1, 0, -2 (leaky -1), 0, 1."""
    config = SevMosConfig(filters=1, width=2, convolutions=2, slope=slope, lexical_features=())
    for last, expected in ((1, 1.0), (-1, 2 * slope * 2)):  # the largest of the negated: 0 by ReLU, or 2
        model = golden.set_weights(
            SevMos(config, torch.tensor([[7.0], [1.0], [-3.0]])),
            document_convolutions__0__weight=1, document_convolutions__1__weight=last,
        )  # fmt: skip
        assert encoded(model, "aba", 4) == [[expected]]


def test_padding_is_no_window_where_all_are_below_zero():
    """Word 1 under a filter of -1, -1 with bias -1 and a slope of 0.5: both its windows give -2, leaky -1, not 0."""
    config = SevMosConfig(filters=1, width=2, slope=0.5, lexical_features=())
    model = SevMos(config, torch.tensor([[7.0], [1.0]]))
    golden.set_weights(model, document_convolutions__0__weight=-1, document_convolutions__0__bias=-1)
    assert encoded(model, "a", 3) == [[-1.0]]
