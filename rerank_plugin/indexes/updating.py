"""Adds documents to an index, deletes documents, and merges: each writes a new generation, then switches to it.

Added documents get new rows behind the others, and Lucene segments of their own. A deleted document keeps its row,
which no statistic counts any more; one that is added again is deleted first. Merging writes the documents that are left
in their order, as a new index of them would be written, and lets Lucene remove deleted documents from its segments.
Encodings and other additions are written before the switch (:mod:`rerank_plugin.indexes.additions`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from rerank_plugin import __version__
from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Document, Problems
from rerank_plugin.files.checksums import CHECKSUM
from rerank_plugin.files.outputs import temporary_folder
from rerank_plugin.files.string_table import PIECE, StringTable
from rerank_plugin.indexes.additions import OpenEncoder, carry, carry_added, carry_merged
from rerank_plugin.indexes.building import BATCH, Builder, lucene_rows, write_documents
from rerank_plugin.indexes.forward import (
    DELETED,
    NO_ROWS,
    SEARCHABLE,
    ForwardIndex,
    ForwardIndexWriter,
    chunks,
    is_appended,
)
from rerank_plugin.indexes.generations import NextGeneration, updating
from rerank_plugin.indexes.index_concepts import ConceptWriter, count_concepts
from rerank_plugin.indexes.index_folder import (
    COMMIT_FILE,
    KNOWLEDGE,
    Index,
    describe_index_file,
    generation,
)
from rerank_plugin.indexes.lucene_reader import commit_files, commit_id, open_reader, segment_sizes
from rerank_plugin.indexes.lucene_writer import filterable, update_lucene

PART = 1 << 20  # rows of Lucene's documents that are compared at once
Carry = Callable[[ForwardIndex, ForwardIndex], None]  # writes the additions of a generation from the one before


@dataclass(frozen=True)
class UpdateReport:
    """What an update did: documents added, deleted (replaced ones included), and in the index afterwards."""

    added: int
    deleted: int
    documents: int


def add(
    folder: str | Path,
    documents: Iterable[Document],
    source: str,
    problems: Problems,
    open_encoder: OpenEncoder,
    threads: int | None = None,
    progress: Callable[[Iterable[Document]], Iterable[Document]] = iter,
) -> UpdateReport:
    """Add documents to an index. A document whose id the index holds replaces the older one.

    Arguments as in :func:`~rerank_plugin.indexes.building.build_index`: of equal ids the first is added.

    Args:
        open_encoder: opens the model of each encoding that the index has.

    Raises:
        InputError: as in `updating`; there is no document to add; or the index was annotated otherwise than this
            program annotates.
    """
    with updating(folder) as (index, following):
        update = _Update(index, following)
        knowledge = index.forward.knowledge
        annotator = None if knowledge is None else knowledge.new_annotator(threads)
        builder = Builder(index.folder, problems, index.tokenizer, annotator, index.forward, update.number)
        replaced = [NO_ROWS]

        def batches(items: Iterable[Document]) -> Iterator[list[Document]]:
            for batch in builder.batches(items):
                rows = index.forward.rows([document.id for document in batch])
                replaced.append(rows[rows >= 0])
                yield batch

        with temporary_folder(index.folder / "lucene") as addition:
            metadata = write_documents(batches(progress(documents)), addition, threads)
            builder.close_streams(source)
            deleted = np.concatenate(replaced)
            reader = open_reader(addition)
            added_rows = lucene_rows(builder.forward.table("ids"), reader, builder.forward.first)
            reader.close()
            update.change_lucene(deleted, addition, added_rows, metadata)
        carrying = partial(carry_added, open_encoder=open_encoder, threads=threads)
        return update.finish(builder.forward, deleted, carrying, problems)


def delete(folder: str | Path, ids: Sequence[str], places: Sequence[str] | None = None) -> UpdateReport:
    """Delete the documents with these ids from an index.

    Args:
        places: of the ids, such as ``file:3``, for messages.

    Raises:
        InputError: as in `updating`; the index has no document with one of the ids, or no other documents.
    """
    with updating(folder) as (index, following):
        update = _Update(index, following)
        rows = index.forward.rows(ids) if len(ids) else NO_ROWS
        if len(missing := np.flatnonzero(rows < 0)):
            first = f"'{ids[missing[0]]}'" + (f" at {places[missing[0]]}" if places else "")
            raise InputError(
                f"{len(missing):,} of {len(ids):,} ids to delete are not in {folder}, the first {first}: nothing was "
                "deleted; take them out"
            )
        rows = np.unique(rows)
        if len(rows) == len(index):
            raise InputError(f"no document would be left in {folder}: delete the folder instead")
        writer = ForwardIndexWriter(index.folder, index.tokenizer, index.forward, update.number)
        writer.close_streams()
        update.change_lucene(rows)
        return update.finish(writer, rows, carry)


def merge(
    folder: str | Path,
    progress: Callable[[Iterable[np.ndarray]], Iterable[np.ndarray]] = iter,
    adapt: Carry | None = None,
) -> UpdateReport:
    """Remove deleted documents for good; the files are then those of a new index of the others in their order.

    Args:
        adapt: writes the encodings of the next generation anew, instead of copying those of the current one.

    Raises:
        InputError: as in `updating`, or of ``adapt``.
    """
    with updating(folder) as (index, following):
        changed = index.description["number"] > index.description["base"]  # something was added or deleted
        if not changed and adapt is None:
            return UpdateReport(0, 0, len(index))
        update = _Update(index, following)
        forward = index.forward
        if not changed:
            writer = ForwardIndexWriter(index.folder, index.tokenizer, forward, update.number)
            writer.close_streams()
            update.change_lucene(NO_ROWS)
            return update.finish(writer, NO_ROWS, adapt or carry_merged)
        writer = ForwardIndexWriter(index.folder, index.tokenizer, number=update.number)
        concepts = None if forward.concepts is None else ConceptWriter(writer.files)
        for rows in progress(list(chunks(forward.live_rows, BATCH))):
            writer.copy(forward, rows)
            if concepts is not None and forward.concepts is not None and forward.concept_offsets is not None:
                concepts.copy(forward.concepts, forward.concept_offsets, rows)
        writer.close_streams()
        if concepts is not None:
            concepts.close()
        update.merge_lucene(writer.table("ids"))
        return update.finish(writer, NO_ROWS, adapt or carry_merged)


class _Update:
    """The generation after that of an index, while it is written."""

    def __init__(self, index: Index, following: NextGeneration) -> None:
        if index.lucene_folder.parent != index.folder:
            raise InputError(
                f"{index.folder} is beside the Lucene index {index.lucene_folder}, which is not changed: change that "
                f"with the program that built it, then: rerank-plugin index --lucene {index.lucene_folder} --index "
                f"{index.folder} --overwrite"
            )
        self.index, self.following = index, following
        self.number = index.description["number"] + 1
        self.lucene = dict(index.description["lucene"])
        if COMMIT_FILE not in self.lucene:
            raise InputError(f"{index.folder} has no Lucene index, which an update changes: {index.rebuild}")
        self.lucene_rows: np.ndarray = NO_ROWS
        self.lucene_files: list[str] = []

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
        parts = []
        reader = self._open_new()
        for segment, size in segment_sizes(reader).items():  # those of deleted documents alone are gone
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
        reader.close()

    def _open_new(self) -> Any:
        """A reader of the commit that was just written."""
        reader = open_reader(self.index.lucene_folder)
        self.lucene[COMMIT_FILE], files = commit_files(reader)
        self.lucene["commit"], self.lucene_files = commit_id(reader), [f"lucene/{name}" for name in files]
        return reader

    def finish(
        self, writer: ForwardIndexWriter, deleted: np.ndarray, carry: Carry, problems: Problems | None = None
    ) -> UpdateReport:
        """Write the statistics and the additions of the new generation, and switch to it."""
        before = self.index.description
        statistics = writer.finish(self.lucene_rows, deleted)
        description = {
            **{name: value for name, value in before.items() if name not in (CHECKSUM, "files")},
            **generation(self.number, writer.layout.base, writer.documents, len(writer.terms)),
            "created_by": f"rerank_plugin {__version__}",
            "fields": {field: asdict(numbers) for field, numbers in statistics.items()},
            "lucene": self.lucene,
            "left_out": [*before["left_out"], *(problems.summary(kept=False) if problems else ())],
        }
        if KNOWLEDGE in before:
            description["concepts"] = count_concepts(writer.files, writer.deleted)
        with self.following.described(description, self._files(writer)) as after:
            carry(self.index.forward, after.forward)
        added = 0 if writer.index is None else len(writer.ids) - writer.first
        return UpdateReport(added, len(deleted), writer.documents)

    def _files(self, writer: ForwardIndexWriter) -> dict[str, dict]:
        """The descriptions of the files of the new generation; of those before only what was appended is read."""
        before, layout = self.index.description["files"], writer.layout
        pieces = {f"{table}.{part}{end}" for table in SEARCHABLE for end in writer.pieces[table] for part in PIECE}
        forward = {f"{layout.folder}/{path.name}": path.stem for path in writer.files.iterdir()}
        names = [
            *(name for name, stem in forward.items() if is_appended(name) or stem in pieces or layout.end in stem),
            *(name for name in before if name.startswith(f"{KNOWLEDGE}/")),
            *self.lucene_files, layout.lucene_rows,
        ]  # fmt: skip
        return {
            name: before[name]
            if name in before and not is_appended(name)
            else describe_index_file(self.index.folder, name, before.get(name))
            for name in sorted(names)
        }


def _split(rows: np.ndarray, sizes: Iterable[int]) -> list[np.ndarray]:
    return np.split(rows, np.cumsum(list(sizes))[:-1])
