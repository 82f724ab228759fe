"""The candidates of one query: rows of the forward index, and their words as arrays, gathered once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rerank_plugin.base.lazily import cached_property
from rerank_plugin.base.records import Query
from rerank_plugin.files.arrays import ranges
from rerank_plugin.files.string_table import StringTable
from rerank_plugin.indexes.forward import ForwardIndex, SegmentedTable, WordSlices


class FlatTokens(NamedTuple):
    """The words or concepts of all candidates in one array: id uint32 [T], candidate and position int64 [T]."""

    ids: np.ndarray
    candidate: np.ndarray
    position: np.ndarray


class Candidates:
    """The documents to be scored for one query: rows int64 [C], in first-stage order, and scores float32 [C].

    Attributes:
        search_ms: latency of the first stage in milliseconds.
        highest: the highest first-stage score of the query, where these candidates are some of its; None for theirs.
        missing: the numbers of the shards that did not answer, whose documents are missing; None where none may be.
        read_as: the query as the first stage read it, for what scores them; None if as it is written.
    """

    search_ms: float = 0.0
    highest: float | None = None
    missing: frozenset[int] | None = None
    read_as: Query | None = None

    def __init__(self, index: ForwardIndex, rows: npt.ArrayLike, first_stage_scores: npt.ArrayLike):
        self.index = index
        self.rows = np.asarray(rows, dtype=np.int64)
        self.first_stage_scores = np.asarray(first_stage_scores, dtype=np.float32)
        if self.rows.shape != self.first_stage_scores.shape:
            raise ValueError(f"{len(self.rows)} rows but {len(self.first_stage_scores)} first-stage scores")

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def words(self) -> WordSlices:
        """The words of the candidates, gathered if the index holds them in several arrays."""
        return self.index.words(self.rows)

    @property
    def tokens(self) -> np.ndarray:
        """The array that holds the candidates' words, uint32 [T]."""
        return self.words.tokens

    @property
    def starts(self) -> np.ndarray:
        """Where each candidate's words start in ``tokens``, int64 [C]."""
        return self.words.starts

    @property
    def lengths(self) -> np.ndarray:
        """Words of each candidate (title + abstract), int64 [C]."""
        return self.words.lengths

    @cached_property
    def title_lengths(self) -> np.ndarray:
        """Words of each title, int64 [C]; the title is the span [0, title_length) of a candidate's words."""
        return self.index.title_lengths[self.rows].astype(np.int64)

    @property
    def ids(self) -> list[str]:
        """External ids, in row order."""
        return self.index.ids.take(self.rows)

    def padded_tokens(self, width: int) -> tuple[np.ndarray, np.ndarray]:
        """The first words of every candidate: ids uint32 [C, width] (0 where padded), mask bool [C, width]."""
        position = np.arange(width)
        mask = position < self.lengths[:, None]  # [C, N]
        indices = np.minimum(self.starts[:, None] + position, max(len(self.tokens) - 1, 0))
        ids = self.tokens[indices] if len(self.tokens) else np.zeros(mask.shape, np.uint32)
        return np.where(mask, ids, np.uint32(0)), mask

    def flat_concepts(self, most: int | None = None) -> FlatTokens:
        """The concepts of every candidate, at most the first ``most`` of each; the index must hold concepts."""
        concepts, starts, lengths = self.index.concept_lists(self.rows)
        return _flat(concepts, starts, lengths if most is None else np.minimum(lengths, most))

    @cached_property
    def flat_tokens(self) -> FlatTokens:
        """Every word of every candidate, without truncation; for plug-ins."""
        return _flat(self.tokens, self.starts, self.lengths)

    def order(self, scores: np.ndarray) -> np.ndarray:
        """Indices of the candidates by float32 score descending, ties by decreasing document id; int64 [C]."""
        negated = -np.asarray(scores, np.float32)
        order = np.argsort(negated, kind="stable")
        negated = negated[order]
        tied = np.zeros(len(order), bool)  # ids are compared only where scores are equal
        tied[1:] = negated[1:] == negated[:-1]
        tied[:-1] |= tied[1:]
        if tied.any():
            ids, equal = self.index.ids, order[tied]
            assert isinstance(ids, (StringTable, SegmentedTable)), "the candidates are of a stored index"
            order[tied] = equal[np.lexsort((-ids.ranks(self.rows[equal]), negated[tied]))]
        return order

    def highest_score(self) -> float:
        """The highest first-stage score of the query's candidates, at least 0."""
        return float(self.first_stage_scores.max(initial=0)) if self.highest is None else max(self.highest, 0.0)

    def take(self, positions: np.ndarray) -> Candidates:
        """The candidates at some positions, int64 [n]."""
        return Candidates(self.index, self.rows[positions], self.first_stage_scores[positions])

    def without(self, shards: frozenset[int]) -> Candidates:
        """The candidates that are in none of these shards, which are missing then.

        They stay the same if none may be missing, or none is in these shards.
        """
        if self.missing is None:
            return self
        others = np.flatnonzero(~np.isin(self.index.shards_of(self.rows), sorted(shards)))
        if len(others) == len(self):
            return self
        candidates = self.take(others)
        candidates.search_ms, candidates.missing = self.search_ms, self.missing | shards
        candidates.read_as = self.read_as
        return candidates

    def best(self, depth: int | None = None) -> Candidates:
        """The first ``depth`` candidates by first-stage score, ties by decreasing document id; all for None."""
        rows, scores = self.rows, self.first_stage_scores
        if depth and depth < len(self):  # the rest is not sorted
            kept = scores >= -np.partition(-scores, depth - 1)[depth - 1]
            rows, scores = rows[kept], scores[kept]
        order = Candidates(self.index, rows, scores).order(scores)[:depth]
        return Candidates(self.index, rows[order], scores[order])


def _flat(values: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> FlatTokens:
    indices = ranges(starts, lengths)
    return FlatTokens(values[indices], np.repeat(np.arange(len(starts)), lengths), indices - np.repeat(starts, lengths))
