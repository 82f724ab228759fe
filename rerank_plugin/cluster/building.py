"""Builds an index of shards (:mod:`rerank_plugin.indexes.sharding`) by a process for each shard.

This process reads the corpus and hands each document to the process of its shard, which builds an index of it as of any
corpus. Then the shards' terms are numbered anew, as a single index would number them, and get the statistics of the
whole collection. The processes are new programs, not forks: each starts a Java of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rerank_plugin import __version__
from rerank_plugin.base.errors import InputError
from rerank_plugin.cluster.config import ClusterConfig
from rerank_plugin.corpora import Document, Problems
from rerank_plugin.files.arrays import ArrayWriter, save_array
from rerank_plugin.files.checksums import CHECKSUM
from rerank_plugin.files.outputs import replacing_folder
from rerank_plugin.files.string_table import PIECE, StringTableWriter
from rerank_plugin.indexes.building import BuildReport, check_some, distinct_batches
from rerank_plugin.indexes.forward import FIELDS, ForwardIndex, Layout, field_statistics
from rerank_plugin.indexes.index_folder import (
    DESCRIPTION,
    INDEX,
    NORMALIZATION,
    Index,
    describe_files,
    describe_generation,
    describe_index_file,
    forward_checksum,
    generation,
    write_generation,
)
from rerank_plugin.indexes.lucene_reader import Counts, field_counts
from rerank_plugin.indexes.sharded_writer import RowsWriter, as_part, share, write_rest
from rerank_plugin.indexes.sharding import COLLECTION, SHARDS, shard_folder
from rerank_plugin.java.jvm import OPTIONS
from rerank_plugin.kernels.parallel import processors
from rerank_plugin.text.normalization import VERSION
from rerank_plugin.text.tokenizer import PLAIN, Tokenizer

MOST_SHARDS = 256
LAG = 3  # batches that may wait for a process: limits memory
CHUNK = 1 << 22  # tokens that are numbered at once
HEAP = "-Xmx1g"  # of the Java of each process, unless the user sets one: Lucene buffers 256 MB
FIRST = Layout()


def build_shards(
    documents: Iterable[Document],
    folder: Path,
    source: str,
    problems: Problems,
    shards: int,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Callable[[Iterable[Document]], Iterable[Document]] = iter,
    tokenizer: Tokenizer = PLAIN,
    config: ClusterConfig | None = None,
) -> BuildReport:
    """Build an index of shards; arguments as in :func:`~rerank_plugin.indexes.building.build_index`.

    Args:
        shards: their number, at most `MOST_SHARDS`.
        threads: of Lucene's indexing in all processes together; by default the number of CPU cores.
        config: the cluster whose machines build the shards, all of which see ``folder``; None builds them here.

    Raises:
        InputError: as in ``build_index``; there are too many shards; a shard has no document; or a process died.
    """
    if not 1 <= shards <= MOST_SHARDS:
        raise InputError(f"{shards} shards: take 1 to {MOST_SHARDS}")
    cores: Callable[[], int] = processors
    build: Callable[[Path, dict[str, Any]], AbstractContextManager[Any]] = _ShardBuilder
    if config is not None:
        from rerank_plugin.cluster.connection import cluster_processors, connect
        from rerank_plugin.cluster.remote_building import RemoteBuilder

        connect(config.address)
        cores, build = cluster_processors, partial(RemoteBuilder, config=config, lag=LAG)
    with replacing_folder(folder, INDEX, overwrite) as building:
        settings = {
            "source": source,
            "threads": max(1, (threads or cores()) // shards),
            "stemmer": tokenizer.settings.get("stemmer"),
        }
        folders = [building / shard_folder(number) for number in range(shards)]
        files = building / FIRST.folder
        files.mkdir(parents=True)
        arrays = ArrayWriter(files / f"{SHARDS}.npy", np.uint16), ArrayWriter(files / "places.npy", np.uint32)
        writer = RowsWriter(StringTableWriter(files, "ids", True, FIRST.end), *arrays, [0] * shards)
        with ExitStack() as stack:
            builders = [stack.enter_context(build(path, settings)) for path in folders]
            for batch, hashes in distinct_batches(progress(documents), problems):
                for number, at in writer.append([document.id for document in batch], hashes):
                    builders[number].add([batch[place] for place in at.tolist()])
            writer.ids.close()
            writer.close()
            _check_filled(writer.counts, source, problems)
            for builder in builders:
                builder.finish()
        return _Whole(building, folders, writer).write(source, tokenizer, problems)


def _check_filled(counts: np.ndarray, source: str, problems: Problems) -> None:
    check_some(int(counts.sum()), source, problems)
    if len(empty := np.flatnonzero(counts == 0)):
        raise InputError(
            f"{len(empty)} of {len(counts)} shards would hold none of the {counts.sum():,} documents: take fewer shards"
        )


class _ShardBuilder:
    """A process that builds a shard; batches are written to it by a thread."""

    def __init__(self, folder: Path, settings: dict[str, Any]):
        self.folder, self.settings = folder, settings

    def __enter__(self) -> _ShardBuilder:
        options = os.environ.get(OPTIONS, "")
        if "-Xmx" not in options:
            options = f"{options} {HEAP}".strip()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rerank_plugin.cluster.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, OPTIONS: options}, start_new_session=True, text=True, encoding="utf-8",
        )  # fmt: skip  # a session of its own: Ctrl-C is for this process, which then ends the others
        self.executor, self.waiting = ThreadPoolExecutor(1), list[Future[None]]()
        self._submit({**self.settings, "folder": str(self.folder.absolute())})
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.kill()  # no effect on one that has finished
        self.executor.shutdown(cancel_futures=True)
        with suppress(OSError):
            self.process.communicate()

    def add(self, batch: Sequence[Document]) -> None:
        self._submit(batch)
        while len(self.waiting) > LAG:
            self._wait()

    def finish(self) -> None:
        """Wait until the shard is written; an `InputError` if that failed."""
        self._submit(None)
        while self.waiting:
            self._wait()
        assert self.process.stdout is not None
        answer = self.process.stdout.readline()
        if self.process.wait() or not answer:
            self._died()
        if (error := json.loads(answer)) is not None:
            raise InputError(error)

    def _submit(self, value: Any) -> None:
        self.waiting.append(self.executor.submit(self._write, value))

    def _write(self, value: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{json.dumps(value, ensure_ascii=False)}\n")
        self.process.stdin.flush()

    def _wait(self) -> None:
        try:
            self.waiting.pop(0).result()
        except OSError:
            self._died()

    def _died(self) -> None:
        raise InputError(
            f"the process that builds {self.folder.name} of the shards ended with status {self.process.wait()}: "
            "nothing was written; see its messages, and build again"
        )


class _Whole:
    """The vocabulary and the statistics of all shards, which are then made those of each."""

    def __init__(self, building: Path, folders: Sequence[Path], writer: RowsWriter):
        self.building, self.files, self.folders = building, building / FIRST.folder, folders
        self.indexes = [Index(folder) for folder in folders]
        self.shards = [index.forward for index in self.indexes]
        self.rows = [writer.rows_of(number) for number in range(len(folders))]
        for number, (shard, rows) in enumerate(zip(self.shards, self.rows)):
            if len(shard) != len(rows):
                raise RuntimeError(f"shard {number} holds {len(shard)} documents, expected {len(rows)}")

    def write(self, source: str, tokenizer: Tokenizer, problems: Problems) -> BuildReport:
        documents = sum(map(len, self.rows))
        ids, terms = self._write_terms()
        for field in FIELDS:
            frequency = np.zeros(max(terms, 1), np.uint32)
            unique = np.zeros(documents, np.uint32)
            for shard, numbers, rows in zip(self.shards, ids, self.rows):
                frequency[numbers] += shard.document_frequency[field][: len(numbers)]
                unique[rows] = shard.unique_terms[field]
            save_array(self.files / f"df_{field}{FIRST.end}.npy", frequency)
            save_array(self.files / f"unique_{field}.npy", unique)
        titles = np.zeros(documents, np.uint32)
        for shard, rows in zip(self.shards, self.rows):
            titles[rows] = shard.title_lengths
        save_array(self.files / "title_lengths.npy", titles)
        nothing = np.zeros(0, np.uint32)
        save_array(self.files / f"deleted{FIRST.end}.npy", nothing)
        lucene_counts = list(map(self._lucene_counts, self.indexes))
        words = np.array([0, sum(int(shard.offsets[-1]) for shard in self.shards)])
        statistics = field_statistics(words, titles, nothing)
        fields = {field: asdict(numbers) for field, numbers in statistics.items()}
        whole, lucene, parts = generation(1, 1, documents, terms), self._lucene(), []
        for number, (index, numbers) in enumerate(zip(self.indexes, ids)):
            others = [counts for of, counts in enumerate(lucene_counts) if of != number]
            rest = write_rest(index.folder, 1, others)
            part = as_part(whole, number, len(self.indexes))
            # A filter's fields are those of the collection, though no document here may have one of them.
            lucene_of_part = {**index.description["lucene"], "metadata": lucene["metadata"]}
            entries = {"terms": terms, "fields": fields, "lucene": lucene_of_part, COLLECTION: part}
            parts.append({"path": shard_folder(number), "forward_index": self._join(index, numbers, entries, rest)})
        description = {
            **whole,
            "created_by": f"rerank_plugin {__version__}",
            "source": source,
            "tokenizer": tokenizer.settings,
            NORMALIZATION: VERSION,
            "fields": fields,
            "lucene": lucene,
            SHARDS: parts,
            "left_out": problems.summary(kept=False),
        }
        names = [path.relative_to(self.building).as_posix() for path in sorted(self.files.iterdir())]
        names += [f"{part['path']}/{index.generation_file}" for part, index in zip(parts, self.indexes)]
        write_generation(self.building, description, describe_files(self.building, names))
        return BuildReport(documents, terms, statistics["text"].tokens)

    def _write_terms(self) -> tuple[list[np.ndarray], int]:
        """Write the terms in the order of their first occurrence in the collection.

        Returns:
            the ids of each shard's terms, uint32 [V of the shard], and their number.
        """
        firsts = [first_occurrences(shard) for shard in self.shards]
        documents = [np.searchsorted(shard.offsets, first, "right") - 1 for shard, first in zip(self.shards, firsts)]
        positions = [
            first - shard.offsets[document].astype(np.int64)
            for shard, first, document in zip(self.shards, firsts, documents)
        ]
        rows = [rows[document] for rows, document in zip(self.rows, documents)]
        order = np.lexsort((np.concatenate(positions), np.concatenate(rows)))
        strings = [term for shard in self.shards for term in shard.terms.take(np.arange(len(shard.terms)))]
        ids: dict[str, int] = {}
        numbers = np.zeros(len(strings), np.uint32)
        for place in order.tolist():
            numbers[place] = ids.setdefault(strings[place], len(ids))
        writer = StringTableWriter(self.files, "terms", True, FIRST.end)
        writer.extend(list(ids))
        writer.close()
        return np.split(numbers, np.cumsum([len(first) for first in firsts])[:-1]), len(ids)

    def _join(self, index: Index, ids: np.ndarray, entries: dict[str, Any], rest: list[str]) -> dict[str, str]:
        """Give a shard the terms and statistics of the collection; returns the checksum of its forward index.

        Args:
            ids: of its terms, uint32 [V]. rest: the files of Lucene's counts in the other shards.
        """
        files, changed = index.folder / FIRST.folder, [f"{FIRST.folder}/tokens.npy"]
        numbered = ArrayWriter(files / "numbered.npy", np.uint32)
        tokens = index.forward.tokens
        for start in range(0, len(tokens), CHUNK):
            numbered.append(ids[tokens[start : start + CHUNK]])
        numbered.close()
        os.replace(files / "numbered.npy", files / "tokens.npy")
        tables = [f"terms.{part}.npy" for part in ("bytes", "offsets", *(f"{part}{FIRST.end}" for part in PIECE))]
        for name in (*tables, *(f"df_{field}{FIRST.end}.npy" for field in FIELDS)):
            share(self.files / name, files / name)
            changed.append(f"{FIRST.folder}/{name}")
        changed += rest
        described = {name: value for name, value in index.description.items() if name != CHECKSUM}
        listed = described.pop("files") | {name: describe_index_file(index.folder, name) for name in changed}
        index.close()
        (index.folder / DESCRIPTION).unlink()
        written = describe_generation(index.folder, {**described, **entries}, listed)
        return forward_checksum(json.loads(written))

    @staticmethod
    def _lucene_counts(index: Index) -> Counts:
        reader = index.open_lucene()
        counts = field_counts(reader, index.lucene_fields)
        reader.close()
        return counts

    def _lucene(self) -> dict[str, Any]:
        """The description of the Lucene indexes, with the metadata of all."""
        described = [index.description["lucene"] for index in self.indexes]
        counts = Counter[str]()
        for each in described:
            counts.update(each["metadata"])
        kept = {name: value for name, value in described[0].items() if name in SHARED}
        return {**kept, "path": SHARDS, "metadata": dict(sorted(counts.items()))}


SHARED = ("fields", "analyzer", NORMALIZATION, "positions", "document_vectors")  # of the Lucene indexes of all shards


def first_occurrences(index: ForwardIndex) -> np.ndarray:
    """Where each term of an index that was just built occurs first among its tokens, int64 [V].

    Its terms are numbered in the order of these places.
    """
    highest, found = -1, [np.zeros(0, np.int64)]
    for start in range(0, len(index.tokens), CHUNK):
        tokens = index.tokens[start : start + CHUNK].astype(np.int64)
        largest = np.maximum.accumulate(np.append(highest, tokens))
        found.append(np.flatnonzero(tokens > largest[:-1]) + start)
        highest = int(largest[-1])
    places = np.concatenate(found)
    if len(places) != len(index.terms):
        raise RuntimeError(f"{index.folder} numbers its terms in another order")
    return places
