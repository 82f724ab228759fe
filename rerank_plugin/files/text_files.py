"""Reading files: UTF-8 with or without a byte order mark, decompressed if the name ends in .gz.

Lines end only at line feeds. ``str.splitlines`` would also split titles at U+2028 and similar characters.
"""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from rerank_plugin.base.errors import InputError

BUFFER = 1 << 18
DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)  # the errors of a truncated or damaged .gz


class _Decompressed(io.RawIOBase):
    """A gzip file that returns all data before a damage, then raises the error.

    GzipFile discards the data of a large read if the file is truncated.
    """

    def __init__(self, path: Path):
        self._file = gzip.open(path, "rb")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        data = self._file.read1(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def kind_of(path: Path) -> str:
    """The suffix of the format, in lower case and without .gz: ``.jsonl`` for ``a.JSONL.gz``."""
    name = path.name.lower().removesuffix(".gz")
    return name[name.rfind(".") :] if "." in name else ""


def with_suffix(folder: Path, *suffixes: str) -> list[Path]:
    """The files of a folder with these suffixes, sorted by name, without hidden files."""
    paths = (path for path in folder.iterdir() if kind_of(path) in suffixes and not path.name.startswith("."))
    return sorted((path for path in paths if path.is_file()), key=lambda path: path.name)


def plain_or_gz(path: Path) -> Path | None:
    """``path`` or ``path.gz``, whichever exists."""
    zipped = path.with_name(path.name + ".gz")
    return path if path.is_file() else zipped if zipped.is_file() else None


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading bytes, decompressed. ``read`` may return fewer bytes than requested before the end."""
    try:
        # io.RawIOBase has the methods of BinaryIO, but typeshed does not derive one from the other.
        return cast(BinaryIO, _Decompressed(path)) if path.name.lower().endswith(".gz") else open(path, "rb")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error


def byte_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file as bytes with their line ends, without a byte order mark; fast. May raise `DAMAGED`."""
    with open_bytes(path) as file:
        lines = io.BufferedReader(file, BUFFER) if isinstance(file, io.RawIOBase) else file
        yield from (line.removeprefix(codecs.BOM_UTF8) for line in islice(lines, 1))
        yield from lines


def first_line(path: Path) -> bytes:
    """The first line of a file as bytes, with its line end; empty for an empty or damaged file."""
    with suppress(*DAMAGED):
        return next(byte_lines(path), b"")
    return b""


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines of a file, without line ends and blank lines; an `InputError` if it is damaged or not UTF-8."""
    number = 0
    try:
        for number, line in enumerate(byte_lines(path), 1):
            text = line.decode().rstrip("\r\n")
            if text.strip():
                yield number, text
    except UnicodeDecodeError as error:
        raise InputError(f"{path}:{number}: not UTF-8 text: convert the file, as with iconv -t utf-8") from error
    except DAMAGED as error:
        raise InputError(f"{path}:{number + 1}: damaged gzip file ({error}): fetch or compress it again") from error
