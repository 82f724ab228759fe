"""The vocabulary ids of an index's terms."""

from __future__ import annotations

import numpy as np

from rerank_plugin.files.string_table import StringTable
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.text.vocabulary import Vocabulary


class TermIds:
    """The vocabulary ids of the terms of an index, also of an index in memory, which grows.

    Args:
        left_out: words without an id.
        by_hash: whether a term without an id gets a hash entry, if the vocabulary has such entries.
    """

    def __init__(
        self, index: ForwardIndex, vocabulary: Vocabulary, left_out: frozenset[str] = frozenset(), by_hash: bool = True
    ):
        self.index, self.vocabulary, self.left_out = index, vocabulary, left_out
        self.by_hash = by_hash and vocabulary.hashed > 0
        # Terms and ids are replaced together: several threads read them.
        terms = index.terms
        self._known = terms, self._stored_ids(terms) if isinstance(terms, StringTable) else np.zeros(0, np.int32)

    @property
    def array(self) -> np.ndarray:
        """The id of each term, int32 [V of the index]; 0 for a term without an id."""
        (known, ids), terms = self._known, self.index.terms
        if known is not terms:  # an index in memory has numbered its words again
            ids = np.zeros(0, np.int32)
        if len(ids) < len(terms):
            new = ["" if term in self.left_out else term for term in terms.take(np.arange(len(ids), len(terms)))]
            added = self.vocabulary.lookup(new) if self.by_hash else [self.vocabulary.ids.get(term, 0) for term in new]
            ids = np.concatenate([ids, np.array(added, np.int32)])
            self._known = terms, ids
        return ids

    def _stored_ids(self, terms: StringTable) -> np.ndarray:
        """The ids of stored terms, by a look-up for each of them, or for each word where these are fewer."""
        vocabulary = self.vocabulary
        if len(terms) < len(vocabulary):
            found = terms.take(np.arange(len(terms)))
            ids = np.array([0 if term in self.left_out else vocabulary.ids.get(term, 0) for term in found], np.int32)
        else:
            rows = terms.find(vocabulary.words, vocabulary.hashes)
            rows[[0, *(vocabulary.ids[word] for word in self.left_out if word in vocabulary)]] = -1
            ids = np.zeros(len(terms), np.int32)
            ids[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
        if self.by_hash:
            hash_ids = np.zeros_like(ids)
            hash_ids[terms.rows] = self.vocabulary.hash_ids(terms.hashes)
            ids = np.where(ids > 0, ids, hash_ids)
        return ids
