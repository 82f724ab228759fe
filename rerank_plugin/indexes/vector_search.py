"""The search of vectors: by the store of an index, or by what searches in its place, on a device or with Faiss.

Letters in shapes: R documents, E numbers of a vector, G segments, L lists, Q queries, k best.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rerank_plugin.indexes.rows import NO_ROWS
from rerank_plugin.kernels.quantization import QuantizedQueries

Queries = np.ndarray | QuantizedQueries  # float32 [Q, E], or one [E]
Hits = tuple[np.ndarray, np.ndarray]  # rows int64 [k] and scores float32 [k]


class Fitting(NamedTuple):
    """The documents that fit a filter.

    Attributes:
        positions: theirs in the whole store, int64 [n], increasing.
        lists: where those of each list start among them, int64 [G, L + 1].
        held: the number of documents in each list that fit, by which lists to read are chosen, int64 [L]; of the whole
            collection, if the store is a part of it.
    """

    positions: np.ndarray
    lists: np.ndarray
    held: np.ndarray

    def in_whole(self, held: np.ndarray) -> Fitting:
        """These, read from the lists that the whole collection would read, with ``held`` of all its parts in sum."""
        return self._replace(held=held)


Fits = np.ndarray | Fitting | None  # which documents may be found, bool [R]; None for all


class VectorSearch(ABC):
    """Searches the vectors of an index."""

    def search(self, query: Queries, count: int, fits: Fits = None, probes: int | None = None) -> Hits:
        """The best ``count`` documents for a query: rows int64 [k] and scores float32 [k], ties by the lowest row.

        Args:
            query: float32 [E].
            fits: which documents may be found, bool [R] or what :meth:`VectorStore.fitting` makes of it; by default
                all.
            probes: inverted lists to read; more are read where they hold fewer than ``count`` documents. A search that
                has no lists ignores it.
        """
        return self.search_many(query, count, fits, probes)[0]

    @abstractmethod
    def search_many(self, queries: Queries, count: int, fits: Fits = None, probes: int | None = None) -> list[Hits]:
        """As :meth:`search` for each query of float32 [Q, E]."""


def best_hits(rows: np.ndarray, scores: np.ndarray, count: int) -> Hits:
    """The best ``count`` of some rows int64 [n] by their scores float32 [n], ties by the lowest row."""
    order = np.lexsort((rows, -scores))[:count]
    return rows[order], scores[order]


def merged_hits(parts: Sequence[Hits], count: int) -> Hits:
    """The best ``count`` hits of several parts, ties by the lowest row."""
    if not parts:
        return NO_ROWS, np.zeros(0, np.float32)
    rows, scores = map(np.concatenate, zip(*parts))
    return best_hits(rows, scores, count)
