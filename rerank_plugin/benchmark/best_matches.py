"""Candidates without a first stage: the documents with the largest IDF sum of a query's words.

The time of the fast paths grows with the distinct and the matching words of the candidates, so random documents would
give too short times. A scan over the forward index replaces BM25: it needs no Java, and runs once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from rerank_plugin.base.records import Query
from rerank_plugin.files.outputs import INNER, replacing
from rerank_plugin.indexes.forward import ForwardIndex, gathered_words, idf

CHUNK = 10_000  # documents scanned at once, which bounds the memory


class Ranked(NamedTuple):
    """The best documents of Q queries: rows int64 [Q, K] and scores float32 [Q, K], best first."""

    rows: np.ndarray
    scores: np.ndarray

    def save(self, path: Path) -> None:
        with replacing(path, INNER, overwrite=True) as file:
            np.savez(file, rows=self.rows, scores=self.scores)

    @classmethod
    def load(cls, path: Path) -> Ranked:
        with np.load(path) as file:
            return cls(file["rows"], file["scores"])


def best_matches(index: ForwardIndex, queries: Sequence[Query], depth: int, seed: int) -> Ranked:
    """The ``depth`` documents with the largest sum of the text IDF of their distinct query words.

    Ties are broken at random; if too few documents hold a query word, others are drawn at random. ``depth`` is cut to
    the number of documents.
    """
    depth = min(depth, index.documents)
    column, weights = _query_weights(index, queries)
    random = np.random.default_rng(seed)
    best = Ranked(np.zeros((len(queries), 0), np.int64), np.zeros((len(queries), 0), np.float32))
    for start in range(0, len(index), CHUNK):
        stop = min(start + CHUNK, len(index))
        incidence = _incidence(index, column, weights.shape[0], start, stop)
        scores = (incidence @ weights).toarray().T  # [Q, documents of the chunk]
        scores += random.random(scores.shape, dtype=np.float32) * 1e-3  # breaks ties
        if index.live is not None:
            scores[:, ~index.live[start:stop]] = -1
        rows = np.broadcast_to(np.arange(start, stop), scores.shape)
        best = _best(np.hstack([best.rows, rows]), np.hstack([best.scores, scores]), depth)
    order = np.argsort(-best.scores, axis=1)
    return Ranked(np.take_along_axis(best.rows, order, 1), np.take_along_axis(best.scores, order, 1))


def _query_weights(index: ForwardIndex, queries: Sequence[Query]) -> tuple[np.ndarray, sparse.csr_matrix]:
    """The column of each index term among the W words of all queries, int32 [V], -1 for others; and their IDF."""
    words = [np.unique(ids[ids >= 0]) for ids in (index.query(query.text).ids for query in queries)]
    distinct = np.unique(np.concatenate(words)).astype(np.int64)
    column = np.full(index.vocabulary_size, -1, np.int32)
    column[distinct] = np.arange(len(distinct))
    owner = np.repeat(np.arange(len(words)), [len(ids) for ids in words])
    terms = np.concatenate(words).astype(np.int64)
    weights = idf(index.document_frequency["text"][terms], index.documents).astype(np.float32)
    return column, sparse.csr_matrix((weights, (column[terms], owner)), shape=(len(distinct), len(queries)))


def _incidence(index: ForwardIndex, column: np.ndarray, width: int, start: int, stop: int) -> sparse.csr_matrix:
    """Whether each of the documents start..stop holds each query word, float32 0 or 1 [stop - start, W]."""
    words = gathered_words(index, np.arange(start, stop))
    columns = column[words.tokens]
    matches = np.flatnonzero(columns >= 0)
    documents = np.searchsorted(words.starts, matches, side="right") - 1
    ones = np.ones(len(matches), np.float32)
    incidence = sparse.csr_matrix((ones, (documents, columns[matches])), (stop - start, width))
    incidence.data[:] = 1  # instead of term frequencies, the sums of repeated entries
    return incidence


def _best(rows: np.ndarray, scores: np.ndarray, depth: int) -> Ranked:
    """The ``depth`` largest scores of every row, in any order."""
    if rows.shape[1] <= depth:
        return Ranked(rows, scores)
    chosen = np.argpartition(-scores, depth - 1, axis=1)[:, :depth]
    return Ranked(np.take_along_axis(rows, chosen, 1), np.take_along_axis(scores, chosen, 1))
