"""Rows: the numbers of all documents of an index, which are in several segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from rerank_plugin.base.lazily import cached_property

NO_ROWS = np.zeros(0, np.int64)


class Rows:
    """Where each row is.

    Args:
        lengths: the number of documents of each segment.
        order: the place of each row among the documents of all segments, one after the other, uint32 [R]; None if
            it is the row.
        shards: the shard of each segment; by default there is one.

    Attributes:
        starts: where each segment starts among all documents, int64 [S + 1].
    """

    def __init__(self, lengths: Sequence[int], order: np.ndarray | None = None, shards: Sequence[int] = ()):
        self.order, self.starts = order, np.concatenate([NO_ROWS, [0], np.cumsum(lengths, dtype=np.int64)])
        self.shard_of = np.array(list(shards) or [0] * len(lengths), np.int64)  # each segment, [S]
        self.shards: list[int] = np.unique(self.shard_of).tolist()

    def __len__(self) -> int:
        return int(self.starts[-1])

    def located(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The segment of each row, and the row there, int64 [n] each."""
        places = np.asarray(rows, np.int64) if self.order is None else self.order[rows].astype(np.int64)
        numbers = np.searchsorted(self.starts, places, "right") - 1
        return numbers, places - self.starts[numbers]

    def by_segment(self, rows: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Rows int64 [n] by segment: its number, and the places among ``rows`` and rows there, int64 [m] each."""
        numbers, local = self.located(rows)
        for number in np.flatnonzero(np.bincount(numbers, minlength=1)).tolist():  # faster than numpy.unique
            at = np.flatnonzero(numbers == number)
            yield number, at, local[at]

    def by_shard(self, rows: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Rows int64 [n] by shard: its number, and the places among ``rows`` and rows there, int64 [m] each."""
        segments, local = self.located(rows)
        shards = self.shard_of[segments]
        for shard in np.unique(shards).tolist():
            at = np.flatnonzero(shards == shard)
            yield shard, at, local[at] + self._starts_in_shards[segments[at]]

    def of_segment(self, number: int, local: np.ndarray | None = None) -> np.ndarray:
        """The rows of documents of a segment by their rows there, int64 [n]; by default of all, increasing."""
        start, stop = self.starts[number : number + 2].tolist()
        places = np.arange(start, stop) if local is None else local.astype(np.int64) + start
        return places if self._in_order is None else self._in_order[places]

    def of_shard(self, shard: int) -> np.ndarray:
        """The rows of a shard's documents, in the order of its segments, int64 [n]."""
        return np.concatenate([NO_ROWS, *map(self.of_segment, np.flatnonzero(self.shard_of == shard).tolist())])

    def of_rows(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Values of the documents of each segment as those of rows, [R]; a single segment's are not copied."""
        together = values[0] if len(values) == 1 else np.concatenate(values)
        return together if self.order is None else together[self.order]

    @cached_property
    def _in_order(self) -> np.ndarray | None:
        """The row of each document of all segments, one after the other, int64 [R]; None if it is its place."""
        if self.order is None:
            return None
        rows = np.empty(len(self.order), np.int64)
        rows[self.order] = np.arange(len(self.order))
        return rows

    @cached_property
    def _starts_in_shards(self) -> np.ndarray:
        """Where each segment starts among the documents of its shard, int64 [S]."""
        lengths, starts = np.diff(self.starts), np.zeros(len(self.shard_of), np.int64)
        for shard in self.shards:
            of = np.flatnonzero(self.shard_of == shard)
            starts[of] = np.cumsum(lengths[of]) - lengths[of]
        return starts
