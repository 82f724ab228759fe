"""Writes a run query by query, so that an interrupted search can be resumed."""

from __future__ import annotations

import gzip
import json
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.outputs import (
    OutputLockedError,
    check_free,
    is_packed,
    is_stream,
    locked,
    open_locked,
    open_stream,
    sync,
    writing_to,
)
from rerank_plugin.files.runs import JOURNAL, PART, RUN, encode, format_ranked
from rerank_plugin.files.text_files import first_line

log = logging.getLogger(__name__)


class RunWriter:
    """A run that is being written.

    Finished queries are in ``PATH.part``, which is locked for this process; of a run that is gzipped, as a gzip member
    each. ``PATH.part.journal`` begins with a line of JSON: the settings, and whether a run may be replaced. Then it has
    a line for each finished query: the length of PATH.part after it, a checksum of all queries and lines up to it, and
    the query's id, with tabs between them. A query is finished once its journal line is complete; on resuming, both
    files are truncated after the last query up to which everything has its checksum. Closing renames PATH.part to PATH
    and removes the journal; leaving the ``with`` block by an exception keeps both files. To a device or a pipe the run
    is written directly.

    Args:
        settings: JSON values that must be equal when the run is resumed.
        resume: continue PATH.part if it exists, and replace the run that its search was to replace; a run that is
            already finished stays unchanged.
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
        self.is_stream, self.is_packed = is_stream(self.path), is_packed(self.path)
        self._file: BinaryIO | None = None
        self._journal: BinaryIO | None = None
        self._link = b""
        settings = json.loads(json.dumps({**settings, "tag": tag}, default=str))
        with writing_to(self.path):
            self.complete = resume and self._is_complete(settings)
            if self.is_stream:
                self._file = open_stream(self.path)
            elif not self.complete:
                self._open(settings, resume)

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
        if self.is_packed and not self.is_stream:
            block = gzip.compress(block, mtime=0)
        with writing_to(self.path):
            # The block must reach the operating system before its journal line.
            self._file.write(block)
            self._file.flush()
            if self._journal is not None:
                end, name = self._file.tell(), query_id.encode()
                self._link = _linked(self._link, end, name, block)
                self._journal.write(b"%d\t%s\t%s\n" % (end, self._link, name))
                self._journal.flush()
        self.finished.add(query_id)

    def rename(self) -> None:
        """Give the run its final name. Its journal tells a resumed search that it is finished, until it is closed."""
        if self._journal is not None and self._file is not None and not self.complete:
            with writing_to(self.path):
                os.fsync(self._file.fileno())
                target = check_free(self.path, RUN, self.overwrite)
                os.replace(self.part, target)  # while it is still locked
                sync([target.parent])
            self.complete = True

    def close(self) -> None:
        """Give the run its final name and remove the journal."""
        try:
            self.rename()
            if self._journal is not None:
                with writing_to(self.path):
                    self.journal_path.unlink()
            elif self.complete:  # a process that died after it had renamed the part leaves the journal
                with suppress(OSError, OutputLockedError), locked(self.journal_path):
                    if _begun(_lines(self.journal_path.read_bytes())[0]):
                        self.journal_path.unlink()
        finally:
            self._close_files()

    def _is_complete(self, settings: Mapping[str, Any]) -> bool:
        """Whether a run without a part exists; an `InputError` if the file is not a run, or has another tag.

        If a run is to be replaced, it is complete only if its journal is still there, which has the same settings.
        """
        if self.is_stream or self.part.exists() or not self.path.is_file() or not self.path.stat().st_size:
            return False
        if self.overwrite:
            header, *entries = _lines(self.journal_path.read_bytes()) if self.journal_path.is_file() else [b""]
            return bool(entries) and _begun(header).get("settings") == settings
        check_free(self.path, RUN, overwrite=True)
        if (tag := first_line(self.path).decode().split()[-1]) != self.tag:
            raise InputError(
                f"{self.path} is a finished run with the tag {tag} instead of {self.tag}: choose another output"
            )
        return True

    def _open(self, settings: Mapping[str, Any], resume: bool) -> None:
        """Open part and journal, to resume them or to start over."""
        check_free(self.path, RUN, overwrite=True)
        self.part.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._file = open_locked(self.part)
            self._journal = open_locked(self.journal_path)
            journal, size = self._journal.read(), os.fstat(self._file.fileno()).st_size
            header, *entries = _lines(journal)
            foreign_journal = journal[:1] not in (b"", b"{")
            if foreign_journal or (size and not header):
                path = self.journal_path if foreign_journal else self.part
                raise InputError(f"{path} was not left by an interrupted search: move it away")
            self.overwrite = self.overwrite or (resume and _begun(header).get("overwrite") is True)
            check_free(self.path, RUN, self.overwrite)  # now that no other process can finish it
            if not (resume or self.overwrite) and size:
                raise InputError(
                    f"{self.part} holds {len(entries)} queries of an interrupted search: resume or overwrite it"
                )
            if resume and header:
                self._compare(header, settings)
                self._truncate(header, entries)
            else:
                # The part first: without its journal it would not be known as the part of a search.
                _cut(self._file, 0)
                _cut(self._journal, 0)
                self._journal.write(json.dumps({"overwrite": self.overwrite, "settings": settings}).encode() + b"\n")
                self._journal.flush()
        except BaseException:
            for file, path in ((self._file, self.part), (self._journal, self.journal_path)):
                if file is not None and not os.fstat(file.fileno()).st_size:  # created here and empty
                    path.unlink()
            self._close_files()
            raise

    def _truncate(self, header: bytes, entries: list[bytes]) -> None:
        """Truncate both files after the last query up to which all are as they were written."""
        assert self._file is not None and self._journal is not None, "both are open"
        end, kept = 0, len(header) + 1
        for entry in entries:
            # After a power failure the journal can be ahead of the part, or either damaged.
            offset, _, rest = entry.partition(b"\t")
            link, _, query_id = rest.partition(b"\t")
            if not (offset.isdigit() and len(offset) < 20 and int(offset) >= end):
                break
            block = self._file.read(min(int(offset) - end, os.fstat(self._file.fileno()).st_size))
            if link != _linked(self._link, end + len(block), query_id, block):
                break
            end, self._link = int(offset), link
            kept += len(entry) + 1
            self.finished.add(query_id.decode())
        if len(self.finished) < len(entries):
            log.warning(
                "%s: of %d finished queries the first %d are as they were written: the others are searched again",
                *(self.part, len(entries), len(self.finished)),
            )
        _cut(self._file, end)
        _cut(self._journal, kept)

    def _compare(self, header: bytes, settings: Mapping[str, Any]) -> None:
        """An `InputError` unless the settings equal those in the journal's header."""
        begun = _begun(header).get("settings")
        if not isinstance(begun, dict):
            raise InputError(f"{self.journal_path}: damaged, or of an earlier version: overwrite the run to start over")
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
                with suppress(OSError):  # of what could not be flushed, which was an error before
                    file.close()
        self._file = self._journal = None


def replaces(path: str | Path) -> bool:
    """Whether an interrupted search left a part at ``path`` that is to replace an existing run."""
    part, journal = (Path(os.path.realpath(path) + suffix) for suffix in (PART, JOURNAL))
    with suppress(OSError):
        return part.exists() and _begun(_lines(journal.read_bytes())[0]).get("overwrite") is True
    return False


def _lines(journal: bytes) -> list[bytes]:
    """The header of a journal and its entries, without an incomplete last line."""
    return journal.split(b"\n")[:-1] or [b""]


def _begun(header: bytes) -> dict:
    """The header of a journal; empty if it is damaged."""
    with suppress(ValueError, RecursionError):
        begun = json.loads(header)
        if isinstance(begun, dict):
            return begun
    return {}


def _linked(previous: bytes, end: int, query_id: bytes, block: bytes) -> bytes:
    """The checksum of a finished query and, with that of the ``previous`` one, of all up to it."""
    return blake2b(b"%s\t%d\t%s\n%s" % (previous, end, query_id, block), digest_size=16).hexdigest().encode()


def _cut(file: BinaryIO, size: int) -> None:
    """Truncate a file to ``size`` bytes and continue writing there."""
    file.truncate(size)
    file.seek(size)
