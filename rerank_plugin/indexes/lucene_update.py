"""Changes the Lucene index of a shard, of all documents where an index is not divided: each change is a new commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rerank_plugin.files.string_table import StringTable
from rerank_plugin.indexes.forward import DELETED
from rerank_plugin.indexes.layout import LUCENE_COMMIT_FILE
from rerank_plugin.indexes.lucene_reader import (
    Counts,
    commit_files,
    commit_id,
    field_counts,
    lucene_ids,
    open_reader,
    segment_sizes,
)
from rerank_plugin.indexes.lucene_writer import update_lucene
from rerank_plugin.indexes.rows import NO_ROWS
from rerank_plugin.indexes.segment import chunks

PART = 1 << 20  # rows of Lucene's documents that are compared at once


class LuceneUpdate:
    """The Lucene index of a shard, as a commit of the index reads it.

    Args:
        folder: the index folder. path: of the Lucene index in it.
        description: what the commit before says of it; empty for a new Lucene index.
        rows: of its documents, in the shard, uint32 [L]. files: of its commit, by their paths in the index folder.

    Attributes:
        counts: Lucene's, of the documents that are added, or of all in a new or a merged Lucene index.
    """

    def __init__(
        self,
        folder: Path,
        path: str,
        description: dict[str, Any] | None = None,
        rows: np.ndarray = NO_ROWS,
        files: Sequence[str] = (),
    ):
        self.folder, self.path, self.description = folder, path, dict(description or {})
        self.rows, self.files, self.changed = np.asarray(rows), list(files), not description
        self.counts: Counts = {}

    def built(self, ids: StringTable, fields: Sequence[str]) -> None:
        """Read a new Lucene index of the documents of a table of ids."""
        reader = self._opened()
        self.rows, self.counts = lucene_rows(ids, reader), field_counts(reader, fields)
        reader.close()

    def change(self, deleted: np.ndarray, ids: Iterable[str], added_index: Path | None, added: np.ndarray) -> None:
        """Delete documents, and add those of another Lucene index.

        Args:
            deleted: rows int64 [n]. ids: of these.
            added: rows of the added documents by their Lucene numbers, int64 [a].
        """
        folder, commit = self.folder / self.path, self.description[LUCENE_COMMIT_FILE]
        reader = open_reader(folder, commit)
        sizes = segment_sizes(reader)
        reader.close()
        update_lucene(folder, commit, ids, added_index)
        known = dict(zip(sizes, np.split(self.rows, np.cumsum(list(sizes.values()))[:-1])))
        parts = [np.zeros(0, np.uint32)]
        reader = self._opened()
        for segment, size in segment_sizes(reader).items():
            if segment not in known:
                known[segment], added = added[:size], added[size:]
            parts.append(known[segment].astype(np.uint32, copy=False))
        rows = np.concatenate(parts)
        for some in chunks(rows, PART):  # views: little memory is needed besides
            some[np.isin(some, deleted)] = DELETED
        if len(added) or (rows != DELETED).sum() != reader.numDocs():
            raise RuntimeError("Lucene and the forward index hold different documents")
        reader.close()
        self.rows = rows

    def merge(self, ids: StringTable, fields: Sequence[str]) -> None:
        """Remove deleted documents; ``ids`` are those that are left."""
        update_lucene(self.folder / self.path, self.description[LUCENE_COMMIT_FILE], merge=True)
        self.built(ids, fields)

    def renumber(self, rows: np.ndarray) -> None:
        """Give the documents other rows, int64 [R], by those that they have."""
        live = np.flatnonzero(self.rows != DELETED)
        numbered = np.full(len(self.rows), DELETED, np.uint32)
        numbered[live] = rows[self.rows[live]]
        self.rows, self.changed = numbered, True

    def _opened(self) -> Any:
        """A reader of the commit that was just written."""
        reader = open_reader(self.folder / self.path)
        commit, files = commit_files(reader)
        self.description |= {"path": self.path, "commit": commit_id(reader), LUCENE_COMMIT_FILE: commit}
        self.files, self.changed = [f"{self.path}/{name}" for name in files], True
        return reader


def lucene_rows(table: StringTable, reader: Any, first: int = 0) -> np.ndarray:
    """Row of each Lucene document number, uint32 [n]: Lucene's threads and merges may reorder documents.

    Args:
        table: the ids of all rows from ``first`` on.
    """
    pages = (table.find(page).astype(np.uint32) for page in lucene_ids(reader))  # the largest for -1
    rows = np.concatenate([np.zeros(0, np.uint32), *pages])
    found = np.zeros(len(table), bool)
    found[rows[rows < len(table)]] = True
    if len(rows) != len(table) or not found.all():
        raise RuntimeError("Lucene and the forward index hold different documents")
    return rows + np.uint32(first)
