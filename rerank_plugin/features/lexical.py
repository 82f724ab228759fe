"""The lexical match features of [D18] 4.2.2, for all candidates of a query at once.

Every feature is ``MEASURE_FIELD``. Numbers in brackets are the paper's:

==================  ===========================================================  ======  =======  ==========
measure             definition                                                   text    title    abstract
==================  ===========================================================  ======  =======  ==========
overlap             share of the distinct query words that are in the field      (1)     (9)      (14)
bigram_overlap      share of the distinct query bigrams that are in the field    (2)     (10)     (15)
jaccard             |Q ∩ F| / |Q ∪ F| over distinct words                        (3)     (11)     (16)
idf_overlap         IDF-weighted overlap                                         (4)     (12)     (17)
idf_jaccard         IDF-weighted jaccard                                         (5)     (13)     (18)
bm25                BM25, k1 = 2.0, b = 0.75 ([D18] 4.3.1)                       (8)     (6)      (7)
==================  ===========================================================  ======  =======  ==========

Queries and documents are tokenized as everywhere, without truncation and without conflating rare words. What the paper
leaves open: IDF is ``ln(1 + (R - df + 0.5) / (df + 0.5))``; as a weight it is taken from the whole text, in BM25 from
the field itself; a query word that no document holds has df 0 and counts in every denominator; BM25 counts a word as
often as the query repeats it; a feature whose denominator is zero is 0.

One more name is not the paper's: ``first_stage``, the score that brought the candidate here. It lets a model build on
what the first stage knows and the features above do not, such as stems; a model trained with it expects the first stage
it was trained with.
"""

from __future__ import annotations

from typing import Sequence

import numpy as np

from rerank_plugin.errors import InputError
from rerank_plugin.retrieval.candidates import Candidates
from rerank_plugin.retrieval.forward import FIELDS, QueryTerms, idf

MEASURES = ("overlap", "bigram_overlap", "jaccard", "idf_overlap", "idf_jaccard", "bm25")
PAPER_NAMES = tuple(f"{measure}_{field}" for measure in MEASURES for field in FIELDS)
FIRST_STAGE = "first_stage"
NAMES = (*PAPER_NAMES, FIRST_STAGE)
LEX3 = ("bm25_abstract", "idf_jaccard_title", "idf_overlap_title")  # [D18] 5.1
BM25_K1, BM25_B = 2.0, 0.75


def check_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names, when all are features.

    Raises:
        InputError: a name is unknown, or stands twice.
    """
    for name in names:
        if name not in NAMES:
            raise InputError(f"unknown lexical feature '{name}'; known: {', '.join(NAMES)}")
    if len(set(names)) != len(names):
        raise InputError(f"a lexical feature is named twice in: {' '.join(names)}")
    return tuple(names)


def lexical_features(names: Sequence[str], query: QueryTerms, candidates: Candidates) -> np.ndarray:
    """The named features of every candidate, float32 [C, F]."""
    matches = Matches(query, candidates)
    columns = np.zeros((len(candidates), len(names)), np.float32)
    for column, name in enumerate(names):
        if name == FIRST_STAGE:
            columns[:, column] = candidates.first_stage_scores
        else:
            measure, field = name.rsplit("_", 1)
            columns[:, column] = getattr(matches, measure)(field)
    return columns


class Matches:
    """Where the words of one query occur in its candidates: one pass over the candidates' words for all features."""

    def __init__(self, query: QueryTerms, candidates: Candidates):
        self.candidates = candidates
        self.index = index = candidates.index
        # Words that no document holds differ by their spelling, all others by their id.
        distinct = dict.fromkeys(zip(query.terms, query.ids.tolist()))
        self.query_repeats = np.array([query.terms.count(term) for term, _ in distinct], np.float64)  # [m]
        self.ids = np.array([id for _, id in distinct], np.int64)  # [m]
        place = {term: i for i, (term, _) in enumerate(distinct)}
        self.bigrams = sorted({(place[a], place[b]) for a, b in zip(query.terms, query.terms[1:])})
        self.weights = idf(self._frequencies("text"), len(index))  # [m]
        self._find()

    def _frequencies(self, field: str) -> np.ndarray:
        """Document frequency of the distinct query words, int64 [m]; 0 for unknown ones."""
        frequency = self.index.document_frequency[field]
        return np.array([int(frequency[id]) if id >= 0 else 0 for id in self.ids.tolist()], np.int64)

    def _find(self) -> None:
        """Positions of query words among all candidates' words, and the counts tf[field], float64 [C, m]."""
        tokens = self.candidates.flat_tokens
        marks = self.index.term_marks if len(self.ids) < 255 else np.zeros(self.index.vocabulary_size, np.uint32)
        known = self.ids[self.ids >= 0]
        marks[known] = np.flatnonzero(self.ids >= 0) + 1
        marked = marks[tokens.ids]  # [T], 0 or 1 + place of the query word
        marks[known] = 0
        hits = np.flatnonzero(marked)
        self.hit = hits
        self.hit_word = marked[hits].astype(np.int64) - 1
        self.hit_candidate = tokens.candidate[hits]
        self.hit_in_title = tokens.position[hits] < self.candidates.title_lengths[self.hit_candidate]
        shape = (len(self.candidates), len(self.ids))
        cell = self.hit_candidate * shape[1] + self.hit_word
        size = shape[0] * shape[1]
        title = np.bincount(cell[self.hit_in_title], minlength=size).reshape(shape)
        text = np.bincount(cell, minlength=size).reshape(shape)
        self.tf = {"title": title, "abstract": text - title, "text": text}

    def _lengths(self, field: str) -> np.ndarray:
        candidates = self.candidates
        if field == "title":
            return candidates.title_lengths
        return candidates.lengths - (candidates.title_lengths if field == "abstract" else 0)

    def overlap(self, field: str) -> np.ndarray:
        """[D18] 4.2.2 (1), (9), (14)."""
        return (self.tf[field] > 0).sum(axis=1) / max(len(self.ids), 1)

    def idf_overlap(self, field: str) -> np.ndarray:
        """[D18] 4.2.2 (4), (12), (17)."""
        total = self.weights.sum()
        return (self.tf[field] > 0) @ self.weights / total if total > 0 else np.zeros(len(self.candidates))

    def jaccard(self, field: str) -> np.ndarray:
        """[D18] 4.2.2 (3), (11), (16)."""
        common = (self.tf[field] > 0).sum(axis=1)
        union = len(self.ids) + self.index.unique_terms[field][self.candidates.rows].astype(np.int64) - common
        return common / np.maximum(union, 1)

    def idf_jaccard(self, field: str) -> np.ndarray:
        """[D18] 4.2.2 (5), (13), (18)."""
        common = (self.tf[field] > 0) @ self.weights
        union = self.weights.sum() + self.index.idf_mass[field][self.candidates.rows] - common
        return np.divide(common, union, out=np.zeros(len(common)), where=union > 0)

    def bm25(self, field: str) -> np.ndarray:
        """[D18] 4.2.2 (6), (7), (8)."""
        tf = self.tf[field]
        mean = self.index.mean_lengths[field] or 1.0
        norm = BM25_K1 * (1 - BM25_B + BM25_B * self._lengths(field) / mean)
        weights = idf(self._frequencies(field), len(self.index)) * self.query_repeats
        return (tf * (BM25_K1 + 1) / (tf + norm[:, None])) @ weights

    def bigram_overlap(self, field: str) -> np.ndarray:
        """[D18] 4.2.2 (2), (10), (15); the text is one sequence, so a bigram may span title and abstract there."""
        follows = (np.diff(self.hit) == 1) & (np.diff(self.hit_candidate) == 0)
        first, second = np.flatnonzero(follows), np.flatnonzero(follows) + 1
        if field == "title":
            inside = self.hit_in_title[first] & self.hit_in_title[second]
        elif field == "abstract":
            inside = ~self.hit_in_title[first]
        else:
            inside = np.ones(len(first), bool)
        first, second = first[inside], second[inside]
        candidate, a, b = self.hit_candidate[first], self.hit_word[first], self.hit_word[second]
        present = np.zeros(len(self.candidates))
        for bigram in self.bigrams:
            here = (a == bigram[0]) & (b == bigram[1])
            present[np.unique(candidate[here])] += 1
        return present / max(len(self.bigrams), 1)
