"""Adds documents to an index of shards, deletes documents, and merges, as :mod:`rerank_plugin.indexes.updating` does.

A generation has the same number in each shard, and in the whole, whose description lists those of the shards. It is
written to all shards, one after the other, before the whole switches to it: it is one for all shards or for none.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

from rerank_plugin.corpora import Document, Problems
from rerank_plugin.files.outputs import temporary_folder
from rerank_plugin.indexes.additions import Carry, carry_to_shards
from rerank_plugin.indexes.building import BATCH, check_some, distinct_batches, write_documents
from rerank_plugin.indexes.forward import NO_ROWS, FieldStatistics, chunks, together
from rerank_plugin.indexes.generation_writer import GenerationWriter, UpdateReport, described_after, described_files
from rerank_plugin.indexes.generations import NextGeneration
from rerank_plugin.indexes.index_folder import (
    Index,
    describe_generation,
    describe_index_file,
    forward_checksum,
)
from rerank_plugin.indexes.sharded_writer import PartWriter, WholeWriter, as_part, share, write_rest
from rerank_plugin.indexes.sharding import COLLECTION, REST, SHARDS, ShardedForward


class ShardedUpdate:
    """The generation after that of an index of shards, while it is written.

    Args:
        anew: whether its forward index begins anew, as a merge has it.
    """

    def __init__(self, index: Index, following: NextGeneration, anew: bool = False):
        assert isinstance(index.forward, ShardedForward)
        self.index, self.following, self.anew = index, following, anew
        self.forward: ShardedForward = index.forward
        self.parts = [GenerationWriter(shard) for shard in index.shards]
        self.writers: list[PartWriter] = []
        self.statistics: list[dict[str, FieldStatistics]] = []
        self.whole = WholeWriter(index, index.description["number"] + 1, anew)

    def add(
        self,
        documents: Iterable[Document],
        source: str,
        problems: Problems,
        carry: Carry,
        threads: int | None,
        progress: Callable[[Iterable[Document]], Iterable[Document]],
        withdrawn: Callable[[], np.ndarray],
    ) -> UpdateReport:
        """Add documents, which are read once and kept in a temporary file for each shard.

        Args:
            withdrawn: the rows that the corpus deletes, int64 [n], when all documents are read.
        """
        replaced = [NO_ROWS]
        with temporary_folder(self.index.folder / "documents") as folder:
            files = [folder / f"{number}.jsonl" for number in range(len(self.parts))]
            with ExitStack() as stack:
                streams = [stack.enter_context(open(file, "w", encoding="utf-8")) for file in files]
                for batch, hashes in distinct_batches(progress(documents), problems):
                    rows = self.forward.rows([document.id for document in batch])
                    replaced.append(rows[rows >= 0])
                    for number, some in self.whole.divided(batch, hashes):
                        streams[number].write(f"{json.dumps(some, ensure_ascii=False)}\n")
            self.whole.close_streams()
            added = len(self.whole.ids) - self.whole.first
            check_some(added, source, problems)
            deleted = np.unique(np.concatenate([*replaced, withdrawn()]))
            for number, gone in enumerate(self._of_shards(deleted)):
                self._add(number, files[number], gone, threads)
        return self._finish(added, deleted, carry, False, problems)

    def _add(self, number: int, file: Path, deleted: np.ndarray, threads: int | None) -> None:
        """Add the documents of a temporary file to a shard, and delete rows int64 [n]."""
        if not file.stat().st_size:
            self._delete(number, deleted)
            return
        part, writer = self.parts[number], self._writer(number)

        def batches() -> Iterator[list[Document]]:
            with open(file, encoding="utf-8") as lines:
                for line in lines:
                    batch = [Document(*fields) for fields in json.loads(line)]
                    yield batch
                    writer.extend(batch)

        with temporary_folder(part.index.folder / "lucene") as addition:
            metadata = write_documents(batches(), addition, threads)
            writer.close_streams()
            part.add_lucene(addition, writer, deleted, metadata)
        self._count(number, writer, deleted)

    def delete(self, rows: np.ndarray, carry: Carry, anew: bool = False) -> UpdateReport:
        """Delete rows int64 [n].

        Args:
            anew: whether ``carry`` writes all stores anew.
        """
        self.whole.close_streams()
        for number, gone in enumerate(self._of_shards(rows)):
            self._delete(number, gone)
        return self._finish(0, rows, carry, anew)

    def _delete(self, number: int, deleted: np.ndarray) -> None:
        writer = self._writer(number)
        writer.close_streams()
        if len(deleted):
            self.parts[number].change_lucene(deleted)
        self._count(number, writer, deleted)

    def merge(self, carry: Carry, progress: Callable[[Iterable[np.ndarray]], Iterable[np.ndarray]]) -> UpdateReport:
        """Remove deleted documents for good."""
        for rows in progress(list(chunks(self.forward.live_rows, BATCH))):
            self.whole.copy(self.forward, rows)
        self.whole.close_streams()
        for number, part in enumerate(self.parts):
            writer, forward = self._writer(number), part.index.forward
            for rows in chunks(forward.live_rows, BATCH):
                writer.copy(forward, rows)
            writer.close_streams()
            part.merge_lucene(writer.table("ids"))
            self._count(number, writer, NO_ROWS)
        return self._finish(0, NO_ROWS, carry, True)

    def _of_shards(self, rows: np.ndarray) -> list[np.ndarray]:
        """The rows in each shard of rows int64 [n] of the whole, int64 [m]."""
        parts = {number: local for number, _, local in self.forward.by_shard(rows)}
        return [parts.get(number, NO_ROWS) for number in range(len(self.parts))]

    def _writer(self, number: int) -> PartWriter:
        return PartWriter(self.index.shards[number], self.whole)

    def _count(self, number: int, writer: PartWriter, deleted: np.ndarray) -> None:
        """Write the statistics of a shard's documents, and count them in those of the whole."""
        self.statistics.append(writer.finish(self.parts[number].lucene_rows, deleted))
        self.whole.count(number, writer)
        self.writers.append(writer)

    def _finish(
        self, added: int, deleted: np.ndarray, carry: Carry, encoded_anew: bool, problems: Problems | None = None
    ) -> UpdateReport:
        """Write the statistics and the additions of the new generation, and switch to it."""
        index, whole = self.index, self.whole
        whole.finish_whole(deleted)
        description = described_after(index, whole, together(self.statistics, whole.documents), problems)
        description["lucene"] = {**index.description["lucene"], "metadata": self._metadata()}
        files = described_files(index, whole, [])
        shared = {name: files[name] for name in (f"{whole.layout.folder}/{name}" for name in whole.shared)}
        description[SHARDS], parts = [], list[Index]()
        with ExitStack() as stack:
            for number, shard in enumerate(index.shards):
                written = self._describe_part(number, description, shared)
                parts.append(stack.enter_context(closing(shard.following(written))))
                path = shard.folder.relative_to(index.folder).as_posix()
                description[SHARDS].append({"path": path, "forward_index": forward_checksum(parts[-1].description)})
                name = f"{path}/{parts[-1].generation_file}"
                files[name] = describe_index_file(index.folder, name)
            with self.following.described(description, files, parts) as after:
                assert isinstance(after.forward, ShardedForward)
                carry(self.forward, after.forward)
                carry_to_shards(self.forward, after.forward, encoded_anew)
        return UpdateReport(added, len(deleted), whole.documents)

    def _metadata(self) -> dict[str, int]:
        """The number of documents of the collection with each field of metadata; each shard has changed it."""
        before = self.index.description["lucene"]["metadata"]
        counts = Counter[str](before)
        for part in self.parts:
            counts.update(part.lucene["metadata"])
            counts.subtract(before)
        return {name: count for name, count in sorted(counts.items()) if count}

    def _describe_part(self, number: int, whole: dict[str, Any], shared: dict[str, dict]) -> bytes:
        """Write the description of a shard in the new generation.

        Args:
            whole: of the whole. shared: of the files that the shard shares with it.
        """
        part, writer = self.parts[number], self.writers[number]
        shard = part.index
        for name in shared:
            share(self.index.folder / name, shard.folder / name)
        rest = write_rest(
            shard.folder, part.number, [other.counts for place, other in enumerate(self.parts) if place != number]
        )
        if not self.anew:
            rest += [name for name in shard.description["files"] if name.startswith(f"{REST}/")]
        entries = {
            **part.description(writer, self.statistics[number]),
            "fields": whole["fields"],
            COLLECTION: as_part(whole, number, len(self.parts)),
        }
        entries["lucene"] = {**part.lucene, "metadata": whole["lucene"]["metadata"]}
        return describe_generation(shard.folder, entries, part.files(writer, rest, shared))
