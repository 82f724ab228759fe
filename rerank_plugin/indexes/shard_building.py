"""Builds an index of shards (:mod:`rerank_plugin.indexes.sharding`) by a process for each shard.

This process reads the corpus and hands each document to the process of its shard, which writes a segment and a Lucene
index, as a single index has them. Then one commit joins the segments. The processes are new programs, not forks: each
starts a Java of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Document, Problems
from rerank_plugin.files.outputs import replacing_folder
from rerank_plugin.indexes.building import BuildReport, check_some, distinct_batches, finish_build
from rerank_plugin.indexes.commits import NextCommit
from rerank_plugin.indexes.index_folder import INDEX
from rerank_plugin.indexes.joining import CommitSegment
from rerank_plugin.indexes.locations import Location
from rerank_plugin.indexes.sharding import shard_of
from rerank_plugin.java.jvm import OPTIONS
from rerank_plugin.text.tokenizer import PLAIN, Tokenizer

MOST_SHARDS = 256
LAG = 3  # batches that may wait for a process: limits memory
HEAP = "-Xmx1g"  # of the Java of each process, unless the user sets one: Lucene buffers 256 MB


def build_shards(
    documents: Iterable[Document],
    folder: Path,
    source: str,
    problems: Problems,
    shards: int,
    overwrite: bool = False,
    progress: Callable[[Iterable[Document]], Iterable[Document]] = iter,
    tokenizer: Tokenizer = PLAIN,
    location: Location | None = None,
    term_vectors: bool = False,
) -> BuildReport:
    """Build an index of shards; arguments as in :func:`~rerank_plugin.indexes.building.build_single`.

    Args:
        shards: their number, at most `MOST_SHARDS`.
        location: whose machines build the shards, and all see ``folder``; None builds them here.

    Raises:
        InputError: as in ``build_single``; there are too many shards; a shard has no document; or a process died.
    """
    if not 1 <= shards <= MOST_SHARDS:
        raise InputError(f"{shards} shards: take 1 to {MOST_SHARDS}")
    build = ShardBuilder if location is None else location.builder(LAG)
    with replacing_folder(folder, INDEX, overwrite) as building:
        commit = NextCommit(building, shards=shards)
        settings = {"stemmer": tokenizer.settings.get("stemmer"), "term_vectors": term_vectors}
        numbers = [np.zeros(0, np.uint16)]
        with ExitStack() as stack:
            builders = [
                stack.enter_context(build(commit.segment_folder(shard), building / update.path, settings))
                for shard, update in enumerate(commit.lucene)
            ]
            for batch, hashes in distinct_batches(progress(documents), problems):
                numbers.append(shard_of(hashes, shards))
                for shard in np.unique(numbers[-1]).tolist():
                    builders[shard].add([batch[place] for place in np.flatnonzero(numbers[-1] == shard).tolist()])
            of_rows = np.concatenate(numbers)
            _check_filled(np.bincount(of_rows, minlength=shards), source, problems)
            for builder in builders:
                builder.finish()
        parts = [
            CommitSegment(commit.written_segment(shard), shard, np.flatnonzero(of_rows == shard))
            for shard in range(shards)
        ]
        for segment, shard, rows in parts:
            if len(segment) != len(rows):
                raise RuntimeError(f"shard {shard} holds {len(segment)} documents, expected {len(rows)}")
        return finish_build(commit, parts, source, tokenizer, problems, term_vectors)


def _check_filled(counts: np.ndarray, source: str, problems: Problems) -> None:
    check_some(int(counts.sum()), source, problems)
    if len(empty := np.flatnonzero(counts == 0)):
        raise InputError(
            f"{len(empty)} of {len(counts)} shards would hold none of the {counts.sum():,} documents: take fewer shards"
        )


class ShardBuilder:
    """A process that builds a shard; batches are written to it by a thread."""

    def __init__(self, segment: Path, lucene: Path, settings: dict[str, Any]):
        self.shard = lucene.parent.name
        self.settings = {**settings, "segment": str(segment.absolute()), "lucene": str(lucene.absolute())}

    def __enter__(self) -> ShardBuilder:
        options = os.environ.get(OPTIONS, "")
        if "-Xmx" not in options:
            options = f"{options} {HEAP}".strip()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rerank_plugin.indexes.shard_worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, OPTIONS: options}, start_new_session=True, text=True, encoding="utf-8",
        )  # fmt: skip  # a session of its own: Ctrl-C is for this process, which then ends the others
        self.executor, self.waiting = ThreadPoolExecutor(1), list[Future[None]]()
        self._submit(self.settings)
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
            f"the process that builds {self.shard} of the shards ended with status {self.process.wait()}: "
            "nothing was written; see its messages, and build again"
        )
