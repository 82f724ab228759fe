"""Features from word vectors whose sums stand for whole texts, as a distilled encoder's do.

==================  ==================================================================================================
name                definition
==================  ==================================================================================================
vector_cosine       cosine of the query's and the document's sums of word vectors
vector_best         mean over the query's known words of the largest cosine with a word of the document, weighted by
                    the lengths of the query words' vectors, which the encoder has learned
vector_feedback     cosine of the document's sum with the mean direction of the ``FEEDBACK`` best candidates
==================  ==================================================================================================

A document's words beyond the model's ``document_words`` and words without a vector add nothing. A text without known
words has cosine 0 with everything. The best candidates are those of the first stage, as in pseudo-relevance feedback
(Rocchio 1971), so ``vector_feedback`` depends on the list that a document stands in.

Letters in shapes: C candidates, N document words, m words of the query, U distinct words, V vocabulary, D dimension.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit

from rerank_plugin.features.interactions import CandidateWords
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.parallel import Workspace, available_threads, split

COSINE, BEST, FEEDBACK = VECTOR_FEATURES = ("vector_cosine", "vector_best", "vector_feedback")
FEEDBACK_DOCUMENTS = 10
TINY = np.float32(1e-12)


class VectorFeatures:
    """Computes the features of one model's word vectors, float32 [V, D]; row 0 is of unknown words. Thread-safe."""

    def __init__(self, vectors: np.ndarray):
        self.vectors = vectors
        self.lengths = np.linalg.norm(vectors, axis=1).astype(np.float32)  # [V]
        self.workspace = Workspace()

    def compute(
        self, names: Sequence[str], query: np.ndarray, words: CandidateWords, candidates: Candidates
    ) -> np.ndarray:
        """The named features, float32 [C, F].

        Args:
            query: the model's ids of the query's known words, int64 [m].
        """
        threads, count = available_threads(), len(candidates)
        vectors = np.take(self.vectors, words.ids, axis=0)  # [U, D]
        columns = {}
        if {COSINE, FEEDBACK} & set(names):
            sums = self.workspace.array("sums", (count, vectors.shape[1]), np.float32)

            def documents(start: int, stop: int) -> None:
                _unit_sums(vectors, words.places, words.lengths, sums, start, stop)

            split(documents, count, threads, smallest=16)
            columns[COSINE] = sums @ _unit(self.vectors[query].sum(axis=0))
            first = np.argsort(-candidates.first_stage_scores, kind="stable")[:FEEDBACK_DOCUMENTS]
            columns[FEEDBACK] = sums @ _unit(sums[first].sum(axis=0))
        if BEST in names:
            columns[BEST] = self._best(query, vectors, words, count, threads)
        return np.stack([columns[name] for name in names], axis=1)

    def _best(self, query, vectors, words: CandidateWords, count: int, threads: int) -> np.ndarray:
        """``vector_best``, float32 [C]."""
        best = np.zeros(count, np.float32)
        if not len(query):
            return best
        weights = self.lengths[query]  # [m]
        lengths = np.maximum(self.lengths[words.ids], TINY)  # [U]
        directions = self.vectors[query] / np.maximum(weights, TINY)[:, None]  # [m, D]
        cosines = (vectors @ directions.T) / lengths[:, None]  # [U, m]
        weights = weights / max(float(weights.sum()), float(TINY))

        def documents(start: int, stop: int) -> None:
            _best_cosines(cosines, weights, words.places, words.lengths, best, start, stop)

        split(documents, count, threads, smallest=16)
        return best


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.maximum(np.linalg.norm(vector), TINY)


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def _unit_sums(vectors, places, lengths, sums, start, stop):
    """Rows start..stop of ``sums``, float32 [C, D]: each document's sum of vectors [U, D], at length 1 or 0."""
    dimension = vectors.shape[1]
    for candidate in range(start, stop):
        total = sums[candidate]
        total[:] = np.float32(0.0)
        for position in range(lengths[candidate]):
            row = vectors[places[candidate, position]]
            for i in range(dimension):
                total[i] += row[i]
        square = np.float32(0.0)
        for i in range(dimension):
            square += total[i] * total[i]
        scale = np.float32(1.0) / max(np.sqrt(square), TINY)
        for i in range(dimension):
            total[i] *= scale


@njit(nogil=True, cache=True)
def _best_cosines(cosines, weights, places, lengths, best, start, stop):
    """Elements start..stop of ``best``, float32 [C]: the weighted mean of the largest of ``cosines`` [U, m]."""
    for candidate in range(start, stop):
        for column in range(len(weights)):
            largest = np.float32(0.0)  # a document never does worse than one without related words
            for position in range(lengths[candidate]):
                largest = max(largest, cosines[places[candidate, position], column])
            best[candidate] += weights[column] * largest
