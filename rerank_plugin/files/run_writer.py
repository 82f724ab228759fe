"""Writes a run query by query, so that an interrupted search can be resumed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from rerank_plugin.files.errors import InputError
from rerank_plugin.files.outputs import check_free, is_packed, is_stream, open_locked, replacing, unwritable
from rerank_plugin.files.runs import JOURNAL, PART, RUN, encode, format_ranked, format_ranking
from rerank_plugin.files.text_files import first_line


class RunWriter:
    """A run that is being written.

    Finished queries are in ``PATH.part``, which is locked for this process. ``PATH.part.journal`` holds the settings
    (JSON, one line) and, for each finished query, the length of PATH.part after it, a tab, and the query's id. A query
    is finished once its journal line is complete; on resuming, PATH.part is truncated after the last finished query.
    Closing renames PATH.part to PATH; leaving the ``with`` block by an exception keeps both files. To a device or
    a pipe the run is written directly, and no other file is kept.

    Args:
        settings: JSON values that must be equal when the run is resumed.
        resume: continue PATH.part if it exists; a run that is already finished stays unchanged.
        overwrite: replace an existing run, or the part of an interrupted search.

    Attributes:
        finished: ids of the finished queries, those of the resumed part included.
        complete: whether the run was already finished, so that nothing needs to be written.

    Raises:
        InputError: something exists that must not be replaced, another process writes this run, or the part to resume
            has other settings.
    """

    def __init__(
        self,
        path: str | Path,
        tag: str,
        settings: Mapping[str, Any],
        resume: bool = False,
        overwrite: bool = False,
    ):
        self.path, self.tag, self.overwrite = Path(path), tag, overwrite
        place = Path(os.path.realpath(path))
        self.part, self.journal_path = (place.with_name(place.name + end) for end in (PART, JOURNAL))
        self.finished: set[str] = set()
        self.is_stream = is_stream(self.path)
        self.complete = resume and not overwrite and self._is_complete()
        self._file: BinaryIO | None = None
        self._journal: BinaryIO | None = None
        try:
            if self.is_stream:
                self._file = open(self.path, "wb")
            elif not self.complete:
                self._open(json.loads(json.dumps({**settings, "tag": tag}, default=str)), resume)
        except OSError as error:
            raise unwritable(self.path, error) from error

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, kind, error, traceback) -> None:
        if kind is None:
            self.close()
        else:
            self._close_files()

    def write(self, query_id: str, doc_ids: Sequence[str], scores: np.ndarray) -> None:
        """Add the ranking of one query, in any order of its documents; one with no documents counts as finished.

        Raises:
            InputError: it cannot be a ranking (see :func:`~rerank_plugin.files.runs.format_ranking`), or the query is
                written already.
        """
        self._add(query_id, format_ranking(query_id, doc_ids, scores, self.tag))

    def write_ranked(self, query_id: str, doc_ids: Sequence[str], scores: np.ndarray) -> None:
        """Add the ranking of one query whose documents are already checked and in rank order.

        Raises:
            InputError: an id or the tag cannot stand in a run, or the query is written already.
        """
        self._add(query_id, format_ranked(query_id, doc_ids, scores, self.tag))

    def _add(self, query_id: str, lines: str) -> None:
        if query_id in self.finished:
            raise InputError(f"{self.path}: query {query_id} is written twice: query ids must be unique")
        block = encode(lines, query_id)
        try:
            # The block must be with the operating system before the line that vouches for it.
            self._file.write(block)
            self._file.flush()
            if self._journal is not None:
                self._journal.write(f"{self._file.tell()}\t{query_id}\n".encode())
                self._journal.flush()
        except OSError as error:
            raise unwritable(self.path, error) from error
        self.finished.add(query_id)

    def close(self) -> None:
        """Give the run its final name and remove the journal."""
        if self._file is None:
            return
        try:
            if self._journal is not None:
                os.fsync(self._file.fileno())
                place = check_free(self.path, RUN, self.overwrite)
                if is_packed(self.path):
                    self._pack()
                else:
                    os.replace(self.part, place)  # while it is still locked
                self.journal_path.unlink()
        except OSError as error:
            raise unwritable(self.path, error) from error
        finally:
            self._close_files()

    def _is_complete(self) -> bool:
        """Whether the run exists under its final name, and there is no part of an unfinished run.

        Raises:
            InputError: the file of this name is no run, or a run with another tag.
        """
        if self.is_stream or self.part.exists() or not self.path.is_file() or not self.path.stat().st_size:
            return False
        check_free(self.path, RUN, overwrite=True)
        tag = first_line(self.path).decode().split()[-1]
        if tag != self.tag:
            raise InputError(
                f"{self.path} is finished, and with the tag {tag} instead of {self.tag}: it is another run"
            )
        return True

    def _open(self, settings: dict, resume: bool) -> None:
        """Open part and journal, to resume them or to start anew."""
        check_free(self.path, RUN, self.overwrite)
        self.part.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._file = open_locked(self.part)
            check_free(self.path, RUN, self.overwrite)  # again: until now another process may have held the part
            self._journal = open_locked(self.journal_path)
            journal = self._journal.read()
            header, *entries = journal.split(b"\n")[:-1] or [b""]  # without an incomplete last line
            size = os.fstat(self._file.fileno()).st_size
            for path, foreign in (
                (self.journal_path, journal[:1] not in (b"", b"{")),
                (self.part, size and not header),
            ):
                if foreign:
                    raise InputError(f"{path} was not left by an interrupted search: move it away")
            if not (resume or self.overwrite) and size:
                raise InputError(
                    f"{self.part} holds {len(entries)} queries of an interrupted search: resume or overwrite it"
                )
            if resume and header:
                self._go_on(header, entries, settings, size)
            else:
                _cut(self._journal, 0)  # first: it must never vouch for a file it does not belong to
                _cut(self._file, 0)
                self._journal.write(json.dumps(settings).encode() + b"\n")
                self._journal.flush()
        except BaseException:
            for file, path in ((self._file, self.part), (self._journal, self.journal_path)):
                if file is not None and not os.fstat(file.fileno()).st_size:  # made here, for nothing
                    path.unlink()
            self._close_files()
            raise

    def _go_on(self, header: bytes, entries: list[bytes], settings: dict, size: int) -> None:
        """Truncate both files after the last finished query."""
        self._compare(header, settings)
        end, kept = 0, len(header) + 1
        for entry in entries:
            offset, tab, query_id = entry.partition(b"\t")
            # After a power failure the journal can be ahead of the run itself, or damaged: trust its sound beginning.
            if not (tab and query_id and offset.isdigit() and end <= int(offset) <= size):
                break
            end = int(offset)
            kept += len(entry) + 1
            self.finished.add(query_id.decode())
        _cut(self._file, end)
        _cut(self._journal, kept)

    def _compare(self, header: bytes, settings: dict) -> None:
        try:
            before = json.loads(header)
        except ValueError:
            before = None
        if not isinstance(before, dict):
            raise InputError(f"{self.journal_path}: damaged: overwrite the run to start afresh")
        differing = [
            f"{name} was {json.dumps(before.get(name))} and is {json.dumps(settings.get(name))}"
            for name in sorted(before.keys() | settings.keys())
            if before.get(name) != settings.get(name)
        ]
        if differing:
            raise InputError(
                f"{self.part}: was begun with other settings: {', '.join(differing)}: repeat its settings to go on, or "
                "overwrite it to start afresh"
            )

    def _pack(self) -> None:
        with open(self.part, "rb") as plain, replacing(self.path, RUN, self.overwrite) as packed:
            shutil.copyfileobj(plain, packed)
        self.part.unlink()

    def _close_files(self) -> None:
        for file in (self._file, self._journal):
            if file is not None:
                file.close()
        self._file = self._journal = None


def _cut(file: BinaryIO, size: int) -> None:
    """Truncate a file to ``size`` bytes and continue writing there."""
    file.truncate(size)
    file.seek(size)
