"""Features of candidates from a model's word vectors: similarities of the query and a document's first 200 words.

They are not in the papers, and need vectors whose lengths are word weights, as ``distill`` makes them:

* ``vector_cosine``: the cosine of the query and the document, each the sum of its words' vectors;
* ``vector_matches``: the mean over the query's words of the highest cosine with a word of the document, weighted by the
  squared lengths of the query's vectors (ColBERT's sum of maxima, Khattab and Zaharia, SIGIR 2020, for single words).

A word without a vector matches only itself, with weight 0. Letters in shapes: C candidates, U distinct words, m query
words, D dimension.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.inputs.builder import InputBuilder, ModelQuery
from rerank_plugin.inputs.interactions import CandidateWords, ComparedVectors, candidate_words, similarity_table
from rerank_plugin.inputs.lexical_features import COSINE
from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.compiling import njit
from rerank_plugin.kernels.intrinsics import AHEAD, prefetch_row
from rerank_plugin.kernels.parallel import Workspace
from rerank_plugin.text.word_vectors import EmbeddingTable

TEXT_WORDS = 200  # words of a document that are read
SMALLEST = 1e-12  # avoids a division by zero for texts without words


class VectorFeatures:
    """Computes the named features from word vectors, row 0 for words without one. It is thread-safe.

    Args:
        vectors, dimension: as those of :class:`~rerank_plugin.inputs.interactions.ComparedVectors`.
    """

    def __init__(self, names: Sequence[str], vectors: EmbeddingTable | np.ndarray, dimension: int | None = None):
        self.names = tuple(names)
        self.vectors = ComparedVectors(vectors, dimension)
        self.lengths = self.vectors.norms.copy()  # [V]
        self.lengths[0] = 0
        self.workspace = Workspace()
        self.text_lengths: np.ndarray | None = None  # by row of the index, float32 [R]; 0 until computed

    def __call__(self, builder: InputBuilder, query: ModelQuery, candidates: Candidates) -> np.ndarray:
        """The features of all candidates of a query, float32 [C, F]."""
        words = candidate_words(builder, candidates, self.workspace, TEXT_WORDS)
        table = similarity_table(self.vectors, query, words, self.workspace, threads=1)  # [U, m]
        lengths = self.lengths[query.ids[query.mask]]  # [m]
        columns = np.empty((len(candidates), len(self.names)), np.float32)
        for column, name in enumerate(self.names):
            if name == COSINE:
                text_lengths = np.maximum(self._document_lengths(builder, words, candidates.rows), SMALLEST)
                columns[:, column] = self._products(query, words, table, lengths) / text_lengths
            else:
                columns[:, column] = self._matches(words, table, lengths)
        return columns

    def _products(self, query: ModelQuery, words: CandidateWords, table: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Inner products of the query's unit vector and the documents' vectors, float32 [C].

        They are sums over document words, from the similarities ``table``, float32 [U, m], to the query words, whose
        vectors have ``lengths``, float32 [m].
        """
        ids = query.ids[query.mask]
        total = self.vectors.take(ids[ids > 0]).sum(axis=0, dtype=np.float64)  # [D]
        weights = lengths / np.float32(max(float(np.linalg.norm(total)), SMALLEST))  # [m]
        products = self.workspace.array("word products", (len(words.ids),), np.float32)
        sums = np.empty(len(words.lengths), np.float32)
        _add_products(table, self.lengths, words.ids, words.places, words.lengths, weights, products, sums)
        return sums

    def _document_lengths(self, builder: InputBuilder, words: CandidateWords, rows: np.ndarray) -> np.ndarray:
        """The lengths of the sums of the candidates' vectors, float32 [C]; the slowest part, so cached by row."""
        if builder.index.in_memory:  # its rows change with every call
            known = np.zeros(len(rows), np.float32)
        else:
            if self.text_lengths is None:
                self.text_lengths = np.zeros(len(builder.index), np.float32)
            known = self.text_lengths[rows]
        missing = np.flatnonzero(known == 0)
        total = np.empty(self.vectors.dimension, np.float32)
        numbers, scales = self.vectors.numbers, self.vectors.scales
        _text_lengths(numbers, scales, words.ids, words.places, words.lengths, missing, total, known)
        if self.text_lengths is not None:
            self.text_lengths[rows] = known
        return known

    def _matches(self, words: CandidateWords, table: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        weights, sums = np.square(lengths), np.empty(len(words.lengths), np.float32)
        _weighted_maxima(table, words.places, words.lengths, weights / max(weights.sum(), SMALLEST), sums)
        return sums


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def _add_products(table, norms, ids, places, lengths, weights, products, sums):
    """The inner products of a query's unit vector and the sums of the candidates' vectors, into ``sums``, float32 [C].

    table: float32 [U, m], similarities. norms: float32 [V], lengths of vectors. weights: of the query's words, float32
    [m]. products: scratch [U].
    """
    for word in range(len(ids)):
        total = np.float32(0.0)
        for column in range(len(weights)):
            total += table[word, column] * weights[column]
        products[word] = norms[ids[word]] * total
    for candidate in range(len(lengths)):
        total = np.float32(0.0)
        for position in range(lengths[candidate]):
            total += products[places[candidate, position]]
        sums[candidate] = total


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def _text_lengths(numbers, scales, ids, places, lengths, missing, total, text_lengths):
    """The lengths of the sums of the vectors of the candidates ``missing``, into ``text_lengths``, float32 [C].

    total: scratch, float32 [D].
    """
    dimension = len(total)
    for candidate in missing:
        for i in range(dimension):
            total[i] = 0.0
        for position in range(lengths[candidate]):
            if position + AHEAD < lengths[candidate]:
                prefetch_row(numbers, ids[places[candidate, position + AHEAD]])
            word = ids[places[candidate, position]]
            if word > 0:
                scale = scales[word]
                for i in range(dimension):
                    total[i] += scale * np.float32(numbers[word, i])
        square = np.float32(0.0)
        for i in range(dimension):
            square += total[i] * total[i]
        text_lengths[candidate] = np.sqrt(square)


@njit(nogil=True, cache=True)
def _weighted_maxima(table, places, lengths, weights, sums):
    """The weighted sum of each query word's highest similarity to a candidate's words, into ``sums``, float32 [C].

    table: float32 [U, m], similarities. weights: of the query's words, float32 [m].
    """
    for candidate in range(len(lengths)):
        total = np.float32(0.0)
        for word in range(len(weights)):
            highest = np.float32(-1.0 if lengths[candidate] else 0.0)
            for position in range(lengths[candidate]):
                highest = max(highest, table[places[candidate, position], word])
            total += weights[word] * highest
        sums[candidate] = total
