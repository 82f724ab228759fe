"""Reading files, pipes and stdin: UTF-8, or UTF-16 and UTF-32 with a byte order mark, decompressed by their content.

The first bytes of a file tell its compression (gzip, bzip2, xz, zstd, or a zip of one file): names of downloads are
often wrong. A pipe can be read once: each input is opened once, or `beginning` and `rereadable` keep what was read of
it. ``-`` is stdin, and ``a.zip/b.txt`` a member of a zip (`zips`).

Lines end only at line feeds, and in a file without any at carriage returns. ``str.splitlines`` would also split titles
at U+2028 and similar characters.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import re
import shutil
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from rerank_plugin.base.errors import InputError, system_failure
from rerank_plugin.base.extras import naming_extras
from rerank_plugin.files import zips

BUFFER = 1 << 18
LONGEST_LINE = 1 << 28  # bytes
BEGINNING = 1 << 16  # bytes that show the format of a file
DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)  # the errors of a truncated or damaged file
ENDLESS = ("/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
STDIN = ("-", "/dev/stdin")

COMPRESSED = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd", ".zip": "zip"}  # suffixes and their names

_ENCODINGS = {  # by their marks; that of UTF-32 begins as that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_MARKS = re.compile(b"^(?:%s)+" % codecs.BOM_UTF8)

_begun: dict[Path, BinaryIO] = {}  # pipes whose beginning was looked at
_copies: dict[Path, tuple[BinaryIO, Exception | None]] = {}  # temporary copies of pipes that are read several times
_opened: set[tuple[int, int]] | None = None  # pipes that a command has opened, by device and inode


class _Zstd:
    """A zstd file; unlike the library's own reader it raises EOFError if the file is truncated."""

    def __init__(self, file: BinaryIO):
        import zstandard

        self._file, self._new = file, zstandard.ZstdDecompressor().decompressobj
        self._frame: Any = None

    def read(self, size: int) -> bytes:
        data = b""
        while not data:
            packed = self._file.read(size)
            if not packed:
                if self._frame is not None:
                    raise EOFError("Compressed file ended before the end-of-stream marker was reached")
                return b""
            while packed:
                self._frame = self._frame or self._new()
                data += self._frame.decompress(packed)
                packed = self._frame.unused_data if self._frame.eof else b""
                if self._frame.eof:
                    self._frame = None
        return data

    def close(self) -> None:
        self._file.close()


_OPENERS: dict[re.Pattern[bytes], Callable[[Any], Any]] = {
    re.compile(b"\x1f\x8b"): gzip.open,
    re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"): bz2.open,
    re.compile(b"\xfd7zXZ\0"): lzma.open,
    re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"): _Zstd,  # or a frame to skip, as pzstd writes first
}
_LONGEST_MARK = 10


class _Decompressed(io.RawIOBase):
    """A compressed file that returns all data before a damage, then raises the error; see `DAMAGED`.

    GzipFile discards the data of a large read if the file is truncated.
    """

    def __init__(self, packed: BinaryIO, opener: Callable[[Any], Any]):
        self._packed, self._file, self._left = packed, opener(packed), b""
        self._read = getattr(self._file, "read1", self._file.read)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        try:
            data = self._left or self._read(len(view))
        except DAMAGED:
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno:
                raise  # of the system
            raise EOFError(str(error)) from error  # bz2 and zstandard have no exception of their own for it
        data, self._left = data[: len(view)], data[len(view) :]
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
            self._packed.close()
        super().close()


class _Recoded:
    """A text of another encoding as UTF-8, or with the ends of lines of older Macs."""

    def __init__(self, file: BinaryIO, encoding: str | None):
        self._file = file
        decoder = codecs.getincrementaldecoder(encoding or "latin-1")("replace")
        self._decoder, self._encoding = io.IncrementalNewlineDecoder(decoder, translate=True), encoding and "utf-8"

    def read(self, size: int) -> bytes:
        text, data = "", b" "
        while data and not text:
            data = _read_some(self._file, size)
            text = self._decoder.decode(data, final=not data)
        return text.encode(self._encoding or "latin-1")

    def close(self) -> None:
        self._file.close()


class _Joined(io.RawIOBase):
    """Bytes that were read ahead, followed by the rest of their file, or by the ``damage`` that ends it."""

    def __init__(self, head: bytes, file: BinaryIO, damage: Exception | None = None):
        self._head, self._file, self._damage = head, file, damage

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        if self._head:
            data, self._head = self._head[: len(view)], self._head[len(view) :]
        else:
            data = _read_some(self._file, len(view))
            if not data and self._damage is not None:
                raise self._damage
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _joined(head: bytes, file: BinaryIO, damage: Exception | None = None) -> BinaryIO:
    # io.RawIOBase has the methods of BinaryIO, but typeshed does not derive one from the other.
    return cast(BinaryIO, io.BufferedReader(_Joined(head, file, damage), BUFFER))


def _read_some(file: BinaryIO, size: int) -> bytes:
    """At most ``size`` bytes, fewer than are to come from a pipe; none at the end."""
    return cast(Any, file).read1(size) if hasattr(file, "read1") else file.read(size)


def uncompressed_name(path: Path) -> str:
    """The name without the suffix of a compression: ``a.jsonl`` for ``a.jsonl.gz``."""
    suffix = path.suffix.lower()
    return path.name[: -len(suffix)] if suffix in COMPRESSED else path.name


def kind_of(path: Path) -> str:
    """The suffix of the format, in lower case and without that of a compression: ``.jsonl`` for ``a.JSONL.gz``."""
    name = uncompressed_name(path).lower()
    return name[name.rfind(".") :] if "." in name else ""


def damaged(path: Path) -> str:
    """The name of the problem of a damaged file, as ``damaged gzip file``."""
    suffix = path.suffix if path.suffix in COMPRESSED or not zips.archive_of(path) else ".zip"
    return f"damaged {COMPRESSED.get(suffix.lower(), 'gzip')} file"


def with_suffix(folder: Path, *suffixes: str) -> list[Path]:
    """The files of a folder with these suffixes, sorted by name, without hidden files."""
    paths = (path for path in folder.iterdir() if kind_of(path) in suffixes and not path.name.startswith("."))
    return sorted((path for path in paths if path.is_file()), key=lambda path: path.name)


def plain_or_gz(path: Path) -> Path | None:
    """``path``, or the same name with a suffix of `COMPRESSED`, whichever exists."""
    paths = (path, *(path.with_name(path.name + suffix) for suffix in COMPRESSED))
    return next((one for one in paths if one.is_file()), None)


def is_pipe(path: str | Path) -> bool:
    """Whether an input is stdin, a pipe or another device, which can be read once."""
    if str(path) in STDIN:
        return True
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def is_input(path: str | Path) -> bool:
    """Whether a path names something to read from: a file, a pipe, or ``-`` for stdin."""
    return str(path) in STDIN or is_there(path) and not os.path.isdir(path)


def is_there(path: str | Path) -> bool:
    """Whether a path names something; a `SystemFailure` where this process may not know."""
    try:
        os.stat(path)
    except PermissionError as error:
        raise system_failure(error) or error from None
    except (OSError, ValueError):
        return False
    return True


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading bytes, decompressed. ``read`` may return fewer bytes than requested before the end."""
    if (begun := _begun.pop(path, None)) is not None:
        return begun
    try:
        if path in _copies:
            copy, damage = _copies[path]
            file: BinaryIO = open(f"/dev/fd/{copy.fileno()}", "rb")
            file.seek(0)
            return _joined(b"", file, damage)
        file = _open(path)
        try:
            mark = file.read(_LONGEST_MARK)
        except DAMAGED as error:  # of a member of a zip
            return _joined(b"", io.BytesIO(), error)
        if mark.startswith(zips.MARKS) and (is_pipe(path) or zips.is_zip(path)):  # not of a member
            file.close()
            if is_pipe(path):
                raise InputError(f"{path}: a zip cannot be read from a pipe: save it to a file")
            return open_bytes(zips.only_member(path))
        if file.seekable():
            file.seek(-len(mark), os.SEEK_CUR)
            plain: BinaryIO = file
        else:
            plain = _joined(mark, file)
        opener = next((opener for begin, opener in _OPENERS.items() if begin.match(mark)), None)
        if opener is None:
            return plain
        with naming_extras(f"decompressing {path}"):
            return cast(BinaryIO, _Decompressed(plain, opener))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error


def _open(path: Path) -> BinaryIO:
    try:
        _check_unread(path)
        return open(os.dup(0) if str(path) in STDIN else path, "rb")
    except NotADirectoryError:
        member = _Decompressed(cast(BinaryIO, zips.open_member(path)), lambda file: file)
        return cast(BinaryIO, io.BufferedReader(member, BUFFER))


def refuse_rereading_pipes() -> None:
    """From now on, refuse a pipe that was read before: it would give nothing, or a command would wait for ever.

    A program may make pipes of the same name again and again; a command, which calls this at its start, does not.
    """
    global _opened
    _opened = set()


def _check_unread(path: Path) -> None:
    state = os.fstat(0) if str(path) in STDIN else os.stat(path)
    if stat.S_ISCHR(state.st_mode) and state.st_rdev in map(_device, ENDLESS):
        raise InputError(f"{path}: is a device that never ends: name a file")
    if _opened is not None and (stat.S_ISFIFO(state.st_mode) or str(path) in STDIN and stat.S_ISREG(state.st_mode)):
        if (key := (state.st_dev, state.st_ino)) in _opened:
            raise InputError(f"{path}: was read before, and can be read once: give it once, or a file with its content")
        _opened.add(key)


def _device(path: str) -> int:
    """The number of a device; -1 where there is none."""
    return os.stat(path).st_rdev if os.path.exists(path) else -1


def beginning(path: Path) -> bytes:
    """The first bytes of an input, at most `BEGINNING`, decompressed and without a byte order mark.

    A pipe can still be read from its beginning, once. Damaged data end it.
    """
    file = open_bytes(path)
    head, damage = _read_ahead(file)
    if is_pipe(path) and path not in _copies:
        _begun[path] = _joined(head, file if damage is None else io.BytesIO(), damage)
    else:
        file.close()
    if (encoding := _encoding(head)) is not None:
        return head.decode(encoding, "ignore").encode()
    return _MARKS.sub(b"", head)


def _read_ahead(file: BinaryIO) -> tuple[bytes, Exception | None]:
    """The first bytes of a file, at most `BEGINNING`, and the damage that ends it before."""
    head = b""
    try:
        while len(head) < BEGINNING and (data := _read_some(file, BEGINNING - len(head))):
            head += data
    except DAMAGED as error:
        return head, error
    return head, None


def _encoding(head: bytes) -> str | None:
    """The encoding of a text that begins so; None for UTF-8."""
    return next((encoding for mark, encoding in _ENCODINGS.items() if head.startswith(mark)), None)


def open_text(path: Path) -> BinaryIO:
    """Open a text as `open_bytes` does, as UTF-8 with line feeds, whatever its byte order mark and its line ends."""
    file = open_bytes(path)
    head, damage = _read_ahead(file)
    encoding = _encoding(head)
    if damage is None and file.seekable():
        file.seek(-len(head), os.SEEK_CUR)
    else:
        file = _joined(head, file, damage)
    if encoding is None and (b"\n" in head or b"\r" not in head):
        return file
    recoded = _Decompressed(file, lambda opened: _Recoded(opened, encoding))
    return cast(BinaryIO, io.BufferedReader(recoded, BUFFER))


@contextmanager
def rereadable(paths: Iterable[Path]) -> Iterator[None]:
    """Let the pipes among ``paths`` be opened as often as files: a temporary file keeps their data meanwhile.

    Raises:
        InputError: a pipe gives more than half of what is free where temporary files are.
    """
    with ExitStack() as copies:
        for path in paths:
            if is_pipe(path) and path not in _copies:
                copy, damage = copies.enter_context(tempfile.TemporaryFile()), None
                left = shutil.disk_usage(tempfile.gettempdir()).free // 2
                with open_bytes(path) as file:
                    try:
                        while data := _read_some(file, BUFFER):
                            if (left := left - len(data)) < 0:
                                raise InputError(
                                    f"{path}: gives more than half of the free space in {tempfile.gettempdir()}, where "
                                    "it is kept to be read twice: name a file, or another TMPDIR"
                                )
                            copy.write(data)
                    except DAMAGED as error:
                        damage = error
                copy.flush()
                _copies[path] = cast(BinaryIO, copy), damage
                copies.callback(_copies.pop, path)
        yield


def byte_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file as bytes with their line ends; fast. May raise `DAMAGED`.

    Byte order marks at their beginning are removed: files that are joined to one have some within.
    """
    with open_text(path) as file:
        while line := file.readline(LONGEST_LINE):
            if len(line) == LONGEST_LINE:
                raise InputError(f"{path}: a line has more than {LONGEST_LINE >> 20} MB: name a file of text")
            yield _MARKS.sub(b"", line) if line.startswith(codecs.BOM_UTF8) else line


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
        raise InputError(f"{path}:{number + 1}: {damaged(path)} ({error}): fetch or compress it again") from error


def parse_number(text: str) -> float:
    """The number that a text is in C's form; a ValueError for another, also for Python's 1_000 and digits of Arabic."""
    if "_" in text or not text.isascii():
        raise ValueError(f"could not convert {text!r:.50} to a number")
    return float(text)
