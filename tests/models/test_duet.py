"""DUET against scores computed by hand. Tests of every model: ``tests/conformance``."""

import math

import pytest
import torch

from rerank_plugin.models.baselines import duet
from rerank_plugin.models.baselines.duet import Duet, DuetConfig, count_positions
from tests.conformance.models import DUET, QUERIES, Case, assert_same, make, opened, scores_of
from tests.models import golden


@torch.no_grad()
def test_golden_local():
    """Document a b a, query a c of three slots. Places weigh 0.1, 0.2, 0.4, and a fourth, padded one 9; bias 0.05.

    Word a stands at the first and the third place: tanh(0.1 + 0.4 + 0.05). Word c nowhere: tanh(0.05). The slots weigh
    1, -2 and, padded, 9; bias 0.3. What is padded is called b, as a word of the document: nothing but masks tell.
    """
    config = DuetConfig("local", filters=1, hidden=(1,), document_words=4, query_words=3)
    model = Duet(config, torch.zeros(4, 2)).eval()
    golden.set_weights(
        model.local, row__weight=[0.1, 0.2, 0.4, 9], row__bias=0.05, output__layers__0__weight=[1, -2, 9],
        output__layers__0__bias=0.3, output__last__weight=0.7, output__last__bias=-0.1,
    )  # fmt: skip
    hidden = math.tanh(0.3 + math.tanh(0.55) - 2 * math.tanh(0.05))
    actual = model(golden.inputs(["aba"], "ac", 4, 3, padding="b"))
    assert actual.tolist() == pytest.approx([math.tanh(0.7 * hidden - 0.1)], abs=1e-6)


@torch.no_grad()
def test_golden_distributed():
    """One dimension, one filter. Words: unknown x 0.5, a -2, b 1, c 3; what is padded is called a.

    Query c x: two words, so one position, filled up with zero: 0.2 * 3 - 0.1 * 0.5 + 0.4 * 0 = 0.55.
    Document b a c x a, taps 0.1, 0.3, -0.2, bias 0.1:
    0.1 - 0.6 - 0.6 + 0.1 = -1, -0.2 + 0.9 - 0.1 + 0.1 = 0.7, 0.3 + 0.15 + 0.4 + 0.1 = 0.95.
    Windows of two, one apart: 0.7 and 0.95. The third window of six words weighs 9, and does not exist.
    """
    config = DuetConfig("distributed", 1, (1,), pool_width=2, pool_stride=1, document_words=6, query_words=4)
    assert (config.positions, config.windows) == (4, 3)
    model = Duet(config, torch.tensor([[0.5], [-2.0], [1.0], [3.0]])).eval()
    golden.set_weights(
        model.distributed, query_convolution__weight=[0.2, -0.1, 0.4], query_layer__weight=2, query_layer__bias=-0.3,
        document_convolution__weight=[0.1, 0.3, -0.2], document_convolution__bias=0.1, window_layer__weight=1.5,
        window_layer__bias=0.2, output__layers__0__weight=[1, -0.5, 9], output__layers__0__bias=0.1,
        output__last__weight=3, output__last__bias=0.2,
    )  # fmt: skip
    query = math.tanh(2 * math.tanh(0.55) - 0.3)
    first, second = (math.tanh(1.5 * math.tanh(pooled) + 0.2) for pooled in (0.7, 0.95))
    hidden = math.tanh(first * query - 0.5 * second * query + 0.1)
    actual = model(golden.inputs(["bacxa"], "cx", 6, 4))
    assert actual.tolist() == pytest.approx([math.tanh(3 * hidden + 0.2)], abs=1e-6)


def test_positions_and_windows():
    """The paper's 1,000 words have 998 positions, and 899 windows of 100."""
    config = DuetConfig(document_words=1000, pool_stride=1)
    assert (config.positions, config.windows) == (998, 899)
    mask = torch.arange(6) < torch.tensor([0, 1, 3, 6])[:, None]
    assert count_positions(mask, 3).tolist() == [0, 1, 1, 4]  # none without words


def test_huge_word_vectors_end_in_tanh_on_both_paths(index, vectors):
    huge = vectors._replace(numbers=vectors.matrix.copy())
    huge.matrix[3] = 1e30
    actual, expected = (
        scores_of(opened(make(Case("duet", DUET), huge), path, index, huge)) for path in ("fast", "module")
    )
    assert_same(actual, expected)


@pytest.mark.parametrize("documents", [0, 2, 1000])
def test_documents_that_other_queries_left_behind(index, vectors, monkeypatch, documents):
    """Windows are kept of as many documents as there is room for; the scores are the module's, with and without."""
    model = make(Case("duet", DUET), vectors)
    monkeypatch.setattr(duet, "KEPT_BYTES", 4 * model.config.windows * model.config.filters * documents)
    kept, plain = (opened(model, path, index, vectors) for path in ("fast", "module"))
    everyone = range(len(index))
    for turn, query in enumerate([QUERIES[0], QUERIES[1], QUERIES[0]]):
        rows = [everyone[-1 - turn], everyone[0], *everyone]  # two documents twice
        assert_same(scores_of(kept, query, rows), scores_of(plain, query, rows))
    assert kept.fast.count == 1 + min(documents, len(index)) and (kept.fast.places > 0).sum() == kept.fast.count - 1
