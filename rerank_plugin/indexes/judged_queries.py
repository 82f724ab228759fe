"""Judged queries that an index keeps, encoded by a model, with the documents that are relevant for them.

``INDEX/judged/NUMBER/KEY`` is the folder of those of a commit NUMBER; KEY is the checksum of the model's weights.
It holds ``vectors.npy`` (float32 [Q, E], encodings of the judged queries, of length 1), ``starts.npy`` (uint64 [Q+1],
where each query's documents start), ``rows.npy`` (uint32 [J], relevant documents as rows of the forward index,
increasing for each query), and ``judged.json`` (format version, checksum of the forward index, sources, counts).

A judgment follows the id of its document: to the new row of a document that was replaced, or deleted and added again. A
merge forgets the judgments of documents that are deleted, and queries without others.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.arrays import save_array
from rerank_plugin.files.artifact import Array, Artifact
from rerank_plugin.files.checksums import CHECKSUM
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.layout import JUDGED as FOLDER
from rerank_plugin.indexes.layout import derived_folder

JUDGED = Artifact(
    "a folder of judged queries",
    "judged.json",
    {"forward_index": str, "sources": list[str], "queries": int, "relevant": int},
    arrays={
        "vectors": Array(np.float32, "Q E", finite=True),
        "starts": Array(np.uint64, "Q+1", offsets="J"),
        "rows": Array(np.uint32, "J", below="R"),
    },
    sizes={"Q": "queries", "J": "relevant"},
    version=1,
    seal_entry=CHECKSUM,
    sampled=True,
)


AGAIN = "keep judged queries again"


def judged_folder(index: ForwardIndex, key: str) -> Path:
    """The folder of the judged queries encoded by the model with this checksum; it need not exist."""
    return derived_folder(index, FOLDER) / key


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
        for name, array in zip(JUDGED.arrays, self):
            save_array(folder / f"{name}.npy", array)
        counts = {"queries": len(self.vectors), "relevant": int(self.starts[-1])}
        JUDGED.seal(folder, {"forward_index": index.checksum, "sources": sources, **counts})


def read_judged(folder: Path, index: ForwardIndex, size: int | None, repair: str) -> tuple[JudgedQueries, list[str]]:
    """Judged queries and their sources.

    Args:
        size: numbers of an encoding, E; None for any.
        repair: the end of messages.

    Raises:
        InputError: they are missing, damaged or of another index.
    """
    description, arrays = JUDGED.open(folder, repair, R=len(index), E=size)[1:3]
    if description["forward_index"] != index.checksum:
        raise InputError(f"{folder} is of another index; {repair}")
    return JudgedQueries(**arrays), description["sources"]


def verify_judged(folder: Path, index: ForwardIndex) -> int:
    """Read every byte of judged queries; returns the number of their files. An `InputError` as `read_judged`."""
    read_judged(folder, index, None, AGAIN)
    return JUDGED.verify(folder, AGAIN, R=len(index))
