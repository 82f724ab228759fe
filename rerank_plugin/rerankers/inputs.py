"""What a neural model is given: the words of queries and documents as its own ids, with masks and features.

Training and search build their inputs here, so a score in training is the score in search.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rerank_plugin.features.lexical import lexical_features
from rerank_plugin.retrieval.candidates import Candidates
from rerank_plugin.retrieval.forward import ForwardIndex, QueryTerms
from rerank_plugin.text.vocabulary import Vocabulary


class Inputs(NamedTuple):
    """One batch. Masks are True for words; padded ids are 0 and mean nothing.

    Attributes:
        documents: int64 [B, N]. document_mask: bool [B, N].
        queries: int64 [B, M]. query_mask: bool [B, M].
        features: lexical features, float32 [B, F].
    """

    documents: Tensor
    document_mask: Tensor
    queries: Tensor
    query_mask: Tensor
    features: Tensor

    def take(self, rows) -> Inputs:
        """Some rows of the batch (a slice or an index tensor)."""
        return Inputs(*(tensor[rows] for tensor in self))

    def to(self, device) -> Inputs:
        return Inputs(*(tensor.to(device) for tensor in self))


class QueryWords(NamedTuple):
    """A query as a model reads it: ids int64 [M], mask bool [M], how many words are known and how many were cut."""

    ids: np.ndarray
    mask: np.ndarray
    known: int
    cut: int


class InputBuilder:
    """Turns queries and candidates of one index into the inputs of one model.

    Args:
        index: the forward index.
        vocabulary: the model's words.
        document_words, query_words: N and M.
        features: names of lexical features.
    """

    def __init__(
        self,
        index: ForwardIndex,
        vocabulary: Vocabulary,
        document_words: int,
        query_words: int,
        features: tuple[str, ...],
    ):
        self.index, self.vocabulary = index, vocabulary
        self.document_words, self.query_words, self.feature_names = document_words, query_words, features
        # One look-up a word of the model, once; after it a document's words are one gather away from the model's ids.
        rows = index.terms.find(vocabulary.words[1:])
        self.model_ids = np.zeros(index.vocabulary_size, np.int64)
        present = rows >= 0
        self.model_ids[rows[present]] = np.flatnonzero(present) + 1

    def query(self, terms: list[str]) -> QueryWords:
        """The query's words, cut or padded to M."""
        kept = terms[: self.query_words]
        ids = np.zeros(self.query_words, np.int64)
        ids[: len(kept)] = self.vocabulary.lookup(kept)
        mask = np.arange(self.query_words) < len(kept)
        return QueryWords(ids, mask, int((ids > 0).sum()), len(terms) - len(kept))

    def documents(self, candidates: Candidates) -> tuple[np.ndarray, np.ndarray]:
        """The candidates' first N words as the model's ids, int64 [C, N], and their mask, bool [C, N]."""
        tokens, mask = candidates.padded_tokens(self.document_words)
        if not len(self.model_ids):
            return np.zeros(mask.shape, np.int64), mask
        return np.where(mask, self.model_ids[tokens], 0), mask

    def features(self, query: QueryTerms, candidates: Candidates) -> np.ndarray:
        """The lexical features, float32 [C, F]."""
        if not self.feature_names:
            return np.zeros((len(candidates), 0), np.float32)
        return lexical_features(self.feature_names, query, candidates)

    def build(self, query: QueryTerms, words: QueryWords, candidates: Candidates) -> Inputs:
        """The inputs of all candidates of one query: B is C."""
        documents, document_mask = self.documents(candidates)
        shape = (len(candidates), self.query_words)
        return Inputs(
            torch.from_numpy(documents),
            torch.from_numpy(document_mask),
            torch.from_numpy(words.ids).expand(shape),
            torch.from_numpy(words.mask).expand(shape),
            torch.from_numpy(self.features(query, candidates)),
        )
