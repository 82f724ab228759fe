"""The attribution of one document's score, as arrays. Imports no torch.

Letters in shapes: N document words and M query words that the model reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np


class ScorePart(NamedTuple):
    """A feature, or a concept, with its value and its contribution to the score."""

    name: str
    value: float
    contribution: float


@dataclass(frozen=True)
class Attribution:
    """The score of one document as a sum: ``base``, the document's words, and the other parts.

    Attributes:
        base: the score without words and parts: that of an empty document with average features, or 0.
        known: which query words the scorer can match, bool [M].
        words: the contribution of each document word, float64 [N]; None if unknown.
        query_words: the same sum by query words, float64 [M]; None if it does not divide by query words.
        parts: contributions of features and concepts.
        matrix: similarities of query words and document words, float64 [M, N]; None for a scorer without them.
        matrix_name: the kind of similarity.
        closest: the query word that each document word is compared with, int64 [N]; by default the most similar one.
        pooled: the cells of the matrix that the model pools, as (query word, document word), in matrix order.
        details: further values of each document word, by name; empty, or one dictionary per word.
        exact: whether the sum equals the score up to rounding; otherwise it comes from integrated gradients.
        query_places: positions of the M words in the query, int64 [M]; None if the scorer reads all query words.
    """

    base: float
    known: np.ndarray
    words: np.ndarray | None = None
    query_words: np.ndarray | None = None
    parts: tuple[ScorePart, ...] = ()
    matrix: np.ndarray | None = None
    matrix_name: str = "cosine"
    closest: np.ndarray | None = None
    pooled: list[tuple[int, int]] = field(default_factory=list)
    details: list[dict[str, Any]] = field(default_factory=list)
    exact: bool = False
    query_places: np.ndarray | None = None

    @property
    def total(self) -> float:
        """The sum of all parts."""
        words = 0.0 if self.words is None else float(self.words.sum())
        return self.base + words + sum(part.contribution for part in self.parts)


def of_cells(base: float, cells: np.ndarray, **attributes: Any) -> Attribution:
    """The attribution of contributions by cell, float64 [M, N]; ``attributes`` are those not derived from the cells."""
    return Attribution(base, words=cells.sum(axis=0), query_words=cells.sum(axis=1), **attributes)
