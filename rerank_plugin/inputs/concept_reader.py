"""The concepts of queries and documents as ids of a model, with masks ([K] 3)."""

from __future__ import annotations

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.inputs.concept_vocabulary import ConceptVocabulary


class ConceptReader:
    """Reads the concepts of one index for one model. Concepts that the model does not know are left out.

    Args:
        document_concepts, query_concepts: L of documents and queries; longer sequences are cut.

    Raises:
        InputError: the index holds no concepts, or only concepts that the model does not know.
    """

    def __init__(self, index: ForwardIndex, vocabulary: ConceptVocabulary, document_concepts: int, query_concepts: int):
        if index.in_memory:
            raise InputError(
                "the model reads concepts, which need an index built with a knowledge base: give document ids of such "
                "an index, or use a model of words alone (ktrel-w)"
            )
        if index.knowledge is None:
            raise InputError(
                f"the model reads concepts, and the index holds no concepts: build {index.folder} with "
                "a knowledge base, or use a model of words alone (ktrel-w)"
            )
        self.vocabulary, self.knowledge = vocabulary, index.knowledge
        self.document_concepts, self.query_concepts = document_concepts, query_concepts
        self.numbers = vocabulary.numbers(index.knowledge)  # int32 [C of the base]
        self.knows_all = bool((self.numbers >= 0).all())

    def query(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """The concepts of a query, cut or padded to L: ids int64 [L], mask bool [L]."""
        numbers = self.numbers[self.knowledge.query(text)]
        known = numbers[numbers >= 0][: self.query_concepts]
        ids = np.zeros(self.query_concepts, np.int64)
        ids[: len(known)] = known
        return ids, np.arange(self.query_concepts) < len(known)

    def documents(self, candidates: Candidates) -> tuple[np.ndarray, np.ndarray]:
        """The first L concepts of each of C documents: ids int64 [C, L], 0 where padded; mask bool [C, L]."""
        longest = self.document_concepts
        # Concepts may be cut before the look-up only if the look-up leaves none out.
        flat = candidates.flat_concepts(longest if self.knows_all else None)
        numbers, candidate = self.numbers[flat.ids], flat.candidate
        if not self.knows_all:
            known = numbers >= 0
            numbers, candidate = numbers[known], candidate[known]
        lengths = np.bincount(candidate, minlength=len(candidates))  # [C]
        position = np.arange(len(numbers)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        inside = position < longest
        ids = np.zeros((len(candidates), longest), np.int64)
        ids[candidate[inside], position[inside]] = numbers[inside]
        return ids, np.arange(longest) < lengths[:, None]
