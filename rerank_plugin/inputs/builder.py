"""The inputs of neural models: words and concepts of queries and documents as ids of the model, masks, and features.

Training and search share this code, so that their scores are equal. Only batches of tensors need torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex, IndexQuery, idf
from rerank_plugin.indexes.term_ids import TermIds
from rerank_plugin.inputs.concept_reader import ConceptReader
from rerank_plugin.inputs.lexical_features import VECTOR_NAMES, lexical_features
from rerank_plugin.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from torch import Tensor


class Inputs(NamedTuple):
    """One batch. Masks are True for words and concepts, False for padding; padded ids are 0.

    Terms are the same words as ids of the index, which distinguish words outside the model's vocabulary. Terms and IDF
    are for models that match words by identity or weight them by IDF; concepts are set only for models that read them.
    """

    documents: Tensor  # int64 [B, N]
    document_mask: Tensor  # bool [B, N]
    queries: Tensor  # int64 [B, M]
    query_mask: Tensor  # bool [B, M]
    features: Tensor  # lexical features, float32 [B, F]
    document_terms: Tensor | None = None  # int64 [B, N], -1 where padded
    query_terms: Tensor | None = None  # int64 [B, M], -1 where padded and for a word that no document holds
    query_idf: Tensor | None = None  # over title + abstract, float32 [B, M], 0 where padded
    document_concepts: Tensor | None = None  # int64 [B, L]
    document_concept_mask: Tensor | None = None  # bool [B, L]
    query_concepts: Tensor | None = None  # int64 [B, L of queries]
    query_concept_mask: Tensor | None = None  # bool [B, L of queries]

    @classmethod
    def joined(cls, batches: Sequence[Inputs]) -> Inputs:
        """The concatenation of batches whose shapes differ only in B."""
        import torch

        return cls(*(None if tensors[0] is None else torch.cat(tensors) for tensors in zip(*batches)))

    def take(self, rows: slice | Tensor) -> Inputs:
        """The selected rows of the batch."""
        return Inputs(*(None if tensor is None else tensor[rows] for tensor in self))

    def narrowed(self, width: int) -> Inputs:
        """The batch cut to the first ``width`` document positions."""
        documents, terms = self.documents[:, :width], self.document_terms
        return self._replace(
            documents=documents,
            document_mask=self.document_mask[:, :width],
            document_terms=None if terms is None else terms[:, :width],
        )

    def without_common_padding(self) -> Inputs:
        """The batch cut to its longest query and document, at least one word each."""
        words = max(int(self.query_mask.sum(dim=1).max()), 1)
        fields = {name: getattr(self, name) for name in ("queries", "query_mask", "query_terms", "query_idf")}
        cut = {name: None if tensor is None else tensor[:, :words] for name, tensor in fields.items()}
        narrowed = self.narrowed(max(int(self.document_mask.sum(dim=1).max()), 1))
        return narrowed._replace(**cut).without_concept_padding()

    def without_concept_padding(self) -> Inputs:
        """The batch cut to the largest number of concepts of a query and of a document, at least one each."""
        cut: dict[str, Tensor] = {}
        for name in ("document_concept", "query_concept"):
            ids, mask = getattr(self, f"{name}s"), getattr(self, f"{name}_mask")
            if mask is not None:
                longest = max(int(mask.sum(dim=1).max()), 1)
                cut |= {f"{name}s": ids[:, :longest], f"{name}_mask": mask[:, :longest]}
        return self._replace(**cut) if cut else self

    def to(self, device: Any) -> Inputs:
        """The batch on a torch device."""
        return Inputs(*(None if tensor is None else tensor.to(device) for tensor in self))


class ModelQuery(NamedTuple):
    """A query with the ids of a model's vocabulary, cut or padded to M words and L concepts."""

    ids: np.ndarray  # the model's ids, int64 [M]
    mask: np.ndarray  # bool [M]
    terms: np.ndarray  # term ids of the index, int64 [M], -1 where padded and for a word that no document holds
    idf: np.ndarray  # float32 [M], 0 where padded
    known: int  # number of words and concepts that the model knows, among those it reads
    cut: int  # number of words beyond M
    concepts: np.ndarray | None = None  # int64 [L]; None for a model that reads no concepts
    concept_mask: np.ndarray | None = None  # bool [L], likewise


class DocumentWords(NamedTuple):
    """The first N words of each of C documents."""

    ids: np.ndarray  # the model's ids, int64 [C, N], 0 where padded
    mask: np.ndarray  # bool [C, N]
    terms: np.ndarray  # term ids of the index, int64 [C, N], -1 where padded
    concepts: np.ndarray | None = None  # int64 [C, L], 0 where padded; None for a model that reads none
    concept_mask: np.ndarray | None = None  # bool [C, L], likewise


class InputBuilder:
    """Turns queries and candidates of one index into the inputs of one model.

    Args:
        document_words, query_words: N and M.
        features: names of lexical features, and of features of word vectors.
        left_out: words to remove from queries, unless a query has no other words.
        concepts: the concept reader, for a model that reads concepts.
        reads_words: whether the model reads words.
        vector_features: a :class:`~rerank_plugin.inputs.vector_features.VectorFeatures`, required if ``features``
            name any of its features.

    Raises:
        InputError: the tokenizers of the model and of the index differ.

    Attributes:
        feature_seconds: time spent on features so far.
    """

    feature_seconds = 0.0

    def __init__(
        self,
        index: ForwardIndex,
        vocabulary: Vocabulary,
        document_words: int,
        query_words: int,
        features: tuple[str, ...],
        left_out: frozenset[str] = frozenset(),
        concepts: ConceptReader | None = None,
        reads_words: bool = True,
        vector_features: Callable[[InputBuilder, ModelQuery, Candidates], np.ndarray] | None = None,
    ):
        index.check_tokenizer(vocabulary.tokenizer, "the model, or its word vectors,")
        self.index, self.vocabulary, self.left_out = index, vocabulary, left_out
        self.concepts, self.reads_words = concepts, reads_words
        self.document_words, self.query_words, self.feature_names = document_words, query_words, features
        self.vector_features, self.is_vector_feature = vector_features, [name in VECTOR_NAMES for name in features]
        self.lexical_names = [name for name in features if name not in VECTOR_NAMES]
        self._model_ids = TermIds(index, vocabulary)

    @property
    def passage_words(self) -> int:
        """The number of words of a document that the model reads."""
        return self.document_words

    @property
    def model_ids(self) -> np.ndarray:
        """The model's id of each term of the index, int32 [V of the index]."""
        return self._model_ids.array

    def query(self, terms: IndexQuery) -> ModelQuery:
        """The query's words, cut or padded to M, and its concepts."""
        places = self.places_read(terms)
        words = [terms.terms[place] for place in places[: self.query_words]]
        ids, term_ids = np.zeros(self.query_words, np.int64), np.full(self.query_words, -1)
        weights = np.zeros(self.query_words, np.float32)
        ids[: len(words)] = self.vocabulary.lookup(words)
        term_ids[: len(words)] = terms.ids[places[: len(words)]]
        frequency = self.index.document_frequency["text"]
        df = [int(frequency[term]) if term >= 0 else 0 for term in term_ids[: len(words)].tolist()]
        weights[: len(words)] = idf(np.array(df, np.int64), self.index.documents)
        mask = np.arange(self.query_words) < len(words)
        known = int((ids > 0).sum()) if self.reads_words else 0
        cut = len(places) - len(words) if self.reads_words else 0
        query = ModelQuery(ids, mask, term_ids, weights, known, cut)
        if self.concepts is None:
            return query
        concepts, concept_mask = self.concepts.query(terms.text)
        return query._replace(known=known + int(concept_mask.sum()), concepts=concepts, concept_mask=concept_mask)

    def places_read(self, terms: IndexQuery) -> np.ndarray:
        """The places of a query's words without the left-out words, int64 [any]; the model reads the first M."""
        places = [place for place, term in enumerate(terms.terms) if term not in self.left_out]
        return np.array(places or range(len(terms.terms)), np.int64)

    def without_left_out(self, terms: IndexQuery) -> IndexQuery:
        """The query's words that its lexical features read: all but the left-out ones, however many."""
        if not self.left_out:
            return terms
        places = self.places_read(terms)
        return terms._replace(terms=[terms.terms[place] for place in places.tolist()], ids=terms.ids[places])

    def documents(self, candidates: Candidates) -> DocumentWords:
        """The candidates' first N words, and their first concepts."""
        tokens, mask = candidates.padded_tokens(self.document_words)
        concepts = () if self.concepts is None else self.concepts.documents(candidates)
        if not len(self.model_ids):
            return DocumentWords(np.zeros(mask.shape, np.int64), mask, np.full(mask.shape, -1), *concepts)
        ids = np.where(mask, self.model_ids[tokens], 0).astype(np.int64)
        return DocumentWords(ids, mask, np.where(mask, tokens.astype(np.int64), -1), *concepts)

    def features(self, query: IndexQuery, candidates: Candidates) -> np.ndarray:
        """The features, float32 [C, F]."""
        started = perf_counter()
        columns = np.zeros((len(candidates), len(self.feature_names)), np.float32)
        if self.lexical_names:
            columns[:, np.invert(self.is_vector_feature)] = lexical_features(
                self.lexical_names, self.without_left_out(query), candidates
            )
        if self.vector_features is not None:
            columns[:, self.is_vector_feature] = self.vector_features(self, self.query(query), candidates)
        self.feature_seconds += perf_counter() - started
        return columns

    def build(self, query: IndexQuery, words: ModelQuery, candidates: Candidates) -> Inputs:
        """The inputs of all candidates of one query: B is C."""
        import torch

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
            *concept_tensors(documents, [words]),
        )


def concept_tensors(documents: DocumentWords, words: Sequence[ModelQuery]) -> tuple[Tensor | None, ...]:
    """The concept fields of :class:`Inputs`, in order; ``words`` has a query for each document, or one for all."""
    if documents.concepts is None:
        return (None,) * 4
    import torch

    query_tensors = [
        torch.from_numpy(np.stack(arrays)).expand(len(documents.mask), -1)
        for arrays in zip(*((query.concepts, query.concept_mask) for query in words))
    ]
    return (torch.from_numpy(documents.concepts), torch.from_numpy(documents.concept_mask), *query_tensors)
