"""Conv-KNRM (Dai, Xiong, Callan, Liu: Convolutional Neural Networks for Soft-Matching N-Grams in Ad-hoc Search, WSDM
2018, section 3).

One convolution for each n = 1, 2, 3, the same for queries and documents, turns every n adjacent words into an n-gram
vector. Each size of the query's n-grams is compared with each size of the document's ('cross-match'), and the kernels
of :mod:`~rerank_plugin.models.baselines.kernel_pooling` count each of the 9 matrices of cosines: 99 features, from
which a linear layer and tanh compute the score. Conv-KNRM is a baseline of [K] (table 1).

In shapes F are the filters, K the kernels and n the words of an n-gram. The position of an n-gram is that of its first
word, so there are N and M positions for n-grams of any size.

Where the paper is silent, or this model deviates:

* The paper trains the word vectors. Here ``trained_words`` does; without it they are fixed.
* An n-gram that reaches beyond the text, or beyond N or M words, is not counted. A query of fewer than n words has
  features of 0 for that n; a document of fewer than n words has no match for it.
* Unknown words. In an n-gram with a known word, an unknown word has the vector of UNK. The similarity of an n-gram of
  unknown words to the same words is 1, and to any other n-gram 0, as for words in KNRM.
* The similarity of an n-gram whose filters are all 0 after the ReLU is 0.
* Logarithms, 0.01, tanh and ties: as in KNRM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.inputs.interactions import cosine_matrix, same_words
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.base import ModelConfig
from rerank_plugin.models.baselines.kernel_pooling import (
    KERNELS,
    kernel_cells,
    kernel_features,
    soft_counts,
    tanh_attribution,
    without_matches,
)
from rerank_plugin.models.integrated_gradients import in_double, known_words
from rerank_plugin.models.ranking_model import FixedVectorModel


@dataclass(frozen=True)
class ConvKnrmConfig(ModelConfig):
    """Hyper-parameters; the defaults are the paper's, except the numbers of words.

    Attributes:
        filters: F, the filters of each n-gram size.
        longest_ngram: the largest n; n-grams have 1 to n words.
    """

    filters: int = 128
    longest_ngram: int = 3
    document_words: int = 200
    query_words: int = 16
    lexical_features: tuple[str, ...] = ()
    trained_words: bool = False
    later = ("trained_words",)

    def __post_init__(self) -> None:
        self.check("Conv-KNRM", "filters", "longest_ngram")


class Ngrams(NamedTuple):
    """The n-grams of one size of a batch of texts with L words."""

    vectors: Tensor  # of length 1, or 0 where all filters are 0; float [B, L, F]
    mask: Tensor  # bool [B, L], True for n-grams within the text
    unknown: Tensor  # bool [B, L], True for n-grams of unknown words only


class CrossMatch(NamedTuple):
    """The comparison of a query's n-grams of one size with a document's n-grams of one size."""

    sizes: tuple[int, int]  # words of an n-gram of the query, and of the document
    cosines: Tensor  # float [B, M, N]
    document_mask: Tensor  # bool [B, N]
    query_mask: Tensor  # bool [B, M]


def all_of_window(values: Tensor, words: int) -> Tensor:
    """Whether ``words`` adjacent values are all True; values behind the end count as False. Bool [B, L] to [B, L]."""
    return functional.pad(values, (0, words - 1)).unfold(1, words, 1).all(dim=2)


def same_ngrams(same: Tensor, words: int) -> Tensor:
    """Where n-grams of query and document have the same words, from where words are the same, bool [B, M, N] each."""
    query_words, document_words = same.shape[1:]
    padded = functional.pad(same, (0, words - 1, 0, words - 1))  # [B, M + n - 1, N + n - 1]
    for word in range(words):
        same = same & padded[:, word : word + query_words, word : word + document_words]  # [B, M, N]
    return same


def similarities(queries: Ngrams, documents: Ngrams, same: Tensor | None) -> Tensor:
    """Cosines of n-grams, float [B, M, N].

    same: where n-grams have the same words, bool [B, M, N]; None for n-grams of different sizes.
    """
    cosines = torch.bmm(queries.vectors, documents.vectors.transpose(1, 2))  # [B, M, N]
    unknown = queries.unknown[:, :, None] | documents.unknown[:, None, :]  # [B, M, N]
    return torch.where(unknown, 0.0 if same is None else same.to(cosines.dtype), cosines)


class ConvKnrm(FixedVectorModel[ConvKnrmConfig]):
    """Conv-KNRM as a module over fixed word vectors."""

    name = "conv-knrm"
    any_width, by_length = True, True
    matches_unknown_words = True

    def __init__(self, config: ConvKnrmConfig, vectors: Tensor):
        super().__init__(config, vectors)
        self.sizes = range(1, config.longest_ngram + 1)
        self.convolutions = nn.ModuleList(nn.Conv1d(vectors.shape[1], config.filters, words) for words in self.sizes)
        self.layer = nn.Linear(len(self.sizes) ** 2 * KERNELS, 1)

    def ngrams(self, ids: Tensor, mask: Tensor, words: int) -> Ngrams:
        """The n-grams of ``words`` words (section 3.1), from ids int64 [B, L] and mask bool [B, L]."""
        embedded = functional.embedding(ids, self.vectors).transpose(1, 2)  # [B, D, L]; its gradient has one order
        sums = self.convolutions[words - 1](functional.pad(embedded, (0, words - 1)))  # [B, F, L]
        vectors = functional.normalize(functional.relu(sums), dim=1).transpose(1, 2)  # [B, L, F]
        return Ngrams(vectors, all_of_window(mask, words), all_of_window(ids == 0, words))

    def forward(self, inputs: Inputs) -> Tensor:
        return self.score(self.cross_matches(inputs))  # [B]

    def cross_matches(self, inputs: Inputs) -> list[CrossMatch]:
        """The n-grams of every pair of sizes."""
        queries = [self.ngrams(inputs.queries, inputs.query_mask, words) for words in self.sizes]
        documents = [self.ngrams(inputs.documents, inputs.document_mask, words) for words in self.sizes]
        same = same_words(inputs)  # [B, M, N]
        matches = []
        for query_words, query in zip(self.sizes, queries):
            for document_words, document in zip(self.sizes, documents):
                equal = same_ngrams(same, query_words) if query_words == document_words else None
                cosines = similarities(query, document, equal)  # [B, M, N]
                matches.append(CrossMatch((query_words, document_words), cosines, document.mask, query.mask))
        return matches

    def score(self, matches: Sequence[CrossMatch]) -> Tensor:
        """Scores, float [B]."""
        features = [
            kernel_features(soft_counts(match.cosines, match.document_mask), match.query_mask) for match in matches
        ]
        return torch.tanh(self.layer(torch.cat(features, dim=1))[:, 0])  # [B]


def explain(model: ConvKnrm, inputs: Inputs) -> Attribution:
    """The attribution of Conv-KNRM's scores, as of KNRM's.

    The contribution of a pair of n-grams is divided equally among the pairs of their words.

    Args:
        inputs: of one document; B is 1.
    """
    model, inputs = in_double(model, inputs)
    cosines = cosine_matrix(model.vectors, inputs)  # [1, M, N]
    (terms, words), cells = cosines.shape[1:], torch.zeros_like(cosines[0])  # [M, N]
    with torch.no_grad():
        start, matches = model.layer.bias[0], model.cross_matches(inputs)
        for match, weights in zip(matches, model.layer.weight[0].chunk(len(matches))):
            query_size, document_size = match.sizes
            start = start + without_matches(match.query_mask, weights)
            ngram_cells = kernel_cells(match.cosines, match.document_mask, match.query_mask, weights)  # [M, N]
            for term in range(min(query_size, terms)):
                for word in range(min(document_size, words)):
                    shares = ngram_cells[: terms - term, : words - word] / (query_size * document_size)
                    cells[term:, word:] += shares
    return tanh_attribution(float(start), cells, known=known_words(model, inputs), matrix=cosines[0].numpy())
