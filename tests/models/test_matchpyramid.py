"""MatchPyramid against scores computed by hand. Tests of every model: ``tests/conformance``."""

import pytest
import torch

from rerank_plugin.models.baselines.matchpyramid import MatchPyramid, MatchPyramidConfig, dynamic_pool, grid_cells
from tests.models import golden, plain_matchpyramid

# The query 'a b', then padding; documents 'c a b' and one without words.
VECTORS = torch.tensor([[5.0, 5], [1, 0], [0, 1], [3, 4]])  # UNK, a, b, c
INPUTS = golden.inputs(["cab", ""], "ab", 4, 3)


@pytest.mark.parametrize(
    ("length", "count", "expected"),
    [
        (6, 3, [[0, 1], [2, 3], [4, 5]]),
        (5, 3, [[0, 1], [1, 2, 3], [3, 4]]),  # from 0, 5/3, 10/3 to 5/3, 10/3, 5: neighbours share a word
        (4, 3, [[0, 1], [1, 2], [2, 3]]),
        (2, 3, [[0], [0, 1], [1]]),  # fewer words than cells
        (1, 4, [[0], [0], [0], [0]]),
        (3, 1, [[0, 1, 2]]),
        (0, 2, [[], []]),
    ],
)
def test_golden_cells(length, count, expected):
    """The cells equal those of the twin, and hold no padding."""
    mask = torch.arange(8) < length
    actual = grid_cells(mask[None], count)[0]
    assert [torch.nonzero(cell)[:, 0].tolist() for cell in actual] == expected
    assert [list(plain_matchpyramid.part(length, count, cell)) for cell in range(count)] == expected


def test_golden_pool():
    """Three query words, four document words, 2 x 2 cells: the middle query word is in both rows of the grid."""
    picture = [[1, 5, 2, 0, 99], [0, 3, 7, 1, 99], [4, 0, 0, 6, 99], [99, 99, 99, 99, 99]]  # the 99s are padding
    query_mask, document_mask = torch.arange(4) < 3, torch.arange(5) < 4
    actual = dynamic_pool(torch.tensor([[picture]]).float(), query_mask[None], document_mask[None], 2, 2)
    assert actual.tolist() == [[[[5, 7], [4, 7]]]]


@pytest.mark.parametrize(
    ("similarity", "expected"),
    [("cosine", [[0.6, 1, 0], [0.8, 0, 1]]), ("indicator", [[0, 1, 0], [0, 0, 1]])],
)
def test_golden_similarities(similarity, expected):
    actual = MatchPyramid(MatchPyramidConfig(similarity=similarity), VECTORS).interaction(INPUTS)
    torch.testing.assert_close(actual[0, :2, :3], torch.tensor(expected).float())
    assert not actual[0, 2].any() and not actual[0, :, 3].any() and not actual[1].any()


@pytest.mark.parametrize(("grid", "expected"), [((1, 2), 2 * 105 - 3 * 105 + 0.5), ((2, 1), 2 * 105 - 3 * 6 + 0.5)])
def test_golden_score(grid, expected):
    """One filter: 10 for the cell itself, 1 for the one up left, 100 for the one down right; bias -5. The picture is
    .6 1 0 / .8 0 1.

    Row a: 6 + 0 - 5 = 1; 10 + 100 * 1 - 5 = 105; 0 - 5, to 0. Row b: 8 - 5 = 3; 0 + .6 - 5, to 0; 10 + 1 - 5 = 6.
    The columns of a grid of 1 x 2 are 'c a' and 'a b': 105 and 105. The rows of one of 2 x 1: 105 and 6.
    Output: 2 * first - 3 * second + 0.5.
    """
    config = MatchPyramidConfig(filters=(1,), pool_rows=grid[0], pool_columns=grid[1], hidden=())
    model = golden.set_weights(
        MatchPyramid(config, VECTORS), convolutions__0__weight=[1, 0, 0, 0, 10, 0, 0, 0, 100], convolutions__0__bias=-5,
        layers__0__weight=[2, -3], layers__0__bias=0.5,
    )  # fmt: skip
    assert model(INPUTS).tolist() == pytest.approx([expected, 0.5])


def test_a_second_convolution_reads_zeros_beyond_the_texts():
    """Not the bias of the first, which padding would have: a text scores alone as beside a longer one."""
    torch.manual_seed(3)
    config = MatchPyramidConfig(filters=(2, 2), pool_rows=1, pool_columns=2, hidden=(), document_words=6)
    model = MatchPyramid(config, VECTORS).eval()
    with torch.no_grad():
        model.convolutions[0].bias.fill_(2.0)
    alone, beside = (model(golden.inputs(documents, "ab"))[0] for documents in (["ab"], ["ab", "abbaab"]))
    assert beside.item() == pytest.approx(alone.item(), abs=1e-6) != 0
