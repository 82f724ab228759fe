"""MatchPyramid (Pang et al., 'A Study of MatchPyramid Models on Ad-hoc Retrieval', 2016; a baseline of [P] 3.1).

The matrix of the similarities of all query and document words is read like an image: convolutions with ReLU run over
it, *dynamic* pooling keeps the maximum of each cell of a grid, which has the same number of cells for texts of any
length, and feed-forward layers compute the score from the cells of all filters. The word vectors are fixed.

In shapes P x Q are the cells of the grid along the query and along the document.

Where the paper is silent:

* The sizes that the paper varies have defaults: one layer of filters of 3 x 3 cells, and a grid of 3 x 10. There are 8
  filters, a small number among public implementations (8 to 64), and one hidden layer of 20 units with ReLU; the last
  layer is linear.
* Similarities are cosines, or the indicator of the same word; the paper's other two, inner products and a Gaussian
  kernel of the distance, are not implemented.
* Borders of a convolution are centred, with zeros beyond the texts; so filters have odd numbers of rows and columns.
* Several layers follow each other directly; only the last is pooled.
* Dynamic pooling. Row i of P covers the query words from ``floor(i m / P)`` to ``ceil((i + 1) m / P) - 1``, where m is
  the number of query words without padding; columns likewise. So a cell is never empty, neighbours may share a word,
  and the words of a text that is shorter than the grid are repeated. The authors' program stretches both texts to a
  fixed length before it divides them, which is the same up to rounding.
* Padding is 0 before every layer and in no cell: scores do not depend on N and M, unless texts are cut. A text without
  words leaves the grid at 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from rerank_plugin.base.errors import InputError
from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.inputs.interactions import cosine_matrix, same_words
from rerank_plugin.models.base import ModelConfig
from rerank_plugin.models.interaction import InteractionModel
from rerank_plugin.models.ranking_model import linear_layers

SIMILARITIES = ("cosine", "indicator")


@dataclass(frozen=True)
class MatchPyramidConfig(ModelConfig):
    """Hyper-parameters.

    Attributes:
        similarity: "cosine" or "indicator".
        filters: number of filters of each convolution.
        kernel_rows, kernel_columns: query and document words covered by a filter, in all layers.
        pool_rows, pool_columns: P and Q.
        hidden: widths of the feed-forward layers before the last.
    """

    similarity: str = "cosine"
    filters: tuple[int, ...] = (8,)
    kernel_rows: int = 3
    kernel_columns: int = 3
    pool_rows: int = 3
    pool_columns: int = 10
    hidden: tuple[int, ...] = (20,)
    document_words: int = 500
    query_words: int = 16
    lexical_features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        sizes = ("filters", "kernel_rows", "kernel_columns", "pool_rows", "pool_columns", "hidden")
        if self.kernel_rows % 2 == 0 or self.kernel_columns % 2 == 0:
            raise InputError(
                f"filters of {self.kernel_rows} x {self.kernel_columns} cells: centred borders need odd numbers"
            )
        self.check("MatchPyramid", *sizes, similarity=SIMILARITIES)
        if not self.filters:
            raise InputError("MatchPyramid needs at least one convolution: filters is empty")


def grid_cells(mask: Tensor, count: int) -> Tensor:
    """The words of each of ``count`` cells, bool [B, count, L], from a mask [B, L]; neighbours may share words."""
    lengths = mask.sum(dim=1)[:, None]  # [B, 1]
    cells = torch.arange(count, device=mask.device)  # [count]
    starts = torch.div(cells * lengths, count, rounding_mode="floor")  # [B, count]
    stops = torch.div((cells + 1) * lengths + count - 1, count, rounding_mode="floor")  # [B, count]
    places = (mask.cumsum(dim=1) - 1)[:, None, :]  # [B, 1, L]
    return (places >= starts[:, :, None]) & (places < stops[:, :, None]) & mask[:, None, :]


def dynamic_pool(maps: Tensor, query_mask: Tensor, document_mask: Tensor, rows: int, columns: int) -> Tensor:
    """The maximum of each cell of a grid over the words without padding, or 0: float [B, K, rows, columns].

    maps: float [B, K, M, N], at least 0. query_mask: bool [B, M]. document_mask: bool [B, N].
    """
    inside = grid_cells(query_mask, rows)[:, None, :, :, None]  # [B, 1, P, M, 1]
    pooled = torch.stack([(maps * inside[:, :, i]).amax(dim=2) for i in range(rows)], dim=2)  # [B, K, P, N]
    inside = grid_cells(document_mask, columns)[:, None, None]  # [B, 1, 1, Q, N]
    return torch.stack([(pooled * inside[:, :, :, i]).amax(dim=3) for i in range(columns)], dim=3)  # [B, K, P, Q]


class MatchPyramid(InteractionModel[MatchPyramidConfig]):
    """MatchPyramid as a module over fixed word vectors."""

    name = "matchpyramid"
    by_length = True
    matches_unknown_words = True

    def __init__(self, config: MatchPyramidConfig, vectors: Tensor):
        super().__init__(config, vectors)
        self.matrix_name = "cosine" if config.similarity == "cosine" else "same word"
        size = (config.kernel_rows, config.kernel_columns)
        widths = [1, *config.filters]
        self.values_of_cell = 2 * max(widths)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(inward, outward, size, padding=(size[0] // 2, size[1] // 2))
            for inward, outward in zip(widths, widths[1:])
        )
        cells = config.pool_rows * config.pool_columns
        self.layers = linear_layers(config.filters[-1] * cells, *config.hidden, 1)

    def interaction(self, inputs: Inputs) -> Tensor:
        """The matrix of similarities: float [B, M, N], 0 where either word is padding."""
        if self.config.similarity == "indicator":
            return same_words(inputs).to(self.vectors.dtype)
        return cosine_matrix(self.vectors, inputs)

    def convolve(self, similarities: Tensor, inputs: Inputs) -> Tensor:
        """The output of the last convolution: float [B, K, M, N], 0 where either word is padding."""
        present = (inputs.query_mask[:, :, None] & inputs.document_mask[:, None, :])[:, None]  # [B, 1, M, N]
        maps = similarities[:, None]  # [B, 1, M, N]
        for convolution in self.convolutions:
            maps = functional.relu(convolution(maps)) * present  # [B, K, M, N]
        return maps

    def score(self, matrix: Tensor, inputs: Inputs) -> Tensor:
        size = (self.config.pool_rows, self.config.pool_columns)
        maps = self.convolve(matrix, inputs)  # [B, K, M, N]
        cells = dynamic_pool(maps, inputs.query_mask, inputs.document_mask, *size)  # [B, K, P, Q]
        hidden = cells.flatten(1)  # [B, K * P * Q]
        for layer in self.layers[:-1]:
            hidden = functional.relu(layer(hidden))  # [B, width of the layer]
        return self.layers[-1](hidden)[:, 0]  # [B]
