"""Judged queries that an index keeps, encoded by a model, with the documents that are relevant for them.

``INDEX/judged/NUMBER/KEY`` is the folder of those of a generation NUMBER; KEY is the checksum of the model's weights.
It holds ``vectors.npy`` (float32 [Q, E], encodings of the judged queries, of length 1), ``starts.npy`` (uint64 [Q+1],
where each query's documents start), ``rows.npy`` (uint32 [J], relevant documents as rows of the forward index,
increasing for each query), and ``judged.json`` (format version, checksum of the forward index, sources, counts).

A judgment follows the id of its document: to the new row of a document that was replaced, or deleted and added again. A
merge forgets the judgments of documents that are deleted, and queries without others.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.arrays import are_below, are_offsets, open_array, save_array
from rerank_plugin.files.checksums import check_description, fault, passed
from rerank_plugin.files.outputs import FolderKind
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.index_folder import JUDGED as FOLDER
from rerank_plugin.indexes.index_folder import addition, reading, write_description

DESCRIPTION_FILE = "judged.json"
FILES = "vectors.npy", "starts.npy", "rows.npy"
JUDGED = FolderKind("a folder of judged queries", DESCRIPTION_FILE, ("forward_index", "sources"), FILES)
DTYPES = np.float32, np.uint64, np.uint32  # of these files, in their order
FORMAT_VERSION = 1


def judged_folder(index: ForwardIndex, key: str) -> Path:
    """The folder of the judged queries encoded by the model with this checksum; it need not exist."""
    return addition(index, FOLDER) / key


class JudgedQueries(NamedTuple):
    """Judged queries, whose arrays are those of the module."""

    vectors: np.ndarray
    starts: np.ndarray
    rows: np.ndarray

    @property
    def counts(self) -> np.ndarray:
        """The number of relevant documents of each query, int64 [Q]."""
        return np.diff(self.starts.astype(np.int64))

    def moved(self, rows: np.ndarray) -> JudgedQueries:
        """The queries with other rows for the relevant documents, int64 [J]; -1 for one that is left out.

        Queries without documents are left out.
        """
        queries = np.repeat(np.arange(len(self.vectors)), self.counts)
        order = np.lexsort((rows, queries))
        order = order[rows[order] >= 0]
        counts = np.bincount(queries[order], minlength=len(self.vectors))
        starts = np.concatenate([[0], np.cumsum(counts[counts > 0])]).astype(np.uint64)
        return JudgedQueries(self.vectors[counts > 0], starts, rows[order].astype(np.uint32))

    def of_live(self, index: ForwardIndex) -> JudgedQueries:
        """The queries with the documents that are not deleted."""
        if index.live is None:
            return self
        return self.moved(np.where(index.live[self.rows], self.rows.astype(np.int64), -1))

    def write(self, folder: Path, index: ForwardIndex, sources: list[str]) -> None:
        """Write them into an existing folder."""
        for name, array in zip(FILES, self):
            save_array(folder / name, array)
        described = {
            "format_version": FORMAT_VERSION,
            "forward_index": index.checksum,
            "sources": sources,
            "queries": len(self.vectors),
            "relevant": int(self.starts[-1]),
        }
        write_description(folder / DESCRIPTION_FILE, described, FILES)


def _are_sound(judged: JudgedQueries, index: ForwardIndex) -> bool:
    """Whether all rows exist, their lists follow one another, and the vectors are numbers."""
    rows = are_offsets(judged.starts, len(judged.rows)) and are_below(judged.rows, len(index))
    return rows and bool(np.isfinite(judged.vectors).all())


def read_judged(folder: Path, index: ForwardIndex, size: int | None, repair: str) -> tuple[JudgedQueries, list[str]]:
    """Judged queries and their sources.

    Args:
        size: numbers of an encoding, E; None for any.
        repair: the end of messages.

    Raises:
        InputError: they are missing, damaged or of another index.
    """
    with reading(folder, repair):
        described = json.loads((folder / DESCRIPTION_FILE).read_bytes())
        sources = described["sources"]
        entries = [described[name] for name in ("format_version", "forward_index", "queries", "relevant")]
        check_description(folder / DESCRIPTION_FILE, described, repair)
        changed = [name for name in FILES if fault(folder / name, described["files"][name]) is not None]
        opened = [folder / name for name in FILES]
        judged = JudgedQueries(*map(open_array, opened, [None] * 3, DTYPES))
    expected = [FORMAT_VERSION, index.checksum, len(judged.vectors), len(judged.rows)]
    fits = size is None or judged.vectors.shape[1:] == (size,)
    fits = fits and len(judged.starts) == len(judged.vectors) + 1
    if entries != expected or changed or not fits or not passed(opened, lambda: _are_sound(judged, index), len(index)):
        raise InputError(f"{folder} does not fit the index, or is damaged; {repair}")
    return judged, sources
