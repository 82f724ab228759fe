"""The ids in a vocabulary of an index's terms."""

from __future__ import annotations

import numpy as np

from rerank_plugin.files.string_table import StringTable
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
        # The terms and their ids, replaced together: several threads read them.
        self._known = index.terms, np.zeros(0, np.int32) if index.in_memory else self._of_stored(index.terms)

    @property
    def array(self) -> np.ndarray:
        """The id of each term, int32 [V of the index]; 0 where there is none."""
        (terms, ids), now = self._known, self.index.terms
        if terms is not now:  # texts, whose words are numbered anew
            ids = np.zeros(0, np.int32)
        if len(ids) < len(now):
            new = ["" if term in self.left_out else term for term in now.take(np.arange(len(ids), len(now)))]
            found = self.vocabulary.lookup(new) if self.by_hash else [self.vocabulary.ids.get(term, 0) for term in new]
            ids = np.concatenate([ids, np.array(found, np.int32)])
            self._known = now, ids
        return ids

    def _of_stored(self, terms: StringTable) -> np.ndarray:
        """One look-up a word of the vocabulary, which are fewer than the terms."""
        words = [word for word in self.vocabulary.words[1:] if word not in self.left_out]
        rows = terms.find(words)
        present = rows >= 0
        ids = np.zeros(len(terms), np.int32)
        ids[rows[present]] = np.array(self.vocabulary.lookup(words), np.int32)[present]
        if self.by_hash:
            of_hashes = np.zeros_like(ids)
            of_hashes[terms.rows_by_hash] = self.vocabulary.hash_ids(terms.hashes)
            ids = np.where(ids > 0, ids, of_hashes)
        return ids
