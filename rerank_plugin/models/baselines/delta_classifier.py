"""The Delta Relevance Classifier ([D17] section 4, figure 1): the first version of Delta, a probability of relevance.

Every known word of the document is paired with its closest known query word; their difference, cosine and distance are
a row (algorithm 1). Three convolutions over the rows are max-pooled over the document; a feed-forward network
classifies the pair from the pooled vector and four overlap features. The word vectors are fixed.

Differences to :mod:`~rerank_plugin.models.delta.model`: UNK is skipped, rows have no proximity, and borders of the
convolutions, activation (ReLU), size (256 filters), classifier and training differ.

Training ([D17] 4.6 and 4.7): binary cross-entropy of the sigmoid of the score; Adadelta, mini-batches of 256, 10
epochs, of which the one with the best accuracy on the validation data is kept. All samples have weight 1 or, which
raised nDCG@20 by 2%, ``max(1, log(1 + r))`` at relevance level r.

In shapes w is the width of a convolution.

Where the paper is silent:

* The score is the input of the sigmoid. The order is the same, cross-entropy of logits is the same loss, and scores
  that differ stay different in float32.
* The document is cut to N words before UNK is skipped. Algorithm 1 gives no row for a skipped word, so its neighbours
  are adjacent in the convolutions.
* Equal distances: the first query word counts as the closest. Zero vectors: cosine 0.
* Without a known word in the query or in the document the pooled vector is zeros; the overlap features still count.
* The mask, with borders in 'full' mode ([D17] 4.1): windows without words are zero before the next layer and not part
  of the maximum.
* 'Query and document words in common': Severyn and Moschitti count words of both texts; the feature here is their share
  of the distinct words of either, as [D18] 4.2.2 (3) and (5) names the features of that paper. As there, the overlap
  features read whole texts and also words without a vector.
* Overlap features are brought to zero mean and unit variance with the training data's statistics, which are saved with
  the weights.
* Dropout probabilities: tuned, but not reported.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.base import ModelConfig
from rerank_plugin.models.delta_stage import closest_words, delta_stage
from rerank_plugin.models.integrated_gradients import in_double, of_words
from rerank_plugin.models.ranking_model import StandardizedFeatures, convolution_layers, linear_layers

OVERLAPS = ("jaccard_text", "idf_jaccard_text", "overlap_text", "bigram_overlap_text")  # [D17] 4.2, (i) to (iv)
PAIR_FEATURES = 2  # cosine and distance


@dataclass(frozen=True)
class DeltaClassifierConfig(ModelConfig):
    """Hyper-parameters; the defaults are the paper's where it gives any.

    Attributes:
        width: width of the convolutions.
        hidden: widths of the feed-forward layers before the last; by default two as wide as the joined vector.
        dropout, classifier_dropout: in the Delta Scanner and, twice, in the Relevance Classifier.
        lexical_features: names from :mod:`rerank_plugin.inputs.lexical_features`; the paper has the four overlaps.
    """

    filters: int = 256
    width: int = 3
    convolutions: int = 3
    hidden: tuple[int, ...] | None = None
    dropout: float = 0.2
    classifier_dropout: float = 0.2
    document_words: int = 50
    query_words: int = 7
    lexical_features: tuple[str, ...] = OVERLAPS

    def __post_init__(self) -> None:
        hidden = (self.joined, self.joined) if self.hidden is None else self.hidden
        object.__setattr__(self, "hidden", hidden)
        self.check("delta-classifier", "filters", "width", "convolutions", "hidden", takes_features=True)

    @property
    def joined(self) -> int:
        """Width of the joined vector, K + F."""
        return self.filters + len(self.lexical_features)

    @property
    def layer_widths(self) -> tuple[int, ...]:
        """Widths of the feed-forward layers, from the joined vector to the score."""
        return (self.joined, *(self.hidden or ()), 1)


def difference_rows(vectors: Tensor, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """The difference features ([D17] algorithm 1), without parameters.

    Args:
        vectors: word vectors, float [V, D], row 0 for UNK.

    Returns:
        rows float [B, N, D + 2]: ``d - q*``, ``cos(d, q*)``, ``|d - q*|`` for the closest query word q* of each known
        word d, without gaps, then zeros; and their mask, bool [B, N].
    """
    query_known = inputs.query_mask & (inputs.queries > 0)  # [B, M]
    order, mask = known_words_first(inputs)  # [B, N] each
    ids = inputs.documents.gather(1, order)  # [B, N]
    matrix = delta_stage(vectors[ids], mask, vectors[inputs.queries], query_known)  # [B, N, D + 3]
    return matrix[..., :-1], mask & query_known.any(dim=1, keepdim=True)  # proximity is the last column


def known_words_first(inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Positions of document words, known words first, int64 [B, N]; and the mask of known words, bool [B, N]."""
    known = inputs.document_mask & (inputs.documents > 0)  # [B, N]
    order = torch.argsort(known.logical_not().to(torch.uint8), dim=1, stable=True)  # [B, N]
    return order, known.gather(1, order)


class DeltaClassifier(StandardizedFeatures[DeltaClassifierConfig]):
    """The classifier as a module; ``forward`` takes :class:`~rerank_plugin.inputs.builder.Inputs`, returns logits [B].

    Args:
        config: the hyper-parameters.
        vectors: word vectors, float32 [V, D], which stay fixed; row 0 for UNK is not used.
    """

    name = "delta-classifier"
    any_width = True

    def __init__(self, config: DeltaClassifierConfig, vectors: Tensor):
        super().__init__(config, vectors)
        self.convolutions = convolution_layers(vectors.shape[1] + PAIR_FEATURES, config, config.width - 1)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = linear_layers(*config.layer_widths)
        self.classifier_dropout = nn.Dropout(config.classifier_dropout)

    def scan(self, rows: Tensor, mask: Tensor) -> Tensor:
        """The Delta Scanner ([D17] 4.4): float [B, N, D + 2] and mask bool [B, N], words first, to float [B, K]."""
        border = self.config.width - 1
        lengths = mask.sum(dim=1)[:, None, None]  # [B, 1, 1]
        features = rows.transpose(1, 2)  # [B, D + 2, N]
        for convolution in self.convolutions:
            features = functional.relu(convolution(features))  # [B, K, N + w - 1]
            lengths = lengths + border
            places = torch.arange(features.shape[2], device=features.device)  # [N + w - 1]
            features = features * (places < lengths)  # [B, K, N + w - 1]
        # Values of a ReLU are at least 0, so the zeros beyond a document never replace a larger value.
        pooled = self.dropout(features).amax(dim=2)  # [B, K]
        return torch.where(mask.any(dim=1, keepdim=True), pooled, 0.0)

    def classify(self, pooled: Tensor, features: Tensor) -> Tensor:
        """The Relevance Classifier ([D17] 4.5): float [B, K] and raw overlap features [B, F] to logits [B]."""
        features = self.standardized(features)  # [B, F]
        hidden = self.classifier_dropout(torch.cat([pooled, features], dim=1))  # [B, K + F]
        for layer in self.layers[:-1]:
            hidden = functional.relu(layer(hidden))  # [B, width of the layer]
        return self.layers[-1](self.classifier_dropout(hidden))[:, 0]  # [B]

    def forward(self, inputs: Inputs) -> Tensor:
        rows, mask = difference_rows(self.vectors, inputs)  # [B, N, D + 2], [B, N]
        return self.classify(self.scan(rows, mask), inputs.features)  # [B]


def explain(model: DeltaClassifier, inputs: Inputs) -> Attribution:
    """The attribution of the Delta Relevance Classifier's scores: integrated gradients over rows and overlap features.

    Args:
        inputs: of one document; B is 1.
    """
    model, inputs = in_double(model, inputs)
    rows, mask = difference_rows(model.vectors, inputs)  # [1, N, D + 2], [1, N]
    order = known_words_first(inputs)[0][0]  # [N]

    def score(words: Tensor, features: Tensor) -> Tensor:
        """words [S, N], features [S, F]."""
        pooled = model.scan(rows * words[:, order, None], mask)  # [S, K]
        return model.classify(pooled, features)  # [S]

    documents, queries = model.vectors[inputs.documents], model.vectors[inputs.queries]  # [1, N, D], [1, M, D]
    closest = closest_words(documents, queries, inputs.query_mask & (inputs.queries > 0))[0].numpy()  # [N]
    return of_words(model, inputs, score, closest=closest)
