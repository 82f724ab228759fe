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
from rerank_plugin.retrieval.forward import ForwardIndex, QueryTerms, idf
from rerank_plugin.text.vocabulary import Vocabulary


class Inputs(NamedTuple):
    """One batch. Masks are True for words; padded ids are 0 and mean nothing.

    The last three are for models that match words by identity or weigh them; others do without.

    Attributes:
        documents: int64 [B, N]. document_mask: bool [B, N].
        queries: int64 [B, M]. query_mask: bool [B, M].
        features: lexical features, float32 [B, F].
        document_terms: the same words as term ids of the index, which tells words apart that the model does not know;
            int64 [B, N], -1 where padded.
        query_terms: int64 [B, M], -1 where padded and for a word that no document holds.
        query_idf: IDF over title + abstract, float32 [B, M], 0 where padded.
    """

    documents: Tensor
    document_mask: Tensor
    queries: Tensor
    query_mask: Tensor
    features: Tensor
    document_terms: Tensor | None = None
    query_terms: Tensor | None = None
    query_idf: Tensor | None = None

    def take(self, rows) -> Inputs:
        """Some rows of the batch (a slice or an index tensor)."""
        return Inputs(*(None if tensor is None else tensor[rows] for tensor in self))

    def narrowed(self, width: int) -> Inputs:
        """The batch without document positions from ``width`` on."""
        documents, terms = self.documents[:, :width], self.document_terms
        return self._replace(
            documents=documents,
            document_mask=self.document_mask[:, :width],
            document_terms=None if terms is None else terms[:, :width],
        )

    def without_common_padding(self) -> Inputs:
        """The batch cut to its longest query and document, at least one word each."""
        words = max(int(self.query_mask.sum(dim=1).max()), 1)
        cut = {name: getattr(self, name) for name in ("queries", "query_mask", "query_terms", "query_idf")}
        cut = {name: None if tensor is None else tensor[:, :words] for name, tensor in cut.items()}
        return self.narrowed(max(int(self.document_mask.sum(dim=1).max()), 1))._replace(**cut)

    def to(self, device) -> Inputs:
        return Inputs(*(None if tensor is None else tensor.to(device) for tensor in self))


class QueryWords(NamedTuple):
    """A query as a model reads it.

    Attributes:
        ids: the model's ids, int64 [M]. mask: bool [M].
        terms: term ids of the index, int64 [M], -1 where padded and for a word that no document holds.
        idf: float32 [M], 0 where padded.
        known: words the model knows. cut: words beyond M.
    """

    ids: np.ndarray
    mask: np.ndarray
    terms: np.ndarray
    idf: np.ndarray
    known: int
    cut: int


class DocumentWords(NamedTuple):
    """The first N words of each of C documents.

    Attributes:
        ids: the model's ids, int64 [C, N], 0 where padded. mask: bool [C, N].
        terms: term ids of the index, int64 [C, N], -1 where padded.
    """

    ids: np.ndarray
    mask: np.ndarray
    terms: np.ndarray


class InputBuilder:
    """Turns queries and candidates of one index into the inputs of one model.

    Args:
        index: the forward index.
        vocabulary: the model's words.
        document_words, query_words: N and M.
        features: names of lexical features.
        left_out: words that are taken out of queries, unless there are no others.

    Raises:
        InputError: the model's words are of texts that were tokenized otherwise than those of the index.

    Attributes:
        model_ids: the model's id of each term of the index, int32 [V of the index]; 0 where the model knows none.
    """

    def __init__(
        self,
        index: ForwardIndex,
        vocabulary: Vocabulary,
        document_words: int,
        query_words: int,
        features: tuple[str, ...],
        left_out: frozenset[str] = frozenset(),
    ):
        index.check_tokenizer(vocabulary.tokenizer, "the model, or its word vectors,")
        self.index, self.vocabulary, self.left_out = index, vocabulary, left_out
        self.document_words, self.query_words, self.feature_names = document_words, query_words, features
        # One look-up a word of the model, once; after it a document's words are one gather away from the model's ids.
        rows = index.terms.find(vocabulary.words[1:])
        self.model_ids = np.zeros(index.vocabulary_size, np.int32)
        present = rows >= 0
        self.model_ids[rows[present]] = np.flatnonzero(present) + 1

    def query(self, terms: QueryTerms) -> QueryWords:
        """The query's words, cut or padded to M."""
        if self.left_out:
            terms = self._without(terms)
        kept = terms.terms[: self.query_words]
        ids, places = np.zeros(self.query_words, np.int64), np.full(self.query_words, -1)
        weights = np.zeros(self.query_words, np.float32)
        ids[: len(kept)] = self.vocabulary.lookup(kept)
        places[: len(kept)] = terms.ids[: len(kept)]
        frequency = self.index.document_frequency["text"]
        df = [int(frequency[term]) if term >= 0 else 0 for term in places[: len(kept)].tolist()]
        weights[: len(kept)] = idf(np.array(df, np.int64), len(self.index))
        mask = np.arange(self.query_words) < len(kept)
        return QueryWords(ids, mask, places, weights, int((ids > 0).sum()), len(terms.terms) - len(kept))

    def _without(self, terms: QueryTerms) -> QueryTerms:
        places = [place for place, term in enumerate(terms.terms) if term not in self.left_out]
        return QueryTerms([terms.terms[place] for place in places], terms.ids[places]) if places else terms

    def documents(self, candidates: Candidates) -> DocumentWords:
        """The candidates' first N words."""
        tokens, mask = candidates.padded_tokens(self.document_words)
        if not len(self.model_ids):
            return DocumentWords(np.zeros(mask.shape, np.int64), mask, np.full(mask.shape, -1))
        ids = np.where(mask, self.model_ids[tokens], 0).astype(np.int64)
        return DocumentWords(ids, mask, np.where(mask, tokens.astype(np.int64), -1))

    def features(self, query: QueryTerms, candidates: Candidates) -> np.ndarray:
        """The lexical features, float32 [C, F]."""
        if not self.feature_names:
            return np.zeros((len(candidates), 0), np.float32)
        return lexical_features(self.feature_names, query, candidates)

    def build(self, query: QueryTerms, words: QueryWords, candidates: Candidates) -> Inputs:
        """The inputs of all candidates of one query: B is C."""
        documents = self.documents(candidates)
        shape = (len(candidates), self.query_words)
        return Inputs(
            torch.from_numpy(documents.ids),
            torch.from_numpy(documents.mask),
            torch.from_numpy(words.ids).expand(shape),
            torch.from_numpy(words.mask).expand(shape),
            torch.from_numpy(self.features(query, candidates)),
            torch.from_numpy(documents.terms),
            torch.from_numpy(words.terms).expand(shape),
            torch.from_numpy(words.idf).expand(shape),
        )
