"""DUET: exact matches by position, and matches of learned representations.

Mitra, Diaz and Craswell, Learning to Match using Local and Distributed Representations of Text for Web Search (WWW
2017), arXiv 1610.08136: the local model is section 3.1, the distributed model 3.2, their sum the duet. The local model
alone is a baseline of [P], the duet one of [K].

Local: a binary matrix marks the positions of each query word in the document. One affine map, shared by the query
words, maps a word's row of positions to K filters; fully connected layers over all query words compute the score.
Distributed: convolutions over the words of query and document; the query's features are max-pooled over the whole
query, the document's in windows; fully connected layers compute the score from the Hadamard product of the two, window
by window. Every layer ends in tanh, also the last ones (as in the authors' code), so a score lies between -2 and 2.

In shapes P are the pooling windows of a document of N words.

Differences to the paper:

* A word is its word vector, which is fixed; in the paper it is counts of the 2,000 most common character n-graphs.
* Documents are abstracts of some 200 words and not web pages cut at 1,000: N is 250.
* Pooling windows are 100 positions wide as in the paper, but 10 apart and not 1: neighbours that are 1 apart share 99
  of 100 positions and nearly all maxima, and on abstracts each window costs K * hidden weights (``pool_stride=1`` is
  the paper's).

Where the paper is silent:

* Padding. In the paper it is zeros that are read like words; here it does not contribute. N-grams and windows that
  reach beyond the text do not exist, unless the text is shorter than one, and the features of missing windows and query
  words are zeros in the fully connected layers. So scores do not depend on padding, and a larger N or M does not change
  the score of a text that fits, if the weights of the new positions are appended.
* The last window holds the remaining positions if the stride does not divide their number.
* A query word that no document holds has no matches; it still counts as a word.
* A document without words: its rows of the local model are the bias, and the distributed model reads zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Lock

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from rerank_plugin.base.errors import InputError
from rerank_plugin.inputs.builder import InputBuilder, Inputs
from rerank_plugin.inputs.interactions import same_words
from rerank_plugin.models.attribution import Attribution, of_cells
from rerank_plugin.models.base import ModelConfig, RerankerOptions
from rerank_plugin.models.integrated_gradients import in_double, integrated_gradients, known_words
from rerank_plugin.models.interaction import InteractionModel, InteractionPath
from rerank_plugin.models.ranking_model import linear_layers

PARTS = ("local", "distributed", "both")
KEPT_BYTES = 1 << 28  # of documents' windows


@dataclass(frozen=True)
class DuetConfig(ModelConfig):
    """Hyper-parameters; the defaults are the paper's, except ``document_words`` and ``pool_stride``.

    Attributes:
        parts: 'local', 'distributed', or 'both' for the duet.
        filters: K, the filters of every convolution.
        hidden: widths of the fully connected layers before the last, in both models.
        width: width of the distributed model's convolutions, in words.
        pool_width, pool_stride: width of a document's pooling window, and distance of adjacent windows, in positions.
        dropout: dropout before the last layer.
    """

    parts: str = "both"
    filters: int = 300
    hidden: tuple[int, ...] = (300, 300)
    width: int = 3
    pool_width: int = 100
    pool_stride: int = 10
    dropout: float = 0.2
    document_words: int = 250
    query_words: int = 10
    lexical_features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        sizes = ("filters", "hidden", "width", "pool_width", "pool_stride")
        self.check("DUET", *sizes, parts=PARTS)
        if not self.hidden:
            raise InputError("DUET needs at least one hidden layer")
        if self.pool_stride > self.pool_width:
            raise InputError(
                f"DUET's pool_stride {self.pool_stride} leaves out positions between windows of {self.pool_width}"
            )

    @property
    def positions(self) -> int:
        """Positions of the convolution over a document of N words."""
        return max(1, self.document_words - self.width + 1)

    @property
    def windows(self) -> int:
        """P, the pooling windows of a document of N words."""
        return 1 + max(0, -(-(self.positions - self.pool_width) // self.pool_stride))


def count_positions(mask: Tensor, width: int) -> Tensor:
    """The number of positions of a convolution over each text: bool [B, N] to int64 [B].

    A text shorter than the convolution has one position, with zeros behind the text; a text without words has none.
    """
    words = mask.sum(dim=1)  # [B]
    return (words - width + 1).clamp_min(1) * (words > 0)


def window_mask(positions: Tensor, config: DuetConfig) -> Tensor:
    """The mask of pooling windows, bool [B, P], of documents with ``positions``, int64 [B].

    A document has the first window, and each window whose predecessor does not reach the last position.
    """
    window = torch.arange(config.windows, device=positions.device)  # [P]
    covered = torch.where(window > 0, (window - 1) * config.pool_stride + config.pool_width, 0)  # [P]
    return positions[:, None] > covered


class FullyConnected(nn.Module):
    """Fully connected layers with tanh, and dropout before the last layer: float [B, inward] to scores [B]."""

    def __init__(self, inward: int, config: DuetConfig):
        super().__init__()
        self.layers = linear_layers(inward, *config.hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.last = nn.Linear(config.hidden[-1], 1)

    def forward(self, features: Tensor) -> Tensor:
        for layer in self.layers:
            features = torch.tanh(layer(features))  # [B, width of the layer]
        return torch.tanh(self.last(self.dropout(features)))[:, 0]  # [B]


class LocalModel(nn.Module):
    """Section 3.1: exact matches by position."""

    def __init__(self, config: DuetConfig):
        super().__init__()
        # A convolution with filters as long as the document has one position and is an affine map of the row.
        self.row = nn.Linear(config.document_words, config.filters)
        self.query_words = config.query_words
        self.output = FullyConnected(config.query_words * config.filters, config)

    def forward(self, matches: Tensor, query_mask: Tensor) -> Tensor:
        """Scores [B] from the matrix of matches, float [B, M, N]."""
        weight = self.row.weight[:, : matches.shape[2]]  # [K, N], or fewer columns if no document has N words
        features = torch.tanh(functional.linear(matches, weight, self.row.bias))  # [B, M, K]
        features = features * query_mask[:, :, None]  # [B, M, K], or fewer rows if no query has M words
        features = functional.pad(features, (0, 0, 0, self.query_words - features.shape[1]))  # [B, M, K]
        return self.output(features.flatten(1))  # [B]


class DistributedModel(nn.Module):
    """Section 3.2: learned representations of query and document."""

    def __init__(self, config: DuetConfig, dimension: int):
        super().__init__()
        self.config = config
        self.query_convolution = nn.Conv1d(dimension, config.filters, config.width)
        self.query_layer = nn.Linear(config.filters, config.filters)
        self.document_convolution = nn.Conv1d(dimension, config.filters, config.width)
        self.window_layer = nn.Linear(config.filters, config.filters)  # the convolution 1 x 1
        self.output = FullyConnected(config.windows * config.filters, config)

    def convolve(self, convolution: nn.Conv1d, words: Tensor, mask: Tensor) -> Tensor:
        """tanh of a convolution, -infinity where it has no position: float [B, T, D], bool [B, T] to [B, K, T]."""
        words = (words * mask[:, :, None]).transpose(1, 2)  # [B, D, T]
        features = torch.tanh(convolution(functional.pad(words, (0, self.config.width - 1))))  # [B, K, T]
        positions = torch.arange(mask.shape[1], device=mask.device)  # [T]
        present = positions < count_positions(mask, self.config.width)[:, None]  # [B, T]
        return features.masked_fill(~present[:, None, :], -torch.inf)

    def query(self, words: Tensor, mask: Tensor) -> Tensor:
        """The representation of the query: float [B, M, D] and bool [B, M] to [B, K]."""
        pooled = self.convolve(self.query_convolution, words, mask).amax(dim=2)  # [B, K]
        pooled = pooled.masked_fill(~mask.any(dim=1, keepdim=True), 0.0)  # [B, K]
        return torch.tanh(self.query_layer(pooled))  # [B, K]

    def document(self, words: Tensor, mask: Tensor) -> Tensor:
        """The representations of the windows, 0 for missing windows: float [B, N, D] and bool [B, N] to [B, P, K]."""
        width, stride, windows = self.config.pool_width, self.config.pool_stride, self.config.windows
        features = self.convolve(self.document_convolution, words, mask)[:, :, : self.config.positions]
        missing = (windows - 1) * stride + width - features.shape[2]
        features = functional.pad(features, (0, missing), value=-torch.inf)  # [B, K, all positions of P windows]
        pooled = functional.max_pool1d(features, width, stride)  # [B, K, P]
        present = window_mask(count_positions(mask, self.config.width), self.config)[:, :, None]  # [B, P, 1]
        pooled = pooled.transpose(1, 2).masked_fill(~present, 0.0)  # [B, P, K]
        return torch.tanh(self.window_layer(pooled)) * present  # [B, P, K]

    def forward(self, queries: Tensor, mask: Tensor, document: Tensor) -> Tensor:
        """Scores [B] from the query's word vectors, float [B, M, D] and bool [B, M], and the windows, [B, P, K]."""
        query = self.query(queries, mask)  # [B, K]
        return self.output((document * query[:, None, :]).flatten(1))  # [B]


class Duet(InteractionModel[DuetConfig]):
    """DUET as a module over fixed word vectors."""

    name = "duet"
    by_length, matrix_name = True, "same word"

    def __init__(self, config: DuetConfig, vectors: Tensor):
        super().__init__(config, vectors)
        self.matches_unknown_words = config.parts != "distributed"
        if config.parts != "distributed":
            self.local = LocalModel(config)
        if config.parts != "local":
            self.distributed = DistributedModel(config, vectors.shape[1])

    def interaction(self, inputs: Inputs) -> Tensor:
        return same_words(inputs).to(self.vectors.dtype)  # [B, M, N]

    def score(self, matrix: Tensor, inputs: Inputs, document: Tensor | None = None) -> Tensor:
        """Scores [B] from the matches [B, M, N], and the documents' windows [B, P, K] if they are known."""
        scores = []
        if self.config.parts != "distributed":
            scores.append(self.local(matrix, inputs.query_mask))  # [B]
        if self.config.parts != "local":
            if document is None:
                document = self.distributed.document(self.vectors[inputs.documents], inputs.document_mask)
            scores.append(self.distributed(self.vectors[inputs.queries], inputs.query_mask, document))  # [B]
        return torch.stack(scores).sum(dim=0)  # [B]


class DuetPath(InteractionPath):
    """Caches the windows of the documents it reads, which do not depend on the query, until ``KEPT_BYTES`` are full."""

    of_index = True

    def __init__(self, model: Duet, builder: InputBuilder, options: RerankerOptions):
        super().__init__(model, builder, options)
        self.duet, config, self.lock = model, model.config, Lock()
        room = 0 if config.parts == "local" else KEPT_BYTES // (4 * config.windows * config.filters)
        # Place 0 is of documents that are not kept. Neither array takes memory before it is written.
        self.windows = model.vectors.new_empty(1 + min(room, len(builder.index)), config.windows, config.filters)
        self.places, self.count = np.zeros(len(builder.index), np.int32), 1  # by row

    def score(self, matrix: Tensor, inputs: Inputs, rows: np.ndarray) -> Tensor:
        if self.duet.config.parts == "local":
            return super().score(matrix, inputs, rows)
        places = self.places[rows]  # [B]
        windows, new = self.windows[places], np.flatnonzero(places == 0)  # [B, P, K], [new]
        if len(new):
            words, mask = self.duet.vectors[inputs.documents[new]], inputs.document_mask[new]
            windows[new] = self.duet.distributed.document(words, mask)
            with self.lock:
                new = new[np.unique(rows[new], return_index=True)[1]]
                new = new[self.places[rows[new]] == 0][: len(self.windows) - self.count]  # another thread's stay
                kept = np.arange(self.count, self.count + len(new), dtype=np.int32)
                self.windows[kept], self.count = windows[new], self.count + len(new)
                self.places[rows[new]] = kept
        return self.duet.score(matrix, inputs, windows)


def explain(model: Duet, inputs: Inputs) -> Attribution:
    """The attribution of DUET's scores: integrated gradients over exact matches and over the word vectors.

    Only matches divide by query words.

    Args:
        inputs: of one document; B is 1.
    """
    model, inputs = in_double(model, inputs)
    matches = model.interaction(inputs)  # [1, M, N]
    documents = model.vectors[inputs.documents]  # [1, N, D]

    def score(cells: Tensor, words: Tensor) -> Tensor:
        """cells [S, M, N], words [S, N]."""
        weighted = documents * words[:, :, None]  # [S, N, D]
        local = model.config.parts == "local"
        return model.score(
            matches * cells, inputs, None if local else model.distributed.document(weighted, inputs.document_mask)
        )  # [S]

    base, (cells, words) = integrated_gradients(score, [matches.shape[1:], documents.shape[1:2]])
    known, matrix = known_words(model, inputs), matches[0].numpy()
    attribution = of_cells(base, cells, known=known, matrix=matrix, matrix_name=model.matrix_name)
    if model.config.parts == "local":
        return attribution
    return replace(attribution, words=attribution.words + words, query_words=None)


Duet.roles = {**InteractionModel.roles, "fast": DuetPath}
