"""The ids in a vocabulary of an index's terms."""

from __future__ import annotations

import numpy as np

from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.text.vocabulary import Vocabulary


class TermIds:
    """The ids of the terms of an index, also of one of texts, which gets new terms.

    Args:
        left_out: words that have no id.
        by_hash: whether a term without an id has the entry of its hash, where the vocabulary has such entries.
    """

    def __init__(
        self, index: ForwardIndex, vocabulary: Vocabulary, left_out: frozenset[str] = frozenset(), by_hash: bool = True
    ):
        self.index, self.vocabulary, self.left_out = index, vocabulary, left_out
        self.by_hash = by_hash and vocabulary.hashed > 0
        self._terms, self._array = None, np.zeros(0, np.int32)

    @property
    def array(self) -> np.ndarray:
        """The id of each term, int32 [V of the index]; 0 where there is none."""
        terms = self.index.terms
        if terms is not self._terms:
            self._terms = terms
            self._array = np.zeros(0, np.int32) if self.index.in_memory else self._of_stored(terms)
        if (known := len(self._array)) < len(terms):
            new = [term if term not in self.left_out else "" for term in terms.strings[known:]]
            ids = self.vocabulary.lookup(new) if self.by_hash else [self.vocabulary.ids.get(term, 0) for term in new]
            self._array = np.concatenate([self._array, np.array(ids, np.int32)])
        return self._array

    def _of_stored(self, terms) -> np.ndarray:
        """One look-up a word of the vocabulary, which are fewer than the terms."""
        words = [word for word in self.vocabulary.words[1:] if word not in self.left_out]
        rows = terms.find(words)
        present = rows >= 0
        ids = np.zeros(len(terms), np.int32)
        ids[rows[present]] = np.array(self.vocabulary.lookup(words), np.int32)[present]
        if self.by_hash:
            of_hashes = np.zeros_like(ids)
            of_hashes[terms.rows_by_hash] = self.vocabulary.of_hashes(terms.hashes)
            ids = np.where(ids > 0, ids, of_hashes)
        return ids
