"""Adds documents to an index, deletes documents, and merges: each writes a new generation, then switches to it.

Added documents get new rows behind the others, and Lucene segments of their own. A deleted document keeps its row,
which no statistic counts any more; one that is added again is deleted first. Merging writes the documents that are left
in their order, as a new index of them would be written, and lets Lucene remove deleted documents from its segments.
Encodings and other additions are written before the switch (:mod:`rerank_plugin.indexes.additions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Document, Problems
from rerank_plugin.files.outputs import temporary_folder
from rerank_plugin.indexes.additions import Carry, OpenEncoder, carry, carry_added, carry_merged
from rerank_plugin.indexes.building import BATCH, Builder, write_documents
from rerank_plugin.indexes.forward import NO_ROWS, ForwardIndexWriter, chunks
from rerank_plugin.indexes.generation_writer import GenerationWriter, UpdateReport
from rerank_plugin.indexes.generations import NextGeneration, updating
from rerank_plugin.indexes.index_concepts import ConceptWriter, count_concepts
from rerank_plugin.indexes.index_folder import APPLIED, KNOWLEDGE, Index
from rerank_plugin.indexes.revisions import Revisions
from rerank_plugin.indexes.sharded_updates import ShardedUpdate


def add(
    folder: str | Path,
    documents: Iterable[Document],
    source: str,
    problems: Problems,
    open_encoder: OpenEncoder,
    threads: int | None = None,
    progress: Callable[[Iterable[Document]], Iterable[Document]] = iter,
    applied: Mapping[str, Any] | None = None,
) -> UpdateReport:
    """Add documents to an index. A document whose id the index holds replaces the older one.

    A corpus may delete, too, or only delete, and an older version of an article does not replace a newer one
    (:mod:`rerank_plugin.indexes.revisions`). Arguments as in :func:`~rerank_plugin.indexes.building.build_index`: of
    equal ids the first is added.

    Args:
        open_encoder: opens the model of each encoding that the index has.
        applied: the caller's record of what the corpus is, under `APPLIED` in the description of the new generation,
            which is written even if nothing else changes; None keeps the record of the generation before.

    Raises:
        InputError: as in `updating`; there is no document to add, and nothing is recorded; or the index was annotated
            otherwise than this program annotates.
    """
    entries = {} if applied is None else {APPLIED: applied}
    with updating(folder, entries) as (index, following), closing(Revisions(index, documents)) as revisions:
        current = revisions.current()
        if (first := next(current, None)) is None and (revisions.any or entries):
            return revisions.report(_delete(index, following, revisions.withdrawn()))
        documents = chain(() if first is None else (first,), current)
        carrying = partial(carry_added, open_encoder=open_encoder, threads=threads)
        if index.shards:
            update_of_shards = ShardedUpdate(index, following)
            added = update_of_shards.add(documents, source, problems, carrying, threads, progress, revisions.withdrawn)
            return revisions.report(added)
        update = GenerationWriter(index)
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
            deleted = np.unique(np.concatenate([*replaced, revisions.withdrawn()]))
            update.add_lucene(addition, builder.forward, deleted, metadata)
        return revisions.report(_finish(update, following, builder.forward, deleted, carrying, problems))


def delete(folder: str | Path, ids: Sequence[str], places: Sequence[str] | None = None) -> UpdateReport:
    """Delete the documents with these ids from an index.

    Args:
        places: of the ids, such as ``file:3``, for messages.

    Raises:
        InputError: as in `updating`; the index has no document with one of the ids, or no other documents.
    """
    with updating(folder) as (index, following):
        rows = index.forward.rows(ids) if len(ids) else NO_ROWS
        if len(missing := np.flatnonzero(rows < 0)):
            first = f"'{ids[missing[0]]}'" + (f" at {places[missing[0]]}" if places else "")
            raise InputError(
                f"{len(missing):,} of {len(ids):,} ids to delete are not in {folder}, the first {first}: nothing was "
                "deleted; take them out"
            )
        return _delete(index, following, np.unique(rows))


def _delete(index: Index, following: NextGeneration, rows: np.ndarray) -> UpdateReport:
    """Delete rows, int64 [n], increasing; with neither rows nor entries, the generation stays."""
    if len(rows) == len(index):
        raise InputError(f"no document would be left in {index.folder}: delete the folder instead")
    if not len(rows) and not following.entries:
        return UpdateReport(0, 0, len(index))
    if index.shards:
        return ShardedUpdate(index, following).delete(rows, carry)
    update = GenerationWriter(index)
    writer = ForwardIndexWriter(index.folder, index.tokenizer, index.forward, update.number)
    writer.close_streams()
    update.change_lucene(rows)
    return _finish(update, following, writer, rows, carry)


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
        carrying = adapt or carry_merged
        if index.shards:
            sharded = ShardedUpdate(index, following, anew=changed)
            return sharded.merge(carrying, progress) if changed else sharded.delete(NO_ROWS, carrying, anew=True)
        update, forward = GenerationWriter(index), index.forward
        if not changed:
            writer = ForwardIndexWriter(index.folder, index.tokenizer, forward, update.number)
            writer.close_streams()
            update.change_lucene(NO_ROWS)
            return _finish(update, following, writer, NO_ROWS, carrying)
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
        return _finish(update, following, writer, NO_ROWS, carrying)


def _finish(
    update: GenerationWriter,
    following: NextGeneration,
    writer: ForwardIndexWriter,
    deleted: np.ndarray,
    carry: Carry,
    problems: Problems | None = None,
) -> UpdateReport:
    """Write the statistics and the additions of the new generation, and switch to it."""
    index, statistics = update.index, writer.finish(update.lucene_rows, deleted)
    description = update.description(writer, statistics, problems)
    if KNOWLEDGE in description:
        description["concepts"] = count_concepts(writer.files, writer.deleted)
    with following.described(description, update.files(writer)) as after:
        carry(index.forward, after.forward)
    added = 0 if writer.index is None else len(writer.ids) - writer.first
    return UpdateReport(added, len(deleted), writer.documents)
