"""Occurrences of a query's words in its candidates, and the measures of [D18] 4.2.2 on them.

Import this module only where candidates are scored: it imports numba.

Letters in shapes: C candidates, m distinct query words, b distinct query bigrams.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import FIELDS, IndexQuery, idf
from rerank_plugin.kernels import word_loops

BM25_K1, BM25_B = 2.0, 0.75  # [D18] 4.3.1
SHARE_K1, SHARE_B = 0.9, 0.4  # those of the first stage
PARTS = {"title": (0, 1), "abstract": (1, 2), "text": (0, 2)}  # start and stop in the fields of Matches.counts


class WordMatches:
    """Counts the words of one query in its candidates, in one pass over the candidates' words for all features.

    Compiled loops sum over query words in order. The order of numpy's sums depends on the number of candidates, so
    rounding errors would, too.

    Args:
        query: tokenized as the documents were.
        candidates: of one query.
        titles_only: whether abstracts are skipped, in a fifth of the time; then only measures of the title are valid.

    Attributes:
        terms: the m distinct query words.
        ids: their term ids, int64 [m]; -1 for a word that no document contains.
        repeats: number of occurrences of each in the query, float64 [m].
        bigrams: the distinct query bigrams as indices into ``ids``, int64 [b, 2], sorted.
        counts: occurrences in title and abstract, int32 [C, 2, m].
        bigrams_found: distinct query bigrams in title, abstract and text, int32 [C, 3].
    """

    def __init__(self, query: IndexQuery, candidates: Candidates, titles_only: bool = False):
        self.candidates, self.index = candidates, candidates.index
        # Terms, not ids, are the keys: all words that no document contains have the id -1.
        ids, repeats = dict(zip(query.terms, query.ids.tolist())), Counter(query.terms)
        place = {term: i for i, term in enumerate(ids)}
        bigrams = sorted({(place[a], place[b]) for a, b in zip(query.terms, query.terms[1:])})
        self.terms, self.ids = list(ids), np.array(list(ids.values()), np.int64)
        self.repeats = np.array([repeats[term] for term in ids], np.float64)
        self.bigrams = np.array(bigrams, np.int64).reshape(-1, 2)
        self.weights = idf(self._frequencies("text"), self.index.documents)  # [m]
        self.weight = sum(self.weights.tolist())
        self.counts = np.zeros((len(candidates), 2, len(self.ids)), np.int32)
        self.bigrams_found = np.zeros((len(candidates), 3), np.int32)
        lengths = candidates.title_lengths if titles_only else candidates.lengths
        word_loops.match_words(
            candidates.tokens, candidates.starts, lengths, candidates.title_lengths,
            word_loops.word_table(self.ids), self.bigrams, self.counts, self.bigrams_found,
        )  # fmt: skip
        self._common_of_fields: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def _frequencies(self, field: str) -> np.ndarray:
        """Document frequency of the distinct query words, int64 [m]; 0 for a word that no document contains."""
        frequency = np.asarray(self.index.document_frequency[field])
        return np.where(self.ids >= 0, frequency[self.ids].astype(np.int64), 0)

    def _common(self, field: str) -> tuple[np.ndarray, np.ndarray]:
        """Number and sum of the weights of the distinct query words in a field, float64 [C] each."""
        if field not in self._common_of_fields:
            self._common_of_fields[field] = word_loops.common_words(self.counts, *PARTS[field], self.weights)
        return self._common_of_fields[field]

    def overlap(self, field: str) -> np.ndarray:
        """[D18] 4.2.2 (1), (9), (14)."""
        return self._common(field)[0] / max(len(self.ids), 1)

    def idf_overlap(self, field: str) -> np.ndarray:
        """[D18] 4.2.2 (4), (12), (17)."""
        return self._common(field)[1] / (self.weight or 1.0)

    def jaccard(self, field: str) -> np.ndarray:
        """[D18] 4.2.2 (3), (11), (16)."""
        common, _ = self._common(field)
        unique = np.asarray(self.index.unique_terms[field])[self.candidates.rows].astype(np.float64)  # [C]
        union = len(self.ids) + unique - common
        return common / np.maximum(union, 1)

    def idf_jaccard(self, field: str) -> np.ndarray:
        """[D18] 4.2.2 (5), (13), (18)."""
        _, common = self._common(field)
        titles, lengths = self.candidates.title_lengths, self.candidates.lengths
        first, last = {"title": (0, titles), "abstract": (titles, lengths), "text": (0, lengths)}[field]
        tokens, weights = self.candidates.tokens, self.index.term_weights
        marks = np.zeros(len(weights), np.int32)  # the system allocates only the pages that are written
        mass = word_loops.distinct_weights(tokens, self.candidates.starts + first, last - first, weights, marks)
        union = self.weight + mass - common
        return np.divide(common, union, out=np.zeros(len(common)), where=union > 0)

    def bm25(self, field: str, k1: float = BM25_K1, b: float = BM25_B) -> np.ndarray:
        """[D18] 4.2.2 (6), (7), (8): Okapi's BM25, with the factor k1 + 1."""
        titles, lengths = self.candidates.title_lengths, self.candidates.lengths
        lengths = {"title": titles, "abstract": lengths - titles, "text": lengths}[field]
        mean = self.index.mean_lengths[field] or 1.0
        norms = k1 * (1 - b + b * lengths / mean)
        weights = idf(self._frequencies(field), self.index.documents) * self.repeats
        return word_loops.saturated_counts(self.counts, *PARTS[field], norms, weights, k1)

    def bm25_share(self, field: str) -> np.ndarray:
        """BM25 divided by its upper bound for the query, 0 to 1; words that no document has count in the bound."""
        weights = idf(self._frequencies(field), self.index.documents) * self.repeats
        most = (SHARE_K1 + 1) * sum(weights.tolist())
        return self.bm25(field, SHARE_K1, SHARE_B) / (most or 1.0)

    def bigram_overlap(self, field: str) -> np.ndarray:
        """[D18] 4.2.2 (2), (10), (15); in the text, which is one sequence, a bigram may span title and abstract."""
        return self.bigrams_found[:, FIELDS.index(field)] / max(len(self.bigrams), 1)
