"""Writes a run query by query, so that an interrupted search can be resumed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.outputs import (
    check_free,
    is_packed,
    is_stream,
    open_locked,
    open_stream,
    replacing,
    writing_to,
)
from rerank_plugin.files.runs import JOURNAL, PART, RUN, encode, format_ranked
from rerank_plugin.files.text_files import first_line


class RunWriter:
    """A run that is being written.

    Finished queries are in ``PATH.part``, which is locked for this process. ``PATH.part.journal`` holds the settings
    (JSON, one line) and, for each finished query, the length of PATH.part after it, a tab, and the query's id. A query
    is finished once its journal line is complete; on resuming, PATH.part is truncated after the last finished query.
    Closing renames PATH.part to PATH; leaving the ``with`` block by an exception keeps both files. To a device or
    a pipe the run is written directly.

    Args:
        settings: JSON values that must be equal when the run is resumed.
        resume: continue PATH.part if it exists; a run that is already finished stays unchanged.
        overwrite: replace an existing run, or the part of an interrupted search.

    Attributes:
        finished: ids of the finished queries, those of the resumed part included.
        complete: whether the run was already finished, so that nothing needs to be written.

    Raises:
        InputError: an existing file must not be replaced, another process writes this run, or the part to resume has
            other settings.
    """

    def __init__(
        self, path: str | Path, tag: str, settings: Mapping[str, Any], resume: bool = False, overwrite: bool = False
    ):
        self.path, self.tag, self.overwrite = Path(path), tag, overwrite
        target = Path(os.path.realpath(path))
        self.part, self.journal_path = (target.with_name(target.name + suffix) for suffix in (PART, JOURNAL))
        self.finished: set[str] = set()
        self.is_stream = is_stream(self.path)
        self.complete = resume and not overwrite and self._is_complete()
        self._file: BinaryIO | None = None
        self._journal: BinaryIO | None = None
        with writing_to(self.path):
            if self.is_stream:
                self._file = open_stream(self.path)
            elif not self.complete:
                self._open(json.loads(json.dumps({**settings, "tag": tag}, default=str)), resume)

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, kind, error, traceback) -> None:
        self.close() if kind is None else self._close_files()

    def write_ranked(self, query_id: str, doc_ids: Sequence[str], scores: np.ndarray) -> None:
        """Add the ranking of a query: its documents in rank order, or none.

        Raises:
            InputError: as :func:`~rerank_plugin.files.runs.format_ranked`, or the query is written already.
        """
        assert self._file is not None, "the run is complete or closed"
        if query_id in self.finished:
            raise InputError(f"{self.path}: query {query_id} is written twice: query ids must be unique")
        block = encode(format_ranked(query_id, doc_ids, scores, self.tag), query_id)
        with writing_to(self.path):
            # The block must reach the operating system before its journal line.
            self._file.write(block)
            self._file.flush()
            if self._journal is not None:
                self._journal.write(f"{self._file.tell()}\t{query_id}\n".encode())
                self._journal.flush()
        self.finished.add(query_id)

    def close(self) -> None:
        """Give the run its final name and remove the journal."""
        if self._file is None:
            return
        with writing_to(self.path), ExitStack() as closing:
            closing.callback(self._close_files)
            if self._journal is not None:
                os.fsync(self._file.fileno())
                target = check_free(self.path, RUN, self.overwrite)
                if is_packed(self.path):
                    with open(self.part, "rb") as part, replacing(self.path, RUN, self.overwrite) as zipped:
                        shutil.copyfileobj(part, zipped)
                    self.part.unlink()
                else:
                    os.replace(self.part, target)  # while it is still locked
                self.journal_path.unlink()

    def _is_complete(self) -> bool:
        """Whether a run without a part exists; an `InputError` if the file is not a run, or has another tag."""
        if self.is_stream or self.part.exists() or not self.path.is_file() or not self.path.stat().st_size:
            return False
        check_free(self.path, RUN, overwrite=True)
        if (tag := first_line(self.path).decode().split()[-1]) != self.tag:
            raise InputError(
                f"{self.path} is a finished run with the tag {tag} instead of {self.tag}: choose another output"
            )
        return True

    def _open(self, settings: dict, resume: bool) -> None:
        """Open part and journal, to resume them or to start over."""
        check_free(self.path, RUN, self.overwrite)
        self.part.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._file = open_locked(self.part)
            check_free(self.path, RUN, self.overwrite)  # again: another process may have held the part until now
            self._journal = open_locked(self.journal_path)
            journal = self._journal.read()
            header, *entries = journal.split(b"\n")[:-1] or [b""]  # without an incomplete last line
            size = os.fstat(self._file.fileno()).st_size
            foreign_journal = journal[:1] not in (b"", b"{")
            if foreign_journal or (size and not header):
                path = self.journal_path if foreign_journal else self.part
                raise InputError(f"{path} was not left by an interrupted search: move it away")
            if not (resume or self.overwrite) and size:
                raise InputError(
                    f"{self.part} holds {len(entries)} queries of an interrupted search: resume or overwrite it"
                )
            if resume and header:
                self._compare(header, settings)
                self._truncate(header, entries, size)
            else:
                _cut(self._journal, 0)  # first: a journal must never list queries of another part
                _cut(self._file, 0)
                self._journal.write(json.dumps(settings).encode() + b"\n")
                self._journal.flush()
        except BaseException:
            for file, path in ((self._file, self.part), (self._journal, self.journal_path)):
                if file is not None and not os.fstat(file.fileno()).st_size:  # created here and empty
                    path.unlink()
            self._close_files()
            raise

    def _truncate(self, header: bytes, entries: list[bytes], size: int) -> None:
        """Truncate both files after the last finished query."""
        assert self._file is not None and self._journal is not None, "both are open"
        end, kept = 0, len(header) + 1
        for entry in entries:
            offset, tab, query_id = entry.partition(b"\t")
            # After a power failure the journal can be ahead of the run, or damaged: only its sound beginning counts.
            if not (tab and query_id and offset.isdigit() and end <= int(offset) <= size):
                break
            end = int(offset)
            kept += len(entry) + 1
            self.finished.add(query_id.decode())
        _cut(self._file, end)
        _cut(self._journal, kept)

    def _compare(self, header: bytes, settings: dict) -> None:
        """An `InputError` unless the settings equal those in the journal's header."""
        begun = None
        with suppress(ValueError, RecursionError):
            begun = json.loads(header)
        if not isinstance(begun, dict):
            raise InputError(f"{self.journal_path}: damaged: overwrite the run to start over")
        differences = [
            f"{name} was {json.dumps(begun.get(name))} and is {json.dumps(settings.get(name))}"
            for name in sorted(begun.keys() | settings.keys())
            if begun.get(name) != settings.get(name)
        ]
        if differences:
            raise InputError(
                f"{self.part}: was begun with other settings: {', '.join(differences)}: repeat its settings to resume "
                "it, or overwrite it to start over"
            )

    def _close_files(self) -> None:
        for file in (self._file, self._journal):
            if file is not None:
                file.close()
        self._file = self._journal = None


def _cut(file: BinaryIO, size: int) -> None:
    """Truncate a file to ``size`` bytes and continue writing there."""
    file.truncate(size)
    file.seek(size)
