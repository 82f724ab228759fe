"""The default sizes of texts and weights, with word vectors of 300 dimensions, are those of the papers."""

import pytest
import torch

from rerank_plugin.inputs.lexical_features import PAPER_NAMES
from rerank_plugin.models.baselines.delta_classifier import OVERLAPS
from rerank_plugin.models.register import entry_of

WEIGHTS = {
    "knrm": "1x11",
    "conv-knrm": "128x300x1 128x300x2 128x300x3 1x99",  # of 9 views with 11 kernels each
    "drmm": "5x30 1x5",  # with the biases and the gate 162 parameters, [D18] 4.3.4
    "matchpyramid": "8x1x3x3 20x240 1x20",
    "pacrr": "32x1x2x2 32x1x3x3 4x7 4x1",
    "delta": "32x303x3 32x32x3 32x32x3 32x32 32x32 1x32",  # over D + 3 rows, [D18] 4.2
    # 260 are 256 filters and 4 overlaps, [D17] figure 1.
    "delta-classifier": "256x302x3 256x256x3 256x256x3 260x260 260x260 1x260",
    # The local model of 250 words and 10 query words, and the distributed one of 16 windows.
    "duet": "300x250 300x3000 300x300 1x300 300x300x3 300x300 300x300x3 300x300 300x4800 300x300 1x300",
    # 531 are 256 of the query, 256 of the document, their similarity and 18 features, [D17] 4.5.
    "sevmos": "256x256 256x300x5 256x300x5 531x531 531x531 1x531",
}
DEFAULTS = {
    "drmm": {"bins": 30, "document_words": 200},
    "delta": {"document_words": 50, "query_words": 7, "slope": 0.3},
    "delta-classifier": {"document_words": 50, "query_words": 7, "lexical_features": OVERLAPS},
    "sevmos": {"document_words": 50, "query_words": 7, "lexical_features": PAPER_NAMES},
}


def weights_of(name, **more):
    entry = entry_of(name)
    parameters = entry.load("module")(entry.load("config")(**more), torch.zeros(2, 300)).parameters()
    return " ".join("x".join(map(str, parameter.shape)) for parameter in parameters if parameter.ndim > 1)


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights(name):
    assert weights_of(name) == WEIGHTS[name]


def test_weights_of_sevmos_with_three_convolutions():
    three = "256x300x3 256x256x3 256x256x3"
    assert weights_of("sevmos", convolutions=3) == f"256x256 {three} {three} 531x531 531x531 1x531"


@pytest.mark.parametrize("name", DEFAULTS)
def test_texts(name):
    config = entry_of(name).load("config")()
    assert {field: getattr(config, field) for field in DEFAULTS[name]} == DEFAULTS[name]
