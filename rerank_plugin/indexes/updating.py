"""Adds documents to an index, deletes documents, and merges: each writes new files, then a commit that names them.

*Add* writes a segment, and a Lucene index whose segments become Lucene's; a document that replaces another gets a new
row, and the other one is deleted. *Delete* writes a commit alone: a deleted document keeps its row, which no statistic
counts any more. *Merge* copies the documents that are left into one segment, as a new index of them would have it, and
lets Lucene remove deleted documents. In an index of shards each of them does so in every shard.

Small segments are merged when there are `MOST` in a shard, and Lucene's then. No score changes by that: Lucene keeps
its deleted documents.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Document, Problems
from rerank_plugin.files.outputs import temporary_folder
from rerank_plugin.indexes.building import BATCH, Batches, check_some, distinct_batches, write_part
from rerank_plugin.indexes.commits import NextCommit, next_commit
from rerank_plugin.indexes.derived import Adapt, OpenEncoder, Renumbered, carry
from rerank_plugin.indexes.index_folder import APPLIED, LAST_DELETED, TERM_VECTORS, Index
from rerank_plugin.indexes.joining import CommitSegment
from rerank_plugin.indexes.revisions import Revisions, UpdateReport
from rerank_plugin.indexes.rows import NO_ROWS
from rerank_plugin.indexes.segment import Segment, SegmentWriter, chunks
from rerank_plugin.indexes.sharding import shard_of

log = logging.getLogger(__name__)

MOST = 8  # segments of a shard, at which small ones are merged
SMALLER = 2  # a segment is merged with those behind it if it is at most so many times as large as all of them


def add(
    folder: str | Path,
    documents: Iterable[Document],
    source: str,
    problems: Problems,
    open_encoder: OpenEncoder,
    threads: int | None = None,
    progress: Callable[[Iterable[Document]], Iterable[Document]] = iter,
    applied: Mapping[str, Any] | None = None,
    merge_small: bool = True,
) -> UpdateReport:
    """Add documents to an index. A document whose id the index holds replaces the older one.

    A corpus may delete, too, or only delete, and an older version of an article does not replace a newer one
    (:mod:`rerank_plugin.indexes.revisions`). Arguments as in :func:`~rerank_plugin.indexes.building.build_single`: of
    equal ids the first is added.

    Args:
        open_encoder: opens the model of each encoding that the index has.
        applied: the caller's record of what the corpus is, under `APPLIED` in the description of the new commit,
            which is written even if nothing else changes; None keeps the record of the commit before.
        merge_small: whether to merge small segments where there are many.

    Raises:
        InputError: as in `next_commit`; there is no document to add, and nothing is recorded; or the index was
            annotated otherwise than this program annotates.
    """
    with next_commit(folder) as commit, closing(Revisions(_open(commit), documents)) as revisions:
        commit.entries |= {} if applied is None else {APPLIED: dict(applied)}
        current = revisions.current()
        if (first := next(current, None)) is None and (revisions.any or commit.entries):
            return revisions.report(_delete(commit, revisions.withdrawn()))
        documents = chain(() if first is None else (first,), current)
        index, replaced = _open(commit), [NO_ROWS]

        def batches() -> Iterator[tuple[list[Document], np.ndarray]]:
            for batch, hashes in distinct_batches(progress(documents), problems):
                rows = index.forward.rows([document.id for document in batch])
                replaced.append(rows[rows >= 0])
                yield batch, hashes

        knowledge = index.forward.knowledge
        annotator = None if knowledge is None else knowledge.new_annotator(threads)
        new, parts = dict[int, tuple[Path, Segment]](), list[CommitSegment]()
        with temporary_folder(index.folder / "added") as temporary:
            rows_of = _Division(temporary, commit.shards or 1)
            for shard, some in rows_of.divided(batches()):
                lucene = temporary / f"lucene{shard}"
                folders = commit.segment_folder(shard), lucene
                vectors = commit.lucene_description[TERM_VECTORS]
                write_part(*folders, some, index.tokenizer, annotator, vectors)
                segment = commit.written_segment(shard)
                if len(segment):
                    new[shard] = lucene, segment
            count = sum(len(segment) for _, segment in new.values())
            check_some(count, source, problems)
            gone = np.unique(np.concatenate([*replaced, revisions.withdrawn()]))
            commit.change_lucene(gone, new)
            parts = [
                CommitSegment(segment, shard, len(index.forward) + rows_of.rows(shard, len(segment)))
                for shard, (_, segment) in new.items()
            ]
        entries = {"left_out": [*index.description["left_out"], *problems.summary(kept=False)]}
        report = _finish(commit, parts, gone, entries, open_encoder=open_encoder, threads=threads)
        report = revisions.report(report)
    if merge_small:
        try:
            _merge_small(folder)
        except InputError as error:
            log.warning("the documents were added, but small segments were not merged: %s", error)
    return report


def _open(commit: NextCommit) -> Index:
    assert commit.before is not None, "updates are of an index"
    return commit.before


class _Division:
    """Added documents by shard: of one shard as they come, of several from temporary files."""

    def __init__(self, folder: Path, shards: int):
        self.folder, self.shards = folder, shards
        self.numbers = [np.zeros(0, np.uint16)]

    def divided(self, batches: Batches) -> Iterator[tuple[int, Batches]]:
        """Each shard that gets documents, with these."""
        if self.shards == 1:
            yield 0, batches
            return
        files = [self.folder / f"{shard}.jsonl" for shard in range(self.shards)]
        streams = [open(file, "w", encoding="utf-8") for file in files]
        try:
            for batch, hashes in batches:
                assert hashes is not None, "distinct documents have hashes"
                self.numbers.append(shard_of(hashes, self.shards))
                for shard in np.unique(self.numbers[-1]).tolist():
                    some = [batch[place] for place in np.flatnonzero(self.numbers[-1] == shard).tolist()]
                    streams[shard].write(f"{json.dumps(some, ensure_ascii=False)}\n")
        finally:
            for stream in streams:
                stream.close()
        for shard, file in enumerate(files):
            if file.stat().st_size:
                yield shard, _read(file)

    def rows(self, shard: int, count: int) -> np.ndarray:
        """Which of all added documents are in a shard, which has ``count`` of them, int64 [count]."""
        return np.arange(count) if self.shards == 1 else np.flatnonzero(np.concatenate(self.numbers) == shard)


def _read(file: Path) -> Iterator[tuple[list[Document], None]]:
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            yield [Document(*fields) for fields in json.loads(line)], None


def delete(folder: str | Path, ids: Sequence[str], places: Sequence[str] | None = None) -> UpdateReport:
    """Delete the documents with these ids from an index.

    The ids that were deleted last may be given again: a command that was ended after it had deleted them is repeated.

    Args:
        places: of the ids, such as ``file:3``, for messages.

    Raises:
        InputError: as in `next_commit`; the index has no document with one of the ids, or no other documents.
    """
    with next_commit(folder) as commit:
        rows = _open(commit).forward.rows(ids) if len(ids) else NO_ROWS
        these = sha256("\n".join(sorted({*ids})).encode()).hexdigest()
        if len(missing := np.flatnonzero(rows < 0)) and _open(commit).description.get(LAST_DELETED) != these:
            first = f"'{ids[missing[0]]}'" + (f" at {places[missing[0]]}" if places else "")
            raise InputError(
                f"{len(missing):,} of {len(ids):,} ids to delete are not in {folder}, the first {first}: nothing was "
                "deleted; take them out"
            )
        rows = np.unique(rows[rows >= 0])
        commit.entries |= {LAST_DELETED: these} if len(rows) else {}
        return _delete(commit, rows)


def _delete(commit: NextCommit, rows: np.ndarray) -> UpdateReport:
    """Delete rows, int64 [n], increasing; with neither rows nor entries, the commit stays."""
    index = _open(commit)
    if len(rows) == len(index):
        raise InputError(f"no document would be left in {index.folder}: delete the folder instead")
    if not len(rows) and not commit.entries:
        return UpdateReport(0, 0, len(index))
    commit.change_lucene(rows)
    return _finish(commit, [], rows)


def _finish(
    commit: NextCommit,
    new: Sequence[CommitSegment],
    gone: np.ndarray,
    entries: Mapping[str, object] = {},
    adapt: Adapt | None = None,
    open_encoder: OpenEncoder | None = None,
    threads: int | None = None,
) -> UpdateReport:
    """Describe a commit of more segments and fewer documents, write what is derived, and switch to it."""
    forward = _open(commit).forward
    deleted = np.union1d(np.asarray(forward.deleted, np.int64), gone)
    joined = commit.describe([*commit.parts, *new], len(new), entries, gone, deleted)
    with commit.switching() as after:
        if adapt is None:
            carry(forward, after.forward, open_encoder=open_encoder, threads=threads)
        else:
            adapt(forward, after.forward)
    return UpdateReport(sum(len(part.rows) for part in new), len(gone), joined.documents)


def merge(
    folder: str | Path,
    progress: Callable[[Iterable[np.ndarray]], Iterable[np.ndarray]] = iter,
    adapt: Adapt | None = None,
) -> UpdateReport:
    """Remove deleted documents for good; the arrays are then those of a new index of the others in their order.

    Args:
        adapt: writes the encodings of the next commit anew, instead of copying those of the current one.

    Raises:
        InputError: as in `next_commit`, or of ``adapt``.
    """
    with next_commit(folder) as commit:
        index = _open(commit)
        segments = len(index.forward.segments)
        if segments > (commit.shards or 1) or len(index.forward.deleted):
            return _merge(commit, progress, adapt)
        if adapt is None:
            return UpdateReport(0, 0, len(index))
        return _finish(commit, [], NO_ROWS, adapt=adapt)


def _merge_small(folder: str | Path) -> None:
    """Merge the last segments of each shard into one where a shard has `MOST`, but none of the first ones.

    A commit's segments go together. Of the commits, the first whose documents are at most `SMALLER` times those of all
    later ones begins the merge, so that a document is copied the fewer times the more there are.
    """
    with next_commit(folder) as commit:
        written = Counter[int]()  # documents by the commit that has written them, in the order of rows
        segments = Counter[int]()
        for segment, shard, rows in commit.parts:
            written[int(segment.folder.name)] += len(rows)
            segments[shard] += 1
        if max(segments.values()) < MOST:
            return
        numbers, sizes = sorted(written), [written[number] for number in sorted(written)]
        small = [place for place in range(1, len(sizes) - 1) if sizes[place] <= SMALLER * sum(sizes[place + 1 :])]
        first = min([*small, len(sizes) - 2])
        most, merged = max(segments.values()), len(sizes) - first
        log.warning("%s has %d segments in a shard: those of the last %d commits are merged", folder, most, merged)
        _merge(commit, since=numbers[first])


def _merge(
    commit: NextCommit,
    progress: Callable[[Iterable[Any]], Iterable[Any]] = iter,
    adapt: Adapt | None = None,
    since: int | None = None,
) -> UpdateReport:
    """Copy the documents of segments into one of each shard, without deleted documents.

    Args:
        since: the commit that has written the first of these segments; Lucene keeps its deleted documents. None merges
            all.
    """
    index, forward = _open(commit), _open(commit).forward
    kept = [part for part in commit.parts if since is not None and int(part.segment.folder.name) < since]
    merged = [part for part in commit.parts if since is None or int(part.segment.folder.name) >= since]
    stays = np.ones(len(forward), bool)
    for _, _, rows in merged:
        stays[rows] = forward.live is None or forward.live[rows]
    numbers = np.where(stays, np.cumsum(stays) - 1, -1)  # of the rows here, in the next commit
    live = [
        np.concatenate([NO_ROWS, *(part.rows for part in merged if part.shard == shard)])
        for shard in range(commit.shards or 1)
    ]
    live = [rows[stays[rows]] for rows in live]
    new = list[CommitSegment]()
    batches = progress([(shard, some) for shard, rows in enumerate(live) for some in chunks(rows, BATCH)])
    writers = {
        shard: SegmentWriter(commit.segment_folder(shard), index.tokenizer, concepts=forward.knowledge is not None)
        for shard, rows in enumerate(live)
        if since is None or len(rows)
    }
    for shard, rows in batches:
        writers[shard].copy(forward, rows)
    for shard, writer in writers.items():
        writer.close()
        new.append(CommitSegment(commit.written_segment(shard), shard, numbers[live[shard]]))
    for shard, update in enumerate(commit.lucene):
        if since is None:
            update.merge(commit.written_segment(shard).ids, index.lucene_fields)
            continue
        update.merge_adjacent()
        update.renumber(np.cumsum(stays[forward.row_map.of_shard(shard)]) - 1)
    if since is None:
        commit.lucene_description["metadata"] = commit.filterable
    kept = [part._replace(rows=numbers[part.rows]) for part in kept]
    deleted = numbers[np.asarray(forward.deleted, np.int64)]
    joined = commit.describe([*kept, *new], len(new), {}, deleted=deleted[deleted >= 0], copied=True)
    renumbered = Renumbered(numbers, dict(enumerate(live)), len(kept))
    with commit.switching() as after:
        if adapt is None:
            carry(forward, after.forward, renumbered)
        else:
            adapt(forward, after.forward, renumbered)
    return UpdateReport(0, 0, joined.documents)
