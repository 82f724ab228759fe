"""Writes what an update changes in an index or a shard: Lucene's next commit, and the description of a generation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from rerank_plugin import __version__
from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Problems
from rerank_plugin.files.checksums import CHECKSUM
from rerank_plugin.files.string_table import PIECE, StringTable
from rerank_plugin.indexes.building import BATCH, lucene_rows
from rerank_plugin.indexes.forward import (
    DELETED,
    NO_ROWS,
    SEARCHABLE,
    FieldStatistics,
    ForwardIndexWriter,
    chunks,
    is_appended,
)
from rerank_plugin.indexes.index_folder import COMMIT_FILE, KNOWLEDGE, Index, describe_index_file, generation
from rerank_plugin.indexes.lucene_reader import (
    Counts,
    commit_files,
    commit_id,
    field_counts,
    open_reader,
    segment_sizes,
)
from rerank_plugin.indexes.lucene_writer import filterable, update_lucene

NAMED = 5  # ids in a note
PART = 1 << 20  # rows of Lucene's documents that are compared at once


@dataclass(frozen=True)
class UpdateReport:
    """What an update did: documents added, deleted (replaced ones included), and in the index afterwards.

    Attributes:
        withdrawn: ids of documents that were deleted because the added corpus deletes them.
        unheld: how many ids the corpus deletes of which the index holds no such version.
        older: ids of documents of the corpus that were left out, since the index holds a newer version.
        unchanged: how many documents of the corpus the index held as they are.
    """

    added: int
    deleted: int
    documents: int
    withdrawn: Sequence[str] = ()
    unheld: int = 0
    older: Sequence[str] = ()
    unchanged: int = 0

    def notes(self) -> list[str]:
        """What else than adding an update did, in sentences; ids are examples."""
        sentences = {
            "documents deleted, as the corpus says": self.withdrawn,
            "documents left out, which are older versions than those in the index": self.older,
        }
        notes = [
            f"{len(ids):,} {sentence}: {', '.join(ids[:NAMED])}{', ...' * (len(ids) > NAMED)}"
            for sentence, ids in sentences.items()
            if ids
        ]
        numbers = {
            "documents left out, which the index holds as they are": self.unchanged,
            "deletions of documents that the index does not hold": self.unheld,
        }
        return notes + [f"{number:,} {sentence}" for sentence, number in numbers.items() if number]


class GenerationWriter:
    """Writes the generation after that of an index, or of a shard, but for its forward index.

    Attributes:
        counts: Lucene's, of the documents that are added, or after a merge of all.

    Raises:
        InputError: the Lucene index is of another program.
    """

    def __init__(self, index: Index) -> None:
        if index.lucene_folder.parent != index.folder:
            raise InputError(
                f"{index.folder} is beside the Lucene index {index.lucene_folder}, which is not changed: change that "
                f"with the program that built it, then: rerank-plugin index --lucene {index.lucene_folder} --index "
                f"{index.folder} --overwrite"
            )
        self.index = index
        self.number = index.description["number"] + 1
        self.lucene = dict(index.description["lucene"])
        if COMMIT_FILE not in self.lucene:
            raise InputError(f"{index.folder} has no Lucene index, which an update changes: {index.rebuild}")
        self.lucene_rows = np.asarray(index.forward.lucene_rows)
        self.lucene_files = [name for name in index.description["files"] if name.startswith("lucene/")]
        self.counts: Counts = {}

    def add_lucene(
        self, addition: Path, writer: ForwardIndexWriter, deleted: np.ndarray, metadata: Mapping[str, int]
    ) -> None:
        """Delete rows int64 [n] from Lucene, and add the documents of another Lucene index, which a writer has added.

        Args:
            metadata: the number of added documents with each field.
        """
        reader = open_reader(addition)
        added_rows = lucene_rows(writer.table("ids"), reader, writer.first)
        self.counts = field_counts(reader, self.index.lucene_fields)
        reader.close()
        self.change_lucene(deleted, addition, added_rows, metadata)

    def change_lucene(
        self,
        deleted: np.ndarray,
        addition: Path | None = None,
        added_rows: np.ndarray = NO_ROWS,
        metadata: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Delete rows int64 [n] from Lucene, and add the documents of another Lucene index.

        Args:
            added_rows: of the documents of the addition by their Lucene numbers, int64 [a].
            metadata: the number of added documents with each field.
        """
        index, reader = self.index, self.index.open_lucene()
        counts = Counter[str](self.lucene["metadata"])
        if counts:
            for document in index.stored_documents(reader, deleted):
                counts.subtract(filterable(document.metadata))
        counts.update(metadata)
        self.lucene["metadata"] = {name: count for name, count in sorted(counts.items()) if count}
        sizes = segment_sizes(reader)
        reader.close()
        ids = (id for rows in chunks(deleted, BATCH) for id in index.forward.ids.take(rows))
        update_lucene(index.lucene_folder, self.lucene[COMMIT_FILE], ids, addition)
        known = dict(zip(sizes, _split(np.asarray(index.forward.lucene_rows), sizes.values())))
        parts = [np.zeros(0, np.uint32)]
        reader = self._open_new()
        for segment, size in segment_sizes(reader).items():
            if segment not in known:
                known[segment], added_rows = added_rows[:size], added_rows[size:]
            parts.append(known[segment].astype(np.uint32, copy=False))
        rows = np.concatenate(parts)
        for some in chunks(rows, PART):  # views: little memory is needed besides
            some[np.isin(some, deleted)] = DELETED
        if len(added_rows) or (rows != DELETED).sum() != reader.numDocs():
            raise RuntimeError("Lucene and the forward index hold different documents")
        reader.close()
        self.lucene_rows = rows

    def merge_lucene(self, ids: StringTable) -> None:
        """Remove deleted documents from Lucene's segments; ``ids`` is the table of those that are left."""
        update_lucene(self.index.lucene_folder, self.lucene[COMMIT_FILE], merge=True)
        reader = self._open_new()
        self.lucene_rows = lucene_rows(ids, reader)
        self.counts = field_counts(reader, self.index.lucene_fields)
        reader.close()

    def _open_new(self) -> Any:
        """A reader of the commit that was just written."""
        reader = open_reader(self.index.lucene_folder)
        self.lucene[COMMIT_FILE], files = commit_files(reader)
        self.lucene["commit"], self.lucene_files = commit_id(reader), [f"lucene/{name}" for name in files]
        return reader

    def description(
        self,
        writer: ForwardIndexWriter,
        statistics: Mapping[str, FieldStatistics],
        problems: Problems | None = None,
    ) -> dict[str, Any]:
        """The description of the new generation, without its files."""
        return {**described_after(self.index, writer, statistics, problems), "lucene": self.lucene}

    def files(
        self, writer: ForwardIndexWriter, others: Iterable[str] = (), known: Mapping[str, dict] = MappingProxyType({})
    ) -> dict[str, dict]:
        """The descriptions of the files of the new generation, as `described_files` gives them."""
        return described_files(self.index, writer, [*others, *self.lucene_files, writer.layout.lucene_rows], known)


def described_after(
    index: Index,
    writer: ForwardIndexWriter,
    statistics: Mapping[str, FieldStatistics],
    problems: Problems | None = None,
) -> dict[str, Any]:
    """The description of the generation after that of an index, without its files and what it says of Lucene."""
    before = index.description
    return {
        **{name: value for name, value in before.items() if name not in (CHECKSUM, "files")},
        **generation(writer.layout.number, writer.layout.base, writer.documents, len(writer.terms)),
        "created_by": f"rerank_plugin {__version__}",
        "fields": {field: asdict(numbers) for field, numbers in statistics.items()},
        "left_out": [*before["left_out"], *(problems.summary(kept=False) if problems else ())],
    }


def described_files(
    index: Index,
    writer: ForwardIndexWriter,
    others: Sequence[str],
    known: Mapping[str, dict] = MappingProxyType({}),
) -> dict[str, dict]:
    """The descriptions of the files of a new generation; of those before only what was appended is read.

    Args:
        others: the names of those beside the forward index. known: descriptions of files that are not read.
    """
    before, layout = {**index.description["files"]}, writer.layout
    pieces = {f"{table}.{part}{end}" for table in SEARCHABLE for end in writer.pieces[table] for part in PIECE}
    forward = {f"{layout.folder}/{path.name}": path.stem for path in writer.files.iterdir()}
    names = [
        *(name for name, stem in forward.items() if is_appended(name) or stem in pieces or layout.end in stem),
        *(name for name in before if name.startswith(f"{KNOWLEDGE}/")),
        *others,
    ]
    return {
        name: known[name]
        if name in known
        else before[name]
        if name in before and not is_appended(name)
        else describe_index_file(index.folder, name, before.get(name))
        for name in sorted(names)
    }


def _split(rows: np.ndarray, sizes: Iterable[int]) -> list[np.ndarray]:
    return np.split(rows, np.cumsum(list(sizes))[:-1])
