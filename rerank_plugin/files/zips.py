"""Zip files as inputs: nothing is unpacked to disk, and the path ``abstracts.zip/2024/a.xml`` names a member.

An archive is untrusted. The sizes that it declares bound what is read of its members, so they are checked before; names
of members are labels only, and those that could mean a place outside of it are refused.
"""

from __future__ import annotations

import zipfile
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import IO

from rerank_plugin.base.errors import InputError

MARKS = (b"PK\3\4", b"PK\5\6")  # first bytes: of a member, or of an archive without any
MEMBERS = 1_000_000
LARGEST = 1 << 38  # bytes of all members together, unpacked
RATIO, UNSUSPECTED = 200, 1 << 26  # unpacked by packed bytes; unpacked bytes up to which any ratio is accepted
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # of others, zipfile does not bound what a read unpacks
DAMAGED = (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError, OverflowError)


def is_zip(path: Path) -> bool:
    """Whether a path is a regular file that begins as a zip does."""
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.read(len(MARKS[0])) in MARKS


def members(path: Path) -> list[Path]:
    """The paths of an archive's files, in its order.

    Raises:
        InputError: the archive is damaged, exceeds a limit, or has members that cannot be read.
    """
    return [path / name for name in _opened(path)[1]]


def only_member(path: Path) -> Path:
    """The path of the only file of an archive; an `InputError` if it has none or several."""
    paths = members(path)
    if len(paths) != 1:
        raise InputError(f"{path}: holds {len(paths):,} files: unpack it, and name one of them")
    return paths[0]


def archive_of(path: Path) -> Path | None:
    """The archive that a path leads into; None for any other path."""
    return next((parent for parent in path.parents if is_zip(parent)), None)


def open_member(path: Path) -> IO[bytes]:
    """Open a member for reading, which may raise `DAMAGED`; a `FileNotFoundError` if there is none of this path."""
    archive = archive_of(path)
    file, entries = _opened(archive) if archive else (None, {})
    entry = entries.get(path.relative_to(archive).as_posix()) if archive else None
    if file is None or entry is None:
        raise FileNotFoundError(2, "no such file", str(path))
    try:
        return file.open(entry)
    except DAMAGED as error:
        raise InputError(f"{path}: damaged zip file ({error}): fetch it again") from error


def _opened(path: Path) -> tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]:
    state = path.stat()
    return _checked(path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=2)  # an archive is asked for each of its members
def _checked(path: Path, size: int, _changed: int) -> tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]:
    """An archive and its files by name, all of them safe to read."""
    try:
        archive = zipfile.ZipFile(path)
    except DAMAGED as error:
        raise InputError(f"{path}: damaged zip file ({error}): fetch it again") from error
    entries: dict[str, zipfile.ZipInfo] = {}
    for entry in archive.infolist():
        name = PurePosixPath(entry.filename)
        reason = (
            f"is one of more than {MEMBERS:,}" if len(entries) == MEMBERS
            else "leads out of it" if name.is_absolute() or ".." in name.parts
            else "is there twice" if str(name) in entries
            else "is encrypted" if entry.flag_bits & 1
            else "is compressed by another method than deflate" if entry.compress_type not in METHODS
            else None
        )  # fmt: skip
        if reason and not entry.is_dir():
            raise InputError(f"{path}: the member {entry.filename!r:.80} {reason}: unpack it with care")
        if not entry.is_dir():
            entries[str(name)] = entry
    unpacked = sum(entry.file_size for entry in entries.values())
    if unpacked > LARGEST or unpacked > max(UNSUSPECTED, RATIO * size):
        raise InputError(
            f"{path}: its {size:,} bytes would unpack to {unpacked:,}, more than {RATIO} times as many or "
            f"than {LARGEST:,}: unpack it with care"
        )
    return archive, entries
