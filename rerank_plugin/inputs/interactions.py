"""The interaction matrix of a query and its documents: cosines of word vectors, and 1 for the same word.

There are two implementations: :func:`cosine_matrix` on tensors, for training, and :class:`CandidateWords` with
:func:`similarity_table`, which compares each distinct word of the candidates with the query only once.

Words without a vector ([P] leaves this open; its authors count exact matches as 1): the similarity of a word to itself
is 1, known or not; the similarity of an unknown word, or of a zero vector, to any other word is 0.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.inputs.builder import InputBuilder, Inputs, ModelQuery
from rerank_plugin.kernels.parallel import Workspace, split
from rerank_plugin.text.word_vectors import EmbeddingTable

if TYPE_CHECKING:  # the fast paths need no torch
    from torch import Tensor


def cosine_matrix(vectors: Tensor, inputs: Inputs, precise: bool = False) -> Tensor:
    """Similarities of all query and document words, float [B, M, N]; 0 for padding.

    Args:
        vectors: word vectors, float [V, D], row 0 for UNK.
        inputs: with ``document_terms`` and ``query_terms``.
        precise: whether the cosines are those of :func:`precise_cosines`.
    """
    import torch
    from torch.nn import functional

    if precise:
        cosines = precise_cosines(vectors, inputs)  # [B, M, N]
    else:
        # Unlike vectors[ids], whose gradient several threads add up in any order.
        documents = functional.normalize(functional.embedding(inputs.documents, vectors), dim=2)  # [B, N, D]
        queries = functional.normalize(functional.embedding(inputs.queries, vectors), dim=2)  # [B, M, D]
        cosines = torch.bmm(queries, documents.transpose(1, 2)) * _known(inputs)  # [B, M, N]
    cosines = torch.where(same_words(inputs), 1.0, cosines)
    return cosines * (inputs.query_mask[:, :, None] & inputs.document_mask[:, None, :])


def precise_cosines(vectors: Tensor, inputs: Inputs) -> Tensor:
    """Cosines of all query and document words, float64 [B, M, N]; 0 for unknown words. Values at padding are arbitrary.

    float32 on devices without double precision.
    """
    import torch

    precision = torch.float32 if vectors.device.type == "mps" else torch.float64
    documents = vectors[inputs.documents].to(precision)  # [B, N, D]
    queries = vectors[inputs.queries].to(precision)  # [B, M, D]
    lengths = queries.norm(dim=2)[:, :, None] * documents.norm(dim=2)[:, None, :]  # [B, M, N]
    products = torch.bmm(queries, documents.transpose(1, 2))  # [B, M, N]
    return products / lengths.clamp_min(torch.finfo(precision).tiny) * _known(inputs)


def _known(inputs: Inputs) -> Tensor:
    """Whether query word and document word have a vector, bool [B, M, N]."""
    return (inputs.queries > 0)[:, :, None] & (inputs.documents > 0)[:, None, :]


def same_words(inputs: Inputs) -> Tensor:
    """Whether query word and document word are equal, bool [B, M, N]; False for padding."""
    assert inputs.query_terms is not None and inputs.document_terms is not None
    queries, documents = inputs.query_terms[:, :, None], inputs.document_terms[:, None, :]
    present = inputs.query_mask[:, :, None] & inputs.document_mask[:, None, :]
    return (queries == documents) & (queries >= 0) & present


SMALLEST_NORM = 1e-12  # torch.nn.functional.normalize's


class CandidateWords(NamedTuple):
    """The distinct words among the candidates' first N words, and their positions.

    The arrays are views of a workspace, which the next query of the same thread overwrites.
    """

    terms: np.ndarray  # distinct term ids of the index, int32 [U], in order of first occurrence
    ids: np.ndarray  # the model's ids of those terms, int32 [U]
    places: np.ndarray  # index into ``terms`` for each word position, int32 [C, N]; undefined from ``lengths`` on
    lengths: np.ndarray  # number of words of each candidate, at most N, int32 [C]


def candidate_words(
    builder: InputBuilder, candidates: Candidates, workspace: Workspace, width: int | None = None
) -> CandidateWords:
    """The distinct words among the first ``width`` words of every candidate, by default ``builder.document_words``."""
    from rerank_plugin.kernels import word_loops

    index, width, count = builder.index, width or builder.document_words, len(candidates)
    lengths = np.minimum(candidates.lengths, width).astype(np.int32)
    places = workspace.array("places", (count, width), np.int32)
    terms = workspace.array("terms", (min(int(lengths.sum()), index.vocabulary_size),), np.int32)
    marks = workspace.zeros("marks", index.vocabulary_size, np.int32)
    distinct = word_loops.distinct_words(candidates.tokens, candidates.starts, lengths, marks, places, terms)
    return CandidateWords(terms[:distinct], builder.model_ids[terms[:distinct]], places, lengths)


class ComparedVectors:
    """Word vectors to compare words by: their inner products, which are exact integers where they are quantized.

    Args:
        vectors: a table, or float32 [V, numbers].
        dimension: D, the numbers of each vector to read; by default all.

    Attributes:
        norms: float32 [V].
        factors: float32 [V]; times its numbers a vector has the length 1. That of row 0, for unknown words, is 0.
    """

    def __init__(self, vectors: EmbeddingTable | np.ndarray, dimension: int | None = None):
        from rerank_plugin.kernels import word_loops

        self.numbers, self.scales = EmbeddingTable.of(vectors)
        self.dimension = dimension or self.numbers.shape[1]
        self.quantized = self.numbers.dtype == np.int8
        self.squares = np.empty(len(self.numbers))  # of the numbers, without their scales
        word_loops.squares(self.numbers, self.dimension, self.squares)
        self.norms = (self.scales * np.sqrt(self.squares)).astype(np.float32)
        self.factors = self.scales / np.maximum(self.norms, SMALLEST_NORM)
        self.factors[0] = 0

    def take(self, ids: np.ndarray) -> np.ndarray:
        """The vectors of some words, float32 [n, D]."""
        return self.numbers[ids, : self.dimension] * self.scales[ids, None]

    def queries(self, ids: np.ndarray) -> np.ndarray:
        """The numbers of a query's words, int16 or float32 [m, D]."""
        return self.numbers[ids, : self.dimension].astype(np.int16 if self.quantized else np.float32)


def similarity_table(
    vectors: ComparedVectors, query: ModelQuery, words: CandidateWords, workspace: Workspace, threads: int
) -> np.ndarray:
    """Similarities of the candidates' distinct words to the query's words, float32 [U, m].

    m is the number of query words without padding; column j belongs to query word j.
    """
    from rerank_plugin.kernels import word_loops

    count = int(query.mask.sum())
    table = workspace.array("similarities", (len(words.terms), count), np.float32)
    ids, terms = query.ids[:count].astype(np.int32), query.terms[:count].astype(np.int32)
    products = workspace.array("products", table.shape, np.int32 if vectors.quantized else np.float32)
    words_and_query = words.ids, words.terms, vectors.queries(ids), vectors.factors[ids], terms
    fill = partial(word_loops.similarities, vectors.numbers, vectors.factors, *words_and_query, products, table)
    split(fill, len(words.terms), threads)
    return table
