"""The click log: what was shown and what was clicked on, in the columns that the clicks command reads, and more.

Besides those of `rerank_plugin.clicks.logs`, a line has:

    position    rank at which the document was shown, from 1 on
    session     the session's id, salted anew by each process
    time        of the click, UTC, as 2026-01-31T12:00:00+00:00
    dwell       seconds that the clicked document was open, if they are known
    index       name of the index

A line is one document that was shown. The first click on a list logs all of its documents; the next ones in the same
session log a line without an impression each.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from datetime import datetime, timezone
from hashlib import blake2b
from io import FileIO
from itertools import count
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from rerank_plugin.base.errors import InputError
from rerank_plugin.clicks import logs as click_logs
from rerank_plugin.files.outputs import FileKind, check_free, is_packed, is_still, open_locked
from rerank_plugin.files.text_files import first_line

HEADER = ("\t".join((*click_logs.COLUMNS, "position", "session", "time", "dwell", "index")) + "\n").encode()
CLICK_LOG = FileKind("a click log of the service", lambda path: first_line(path) == HEADER)
REMEMBERED = 10_000  # lists whose documents are logged already
LONGEST = 1 << 20  # bytes of what a process that died can have left of its last line


class Click(NamedTuple):
    """A click on one document of a list."""

    index: str
    query: str  # white space is single
    shown: tuple[str, ...]  # ids of the documents, from the top down
    clicked: str  # one of them
    position: int  # its rank
    session: str  # chosen by the client; it is not logged as it is
    dwell: float | None  # seconds


class ClickLog:
    """Appends to a log, whose only writer it is; the threads of the process may share it.

    A full file is renamed, ``log.tsv`` to ``log.1.tsv`` and so on, and a new one begun; so it is where somebody else
    moves the file. What a process that died left of a line is removed.

    Args:
        most: bytes after which a file is full.

    Raises:
        InputError: the file cannot be written, is something else, or has a writer.
    """

    def __init__(self, path: str | Path, most: int):
        if is_packed(Path(path)):
            raise InputError(f"{path}: a click log is written as plain text: leave out .gz")
        self.path, self.most = check_free(path, CLICK_LOG, overwrite=True), most
        self.salt, self.lock = secrets.token_bytes(16), Lock()
        self.logged: dict[int, None] = {}  # hashes of lists, the oldest first
        self.file = self._opened()

    def _opened(self) -> FileIO:
        file = open_locked(check_free(self.path, CLICK_LOG, overwrite=True))
        size = file.seek(0, os.SEEK_END)
        start = file.seek(max(0, size - LONGEST))
        file.truncate(start + file.read().rfind(b"\n") + 1)
        raw: FileIO = file.detach()
        if raw.seek(0, os.SEEK_END) == 0:
            raw.write(HEADER)
        return raw

    def append(self, click: Click) -> None:
        """Log a click, whole or not at all.

        Raises:
            OSError: the disk is full, for example.
            InputError: as when the log was opened, where a new file has to be begun.
        """
        session = blake2b(click.session.encode(), key=self.salt, digest_size=8).hexdigest()
        with self.lock:
            shown = hash((session, click[:3]))
            lines = "".join(_lines(click, session, shown not in self.logged)).encode()
            size = self.file.tell()
            if size > len(HEADER) and size + len(lines) > self.most:
                self._move_away()
            if not is_still(self.file.fileno(), self.path):
                full, self.file = self.file, self._opened()
                full.close()
            self._write(lines)
            self.logged[shown] = None
            if len(self.logged) > REMEMBERED:
                del self.logged[next(iter(self.logged))]

    def _move_away(self) -> None:
        names = (self.path.with_name(f"{self.path.stem}.{number}{self.path.suffix}") for number in count(1))
        self.path.rename(next(name for name in names if not os.path.lexists(name)))

    def _write(self, lines: bytes) -> None:
        before = self.file.tell()
        try:
            if self.file.write(lines) < len(lines):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            self.file.seek(before)
            self.file.truncate()
            raise

    def close(self) -> None:
        """Let another writer have the file."""
        self.file.close()


def _lines(click: Click, session: str, first: bool) -> Iterator[str]:
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    for position, document in enumerate(click.shown, click.position - click.shown.index(click.clicked)):
        if (clicked := document == click.clicked) or first:
            dwell = click.dwell if clicked and click.dwell is not None else ""
            values = (
                click.query, document, int(first), int(clicked), 0, 0, position, session, now, dwell, click.index
            )  # fmt: skip
            yield "\t".join(map(str, values)) + "\n"
