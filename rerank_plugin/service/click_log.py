"""The click log: shown and clicked documents, in the columns that the clicks command reads, and five more.

After the columns of `rerank_plugin.clicks.logs`, a line has:

    position    rank at which the document was shown, from 1 on
    session     hash of the session's id, with a new salt in each process
    time        time of the click, UTC, as 2026-01-31T12:00:00+00:00
    dwell       seconds that the clicked document was open; empty if unknown
    index       name of the index

A line is one shown document. The first click on a list logs all its documents; each further click in the same session
logs one line without an impression.

The header and the lines of a click are written with another first byte, which no text in UTF-8 has, and which is then
replaced: what a killed process has written of them begins with it, and is removed when the file is opened again.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from datetime import datetime, timezone
from hashlib import blake2b
from io import BufferedRandom, FileIO
from itertools import count
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from rerank_plugin.base.errors import InputError
from rerank_plugin.clicks import logs as click_logs
from rerank_plugin.files.outputs import FileKind, check_free, is_packed, is_same_file, open_locked, writing_to
from rerank_plugin.files.text_files import first_line

HEADER = ("\t".join((*click_logs.COLUMNS, "position", "session", "time", "dwell", "index")) + "\n").encode()
MAX_LOGGED_LISTS = 10_000  # remembered lists whose documents are logged already
MAX_CLICK = 1 << 20  # bytes of a click's lines
LINE = 120  # bytes of a line, at most, besides query, ids and the name of the index
UNFINISHED = b"\xff"  # first byte of lines that are not written completely; in no text of UTF-8
CLICK_COLUMNS = slice(7, 9)  # session and time: the same in all lines of a click


def _is_header(line: bytes) -> bool:
    """Whether the first line of a file is the header, or what a killed process has written of it."""
    return line == HEADER or (line[:1] == UNFINISHED and HEADER[1:].startswith(line[1:]))


CLICK_LOG = FileKind("a click log of the service", lambda path: _is_header(first_line(path)))


class ClickTooLargeError(Exception):
    """The lines of a click are larger than a log takes."""


class Click(NamedTuple):
    """A click on a document of a list."""

    index_name: str
    query: str  # words separated by single spaces
    shown: tuple[str, ...]  # ids of the documents, from the top down
    clicked: str  # id of the clicked document, one of ``shown``
    position: int  # its rank
    session: str  # chosen by the client; logged as a salted hash
    dwell: float | None  # seconds; None if unknown


class ClickLog:
    """Appends clicks to a file, as its only writer; thread-safe.

    A full file is renamed, ``log.tsv`` to ``log.1.tsv`` and so on, and a new file begins, as after another process has
    moved the file. An incomplete click, left by a killed process, is removed.

    Args:
        max_bytes: size that a file never exceeds, but for the lines of one click after the header.

    Raises:
        InputError: the file cannot be written, is not a click log, or has another writer.
    """

    def __init__(self, path: str | Path, max_bytes: int):
        if is_packed(Path(path)):
            raise InputError(f"{path}: a click log is plain text: leave out .gz")
        self.path, self.max_bytes = check_free(path, CLICK_LOG, overwrite=True), max_bytes
        self.salt, self.lock = secrets.token_bytes(16), Lock()
        self.logged: dict[int, None] = {}  # hashes of lists, the oldest first
        self.file = self._open()

    def _open(self) -> FileIO:
        file = open_locked(check_free(self.path, CLICK_LOG, overwrite=True))
        assert isinstance(file, BufferedRandom)  # as `open_locked` opens it
        size = file.seek(0, os.SEEK_END)
        for start in (max(0, size - MAX_CLICK - 1), 0):  # a line is longer only in a damaged file
            file.seek(start)
            tail = file.read()
            if b"\n" in tail:
                break
        file.truncate(start + _complete(tail))
        raw = file.detach()
        assert isinstance(raw, FileIO)
        if raw.seek(0, os.SEEK_END) == 0:
            with writing_to(self.path):
                _write(raw, HEADER)
        return raw

    def append(self, click: Click) -> None:
        """Log a click completely or not at all.

        Raises:
            ClickTooLargeError: its lines would have more than `MAX_CLICK` bytes.
            OSError: the lines cannot be written, for example on a full disk.
            InputError: a new file cannot be opened.
        """
        ids = sum(len(docid.encode()) for docid in click.shown)
        if ids + len(click.shown) * (len(click.query.encode()) + len(click.index_name.encode()) + LINE) > MAX_CLICK:
            raise ClickTooLargeError
        session = blake2b(click.session.encode(), key=self.salt, digest_size=8).hexdigest()
        with self.lock:
            shown_list = hash((session, click[:3]))
            lines = "".join(_lines(click, session, shown_list not in self.logged)).encode()
            size = self.file.tell()
            is_current = is_same_file(self.file.fileno(), self.path)
            if is_current and size > len(HEADER) and size + len(lines) > self.max_bytes:
                self._rotate()
                is_current = False
            if not is_current:
                moved, self.file = self.file, self._open()
                moved.close()
            _write(self.file, lines)
            self.logged[shown_list] = None
            if len(self.logged) > MAX_LOGGED_LISTS:
                del self.logged[next(iter(self.logged))]

    def _rotate(self) -> None:
        names = (self.path.with_name(f"{self.path.stem}.{number}{self.path.suffix}") for number in count(1))
        self.path.rename(next(name for name in names if not os.path.lexists(name)))

    def close(self) -> None:
        """Close the file and release its lock."""
        self.file.close()


def _complete(tail: bytes) -> int:
    """The size of the complete lines and clicks at the end of a file."""
    end = tail.rfind(b"\n") + 1
    unfinished = (b"\n" + tail).rfind(b"\n" + UNFINISHED)
    if unfinished < 0:
        return end
    lines = tail[unfinished:end].split(b"\n")[:-1]
    is_last_click = len({tuple(line.split(b"\t")[CLICK_COLUMNS]) for line in lines}) <= 1
    return unfinished if is_last_click else end  # else other clicks follow: the byte is a damage


def _write(file: FileIO, lines: bytes) -> None:
    """Write lines at the place of a file completely or not at all."""
    start = file.tell()
    try:
        # A process that is killed in the first write leaves the mark; the second one cannot be cut.
        for offset, part in ((0, UNFINISHED + lines[1:]), (-len(lines), lines[:1])):
            file.seek(offset, os.SEEK_CUR)
            if file.write(part) < len(part):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        file.seek(start + len(lines))
    except OSError:
        file.seek(start)
        file.truncate()
        raise


def _lines(click: Click, session: str, first_click: bool) -> Iterator[str]:
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    for position, docid in enumerate(click.shown, click.position - click.shown.index(click.clicked)):
        if (clicked := docid == click.clicked) or first_click:
            dwell = click.dwell if clicked and click.dwell is not None else ""
            values = (
                click.query, docid, int(first_click), int(clicked), 0, 0, position, session, now, dwell,
                click.index_name,
            )  # fmt: skip
            yield "\t".join(map(str, values)) + "\n"
