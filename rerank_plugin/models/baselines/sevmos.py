"""SevMos ([D18] 4.3.3, [D17] 4.1, 4.5 and 5.1.1): the model of Severyn and Moschitti (SIGIR 2015), with their names.

Query and document go through convolutions of their own, and a maximum over the text makes a vector of each, x_q and
x_d. A matrix compares the two, ``sim = x_q^T M x_d``; ``[x_q, sim, x_d, lexical features]`` is joined and goes through
feed-forward layers. SevMos-C1 has one convolution of width 5, SevMos-C3 three of width 3; both have 256 filters. The
word vectors are fixed.

x_d does not depend on the query, so it can be computed once a document ([D18] 5.3.2): :meth:`SevMos.encode_documents`.

In shapes w is the width of a convolution.

Where the papers are silent, or differ:

* Borders: 'full' as [D17] 4.1 says for all its models, so a text of n words has n + w - 1 windows, more with every
  layer. [D18] says 'same' of Delta's stage only.
* Activation: ReLU, as in [D17] 4.4 and 4.5; ``slope`` makes it leaky, as Delta's is in [D18].
* The feed-forward layers are [D17] 4.5's, 'sized to match these inputs': two as wide as the joined vector, then one
  output. Dropout stands before the maximum, before the first and before the last layer.
* The best models of [D18] were trained as classifiers: there the sigmoid of our score is the probability. Leaving it
  out keeps the order, and scores that differ stay different in float32.
* M starts as Glorot's uniform numbers.
* A text without words pools to zeros.
* Lexical features ([D18]: all 18) are brought to zero mean and unit variance with the training data's statistics, which
  are saved with the weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from rerank_plugin.base.errors import InputError
from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.inputs.lexical_features import PAPER_NAMES
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.base import ModelConfig
from rerank_plugin.models.integrated_gradients import in_double, of_words
from rerank_plugin.models.ranking_model import (
    EncodingModel,
    StandardizedFeatures,
    convolution_layers,
    linear_layers,
)

SINGLE_WIDTH, STACK_WIDTH = 5, 3  # of C1's and of C3's convolutions


@dataclass(frozen=True)
class SevMosConfig(ModelConfig):
    """Hyper-parameters; the defaults are SevMos-C1's, and with ``convolutions=3`` SevMos-C3's.

    The papers tuned dropout and L2 costs and give no values.

    Attributes:
        width: of the convolutions; by default 5 for one and 3 for more.
        hidden: widths of the feed-forward layers before the last; by default two as wide as the joined vector.
        dropout, classifier_dropout: in the convolutional and in the feed-forward stage.
        slope: of the activations below zero.
    """

    of_training = ("dropout", "classifier_dropout")
    filters: int = 256
    width: int | None = None
    convolutions: int = 1
    hidden: tuple[int, ...] | None = None
    dropout: float = 0.2
    classifier_dropout: float = 0.2
    slope: float = 0.0
    document_words: int = 50
    query_words: int = 7
    lexical_features: tuple[str, ...] = PAPER_NAMES

    def __post_init__(self) -> None:
        if self.width is None:
            object.__setattr__(self, "width", SINGLE_WIDTH if self.convolutions == 1 else STACK_WIDTH)
        hidden = (self.joined, self.joined) if self.hidden is None else self.hidden
        object.__setattr__(self, "hidden", hidden)
        self.check("SevMos", "filters", "width", "convolutions", "hidden", takes_features=True)
        if not 0 <= self.slope <= 1:
            raise InputError(f"slope {self.slope} is not in [0, 1]")

    @property
    def border(self) -> int:
        """The padding of the convolutions at either end, their width less one."""
        assert self.width is not None, "set above"
        return self.width - 1

    @property
    def layer_widths(self) -> tuple[int, ...]:
        """Widths of the feed-forward layers, from the joined vector to the score."""
        assert self.hidden is not None, "set above"
        return (self.joined, *self.hidden, 1)

    @property
    def joined(self) -> int:
        """Width of the joined vector, 2K + 1 + F."""
        return 2 * self.filters + 1 + len(self.lexical_features)


class SevMos(StandardizedFeatures[SevMosConfig], EncodingModel[SevMosConfig]):
    """SevMos as a module over word vectors that are not trained."""

    name = "sevmos"
    any_width = True  # padding is inert

    def __init__(self, config: SevMosConfig, vectors: Tensor):
        super().__init__(config, vectors)
        self.query_convolutions, self.document_convolutions = (
            convolution_layers(vectors.shape[1], config, config.border) for _ in range(2)
        )
        self.dropout = nn.Dropout(config.dropout)
        self.similarity = nn.Parameter(torch.empty(config.filters, config.filters))
        nn.init.xavier_uniform_(self.similarity)
        self.layers = linear_layers(*config.layer_widths)
        self.classifier_dropout = nn.Dropout(config.classifier_dropout)

    def regularized(self) -> dict[str, list[nn.Parameter]]:
        """The weights with an L2 cost of their own each; M belongs to the second stage."""
        return {
            "convolution": [layer.weight for layer in (*self.query_convolutions, *self.document_convolutions)],
            "feed_forward": [self.similarity, *(layer.weight for layer in self.layers)],
        }

    @property
    def encoding_size(self) -> int:
        return self.config.filters

    def encode_documents(
        self, ids: Tensor, mask: Tensor, concept_ids: Tensor | None = None, concept_mask: Tensor | None = None
    ) -> Tensor:
        """x_d: ids int64 [B, N] and mask bool [B, N] to float [B, K]; concepts are not read."""
        return self.convolve(self.document_convolutions, self.vectors[ids], mask)

    def encode_queries(
        self, ids: Tensor, mask: Tensor, concept_ids: Tensor | None = None, concept_mask: Tensor | None = None
    ) -> Tensor:
        """x_q: ids int64 [B, M] and mask bool [B, M] to float [B, K]; concepts are not read."""
        return self.convolve(self.query_convolutions, self.vectors[ids], mask)

    def convolve(self, convolutions: nn.ModuleList, words: Tensor, mask: Tensor) -> Tensor:
        """Convolutions with full borders over words float [B, N, D], and the maximum over the windows that hold one."""
        border = self.config.border
        alive = mask[:, None, :].to(words.dtype)  # [B, 1, N]
        features = words.transpose(1, 2) * alive  # [B, D, N]
        for convolution in convolutions:
            alive = functional.max_pool1d(functional.pad(alive, (border, border)), border + 1, 1)  # [B, 1, N + w - 1]
            features = functional.leaky_relu(convolution(features), self.config.slope) * alive  # [B, K, N + w - 1]
        features = self.dropout(features).masked_fill(alive == 0, -torch.inf)
        pooled = features.amax(dim=2)  # [B, K]
        return torch.where(mask.any(dim=1, keepdim=True), pooled, 0.0)

    def score_encodings(self, queries: Tensor, documents: Tensor, features: Tensor) -> Tensor:
        """Scores [B] of encoded queries [B, K] and documents [B, K] with raw lexical features [B, F]."""
        similarity = ((queries @ self.similarity) * documents).sum(dim=1, keepdim=True)  # [B, 1]
        features = self.standardized(features)  # [B, F]
        joined = torch.cat([queries, similarity, documents, features], dim=1)  # [B, 2K + 1 + F]
        hidden = self.classifier_dropout(joined)
        for layer in self.layers[:-1]:
            hidden = functional.leaky_relu(layer(hidden), self.config.slope)  # [B, width of the layer]
        return self.layers[-1](self.classifier_dropout(hidden))[:, 0]  # [B]

    def forward(self, inputs: Inputs) -> Tensor:
        queries = self.encode_queries(inputs.queries, inputs.query_mask)  # [B, K]
        documents = self.encode_documents(inputs.documents, inputs.document_mask)  # [B, K]
        return self.score_encodings(queries, documents, inputs.features)  # [B]


def explain(model: SevMos, inputs: Inputs) -> Attribution:
    """What SevMos's score of a document is made of: integrated gradients over its word vectors and lexical features.

    The model compares no pairs of words: the cosines are there to be read, and the query belongs to the base.

    Args:
        inputs: of one document; B is 1.
    """
    model, inputs = in_double(model, inputs)
    documents, query = model.vectors[inputs.documents], model.encode_queries(inputs.queries, inputs.query_mask)

    def score(words: Tensor, features: Tensor) -> Tensor:
        """words [S, N], features [S, F]."""
        encoded = model.convolve(model.document_convolutions, documents * words[:, :, None], inputs.document_mask)
        return model.score_encodings(query.expand(len(words), -1), encoded, features)  # [S]

    return of_words(model, inputs, score)
