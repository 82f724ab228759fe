"""Reads files of a mirror in processes of their own: XML takes a third of the CPU seconds of indexing.

A process (:mod:`rerank_plugin.pubmed.reading_worker`) is a new program, not a fork: this one may have a Java.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document
from rerank_plugin.corpora import Problems
from rerank_plugin.corpora.records import Deletion, DocumentStream


def readers(of_files: Iterable[Sequence[Path]]) -> Generator[Reader]:
    """A reader for each group of files, whose process ends with the next step.

    That of the next group is started before: it reads some batches, which wait.
    """
    started = deque[Reader]()
    try:
        for paths in of_files:
            started.append(Reader(paths))
            if len(started) > 1:
                yield started[0]
                started.popleft().close()
        yield from started
    finally:
        for reader in started:
            reader.close()


class Reader:
    """A process that reads files."""

    def __init__(self, paths: Sequence[Path]):
        self.paths, self._states = paths, _states(paths)
        command = [sys.executable, "-m", "rerank_plugin.pubmed.reading_worker", *map(str, paths)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True, encoding="utf-8"
        )  # a session of its own: Ctrl-C is for this process, which then ends the other

    def close(self) -> None:
        self._process.kill()  # no effect on one that has finished
        with self._process:
            pass

    def documents(self, problems: Problems) -> DocumentStream:
        """The documents and deletions, as :func:`rerank_plugin.corpora.pubmed_xml.documents` gives them.

        Raises:
            InputError: a file changed since the process was started; from the stream: as in ``pubmed_xml.documents``,
                or the process died.
        """
        for path, before, now in zip(self.paths, self._states, _states(self.paths)):
            if before != now:
                raise InputError(f"{path}: the file changed while it was read: start again when it is complete")
        deletions: list[Deletion] = []
        return DocumentStream(self._read(deletions, problems), [deletions])

    def _read(self, deletions: list[Deletion], problems: Problems) -> Iterator[Document]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):
                break
            read = json.loads(line)
            if isinstance(read, dict):
                problems.include(read["counts"], read["examples"])
                if read["error"] is not None:
                    raise InputError(read["error"])
                return
            named, batch = read
            deletions += [Deletion(*one) for one in named]
            yield from (Document(*fields) for fields in batch)
        status = self._process.wait()
        raise InputError(f"{self.paths[0]}: the process that reads it ended with status {status}: see its messages")


def _states(paths: Iterable[Path]) -> list[tuple[int, int, int] | None]:
    """What tells a file from another that took its place; None without a file."""
    states = (os.stat(path) if path.exists() else None for path in paths)
    return [state and (state.st_ino, state.st_size, state.st_mtime_ns) for state in states]
