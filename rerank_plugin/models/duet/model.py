"""DUET: exact matches by position beside matches of learned representations.

Mitra, Diaz and Craswell, Learning to Match using Local and Distributed Representations of Text for Web Search (WWW
2017), arXiv 1610.08136: the local model is section 3.1, the distributed model 3.2, their sum the duet. The local model
alone is a baseline of [P], the duet one of [K].

Local: a binary matrix says at which places of the document each query word stands. One affine map, shared by the query
words, takes a word's whole row of places to K filters; fully connected layers over all query words give the score.
Distributed: convolutions over the words of query and document; the query's is max-pooled as a whole, the document's in
windows; the two meet in a Hadamard product, window by window, and fully connected layers give the score. Every layer
ends in tanh, the last ones too (as in the authors' code), so a score lies between -2 and 2.

In shapes P are the pooling windows of a document of N words.

What differs from the paper:

* A word is its word vector, which is fixed; there it is counts of character n-graphs, the 2,000 most common ones.
* Documents are abstracts of some 200 words and not web pages cut at 1,000: N is 250.
* Pooling windows are 100 positions wide as there, but 10 apart and not 1: neighbours that are 1 apart share 99 of 100
  positions and nearly all maxima, and on abstracts each of them costs K * hidden weights (``pool_stride=1`` is theirs).

Where the paper is silent:

* Padding. There it is zeros that take part like words; here it adds nothing. A text is read as if the arrays ended with
  it: n-grams and windows that reach beyond it do not exist, except where the text is shorter than one, and the features
  of windows and query words that do not exist are zeros in the fully connected layers. So a score is the same however
  much padding there is, and more room (larger N, M) leaves the score of a text that fits as it was, if the weights of
  the new places are added behind the old ones.
* The last window holds what is left when the stride does not divide: no position is lost.
* A query word that no document holds matches nowhere; it still counts as a word.
* A document without words: its rows of the local model are the bias alone, and the distributed model sees zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from rerank_plugin.base.errors import InputError
from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.inputs.interactions import same_words
from rerank_plugin.models.base import ModelConfig
from rerank_plugin.models.interaction import InteractionModel
from rerank_plugin.models.ranking_model import linear_layers

PARTS = ("local", "distributed", "both")


@dataclass(frozen=True)
class DuetConfig(ModelConfig):
    """Hyper-parameters; the defaults are the paper's but for ``document_words`` and ``pool_stride``.

    Attributes:
        parts: 'local', 'distributed', or 'both' for the duet.
        filters: K, of every convolution.
        hidden: widths of the fully connected layers before the last, in both models.
        width: words that a convolution of the distributed model sees at once.
        pool_width, pool_stride: positions of a document's pooling window, and from one window to the next.
        dropout: before the last layer.
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


def positions_of(mask: Tensor, width: int) -> Tensor:
    """Positions of a convolution over each text: bool [B, N] to int64 [B].

    A text shorter than the convolution has one position, which sees zeros behind the text; one without words has none.
    """
    words = mask.sum(dim=1)  # [B]
    return (words - width + 1).clamp_min(1) * (words > 0)


def window_mask(positions: Tensor, config: DuetConfig) -> Tensor:
    """Which pooling windows a document of ``positions``, int64 [B], has: bool [B, P].

    It has the first one, and each one whose forerunner does not reach the end.
    """
    window = torch.arange(config.windows, device=positions.device)  # [P]
    covered = torch.where(window > 0, (window - 1) * config.pool_stride + config.pool_width, 0)  # [P]
    return positions[:, None] > covered


class FullyConnected(nn.Module):
    """Fully connected layers with tanh, dropout before the last, which gives the score: float [B, inward] to [B]."""

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
        # A convolution with filters as long as the document has one position: it is an affine map of the row.
        self.row = nn.Linear(config.document_words, config.filters)
        self.query_words = config.query_words
        self.output = FullyConnected(config.query_words * config.filters, config)

    def forward(self, matches: Tensor, query_mask: Tensor) -> Tensor:
        """Scores [B] from the matrix of matches, float [B, M, N]."""
        weight = self.row.weight[:, : matches.shape[2]]  # [K, N], or fewer where no document has N words
        features = torch.tanh(functional.linear(matches, weight, self.row.bias))  # [B, M, K]
        features = features * query_mask[:, :, None]  # [B, M, K], or fewer words where no query has M
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
        places = torch.arange(mask.shape[1], device=mask.device)  # [T]
        alive = places < positions_of(mask, self.config.width)[:, None]  # [B, T]
        return features.masked_fill(~alive[:, None, :], -torch.inf)

    def query(self, words: Tensor, mask: Tensor) -> Tensor:
        """What the query is: float [B, M, D] and bool [B, M] to [B, K]."""
        pooled = self.convolve(self.query_convolution, words, mask).amax(dim=2)  # [B, K]
        pooled = pooled.masked_fill(~mask.any(dim=1, keepdim=True), 0.0)  # [B, K]
        return torch.tanh(self.query_layer(pooled))  # [B, K]

    def document(self, words: Tensor, mask: Tensor) -> Tensor:
        """What the document's windows are, zeros where it has none: float [B, N, D] and bool [B, N] to [B, P, K]."""
        width, stride, windows = self.config.pool_width, self.config.pool_stride, self.config.windows
        features = self.convolve(self.document_convolution, words, mask)[:, :, : self.config.positions]
        missing = (windows - 1) * stride + width - features.shape[2]
        features = functional.pad(features, (0, missing), value=-torch.inf)  # [B, K, all positions of P windows]
        pooled = functional.max_pool1d(features, width, stride)  # [B, K, P]
        alive = window_mask(positions_of(mask, self.config.width), self.config)[:, :, None]  # [B, P, 1]
        pooled = pooled.transpose(1, 2).masked_fill(~alive, 0.0)  # [B, P, K]
        return torch.tanh(self.window_layer(pooled)) * alive  # [B, P, K]

    def forward(self, queries: Tensor, documents: Tensor, inputs: Inputs) -> Tensor:
        """Scores [B] from word vectors, float [B, M, D] and [B, N, D]."""
        query = self.query(queries, inputs.query_mask)  # [B, K]
        document = self.document(documents, inputs.document_mask)  # [B, P, K]
        return self.output((document * query[:, None, :]).flatten(1))  # [B]


class Duet(InteractionModel[DuetConfig]):
    """DUET as a module over word vectors that are not trained."""

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

    def score(self, matrix: Tensor, inputs: Inputs, documents: Tensor | None = None) -> Tensor:
        """Scores [B] from the matches [B, M, N]; ``documents``: other vectors for the document's words, [B, N, D]."""
        scores = []
        if self.config.parts != "distributed":
            scores.append(self.local(matrix, inputs.query_mask))  # [B]
        if self.config.parts != "local":
            documents = self.vectors[inputs.documents] if documents is None else documents  # [B, N, D]
            scores.append(self.distributed(self.vectors[inputs.queries], documents, inputs))  # [B]
        return torch.stack(scores).sum(dim=0)  # [B]
