"""What the score of one document is made of, as arrays. Imports no torch.

Letters in shapes: N words of the document that were read, M words of the query.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np


class Part(NamedTuple):
    """A feature, or a concept, with its value and what it adds to the score."""

    name: str
    value: float
    contribution: float


@dataclass(frozen=True)
class Attribution:
    """The score of one document as a sum: ``base``, the document's words, and the other parts.

    Attributes:
        base: the score without any of them: of an empty document with average features, or 0.
        known: which query words the scorer has something to compare with, bool [M].
        words: what each word of the document adds, float64 [N]; None where that is not known.
        query_words: the same sum by the words of the query, float64 [M]; None where it cannot be divided so.
        parts: features and concepts.
        matrix: similarities of query words and document words, float64 [M, N]; None where there are none.
        matrix_name: what they are.
        closest: the query word that each document word is compared with, int64 [N]; by default the most similar one.
        pooled: (query word, document word) of the cells of the matrix that a model kept, in the order of the matrix.
        details: more of each document word, by name; empty, or one dictionary a word.
        exact: whether the sum is the score by definition; otherwise by integrated gradients.
        query_places: which words of the query are those that were read, int64 [M]; None for all.
    """

    base: float
    known: np.ndarray
    words: np.ndarray | None = None
    query_words: np.ndarray | None = None
    parts: tuple[Part, ...] = ()
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


def of_cells(base: float, cells: np.ndarray, **more: Any) -> Attribution:
    """An attribution whose contributions are known by cell, float64 [M, N]; ``more`` are the other attributes."""
    return Attribution(base, words=cells.sum(axis=0), query_words=cells.sum(axis=1), **more)
