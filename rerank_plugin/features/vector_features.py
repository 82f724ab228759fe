"""Features of candidates from a model's word vectors: how near the first 200 words of a document are to the query.

They are not in the papers, and need vectors whose lengths say how much a word matters, as those that ``distill`` makes:

* ``vector_cosine``: the cosine of the query and the document, each the sum of its words' vectors;
* ``vector_matches``: the mean over the query's words of the highest cosine with a word of the document, weighted by the
  squared lengths of the query's vectors (the sum of maxima of ColBERT, Khattab and Zaharia, SIGIR 2020, of single
  words).

A word without a vector matches itself, and weighs nothing. Letters in shapes: C candidates, U distinct words, m query
words, D dimension.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit
from torch import Tensor

from rerank_plugin.features.inputs import InputBuilder, ModelQuery
from rerank_plugin.features.interactions import CandidateWords, UnitVectors, candidate_words, similarity_table
from rerank_plugin.features.lexical_features import COSINE
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.intrinsics import AHEAD, prefetch_row
from rerank_plugin.kernels.parallel import Workspace

TEXT_WORDS = 200  # of a document that are read
SMALLEST = 1e-12  # keeps texts without words from dividing by zero


class VectorFeatures:
    """Computes the named features from word vectors float32 [V, D], row 0 for words without one. It is thread-safe."""

    def __init__(self, names: Sequence[str], vectors: Tensor):
        self.names = tuple(names)
        self.units = UnitVectors(vectors)
        self.lengths = vectors.detach().float().cpu().norm(dim=1).numpy()  # [V]
        self.lengths[0] = 0
        self.workspace = Workspace()

    def __call__(self, builder: InputBuilder, query: ModelQuery, candidates: Candidates) -> np.ndarray:
        """The features of all candidates of a query, float32 [C, F]."""
        words = candidate_words(builder, candidates, self.workspace, TEXT_WORDS)
        columns = [
            self._cosines(query, words) if name == COSINE else self._matches(query, words) for name in self.names
        ]
        return np.stack(columns, axis=1)

    def _cosines(self, query: ModelQuery, words: CandidateWords) -> np.ndarray:
        ids, found = query.ids[query.mask], np.empty(len(words.lengths), np.float32)
        total = self.lengths[ids].astype(np.float64) @ self.units.matrix[ids]  # [D]
        unit = total / max(float(np.linalg.norm(total)), SMALLEST)
        _cosines(
            self.units.matrix, self.lengths, words.ids, words.places, words.lengths, unit.astype(np.float32), found
        )
        return found

    def _matches(self, query: ModelQuery, words: CandidateWords) -> np.ndarray:
        table = similarity_table(self.units, query, words, self.workspace, threads=1)  # [U, m]
        weights = np.square(self.lengths[query.ids[query.mask]])  # [m]
        found = np.empty(len(words.lengths), np.float32)
        _weighted_maxima(table, words.places, words.lengths, weights / max(weights.sum(), SMALLEST), found)
        return found


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def _cosines(units, norms, ids, places, lengths, query, found):
    """The cosines of a query, a unit vector float32 [D], and the sums of the candidates' vectors.

    units: float32 [V, D], the vectors at length 1. norms: float32 [V], their lengths before.
    """
    total = np.empty(len(query), np.float32)
    for candidate in range(len(lengths)):
        total[:] = 0.0
        for position in range(lengths[candidate]):
            if position + AHEAD < lengths[candidate]:
                prefetch_row(units, ids[places[candidate, position + AHEAD]])
            word = ids[places[candidate, position]]
            norm, unit = norms[word], units[word]
            for i in range(len(query)):
                total[i] += norm * unit[i]
        square, product = np.float32(0.0), np.float32(0.0)
        for i in range(len(query)):
            square += total[i] * total[i]
            product += total[i] * query[i]
        found[candidate] = product / max(np.sqrt(square), np.float32(SMALLEST))


@njit(nogil=True, cache=True)
def _weighted_maxima(table, places, lengths, weights, found):
    """The sum over the query's words of their highest similarity, float32 [U, m], to a word of each candidate."""
    for candidate in range(len(lengths)):
        total = np.float32(0.0)
        for word in range(len(weights)):
            highest = np.float32(-1.0 if lengths[candidate] else 0.0)
            for position in range(lengths[candidate]):
                highest = max(highest, table[places[candidate, position], word])
            total += weights[word] * highest
        found[candidate] = total
