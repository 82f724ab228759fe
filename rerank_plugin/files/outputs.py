"""Outputs: what may be replaced, how it is written atomically, and how leftovers of killed processes are removed.

The rules, for every command:

* What exists is replaced only where the caller allows it, and only where the same command made it: a file or folder is
  recognized by its content (`FileKind`, `FolderKind`), and a folder must hold nothing else. Anything else is refused.
* A symbolic link is followed: the link stays, and the rules apply to its target.
* An output is written under a temporary name beside it, ``.NAME.rerank_plugin-XXXXXXXX``, and then renamed. The writer
  holds a lock (flock) on it; one without a lock belongs to a dead process, and the next writer in the same folder
  removes it.
* Folders are exchanged atomically if the system supports it (Linux). Otherwise the old one is first moved aside under a
  known name; if the process dies between the two renames, `restore_interrupted` moves it back.
* A device or a pipe is written to, and never replaced.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import gzip
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from rerank_plugin.base.errors import InputError

MARK = ".rerank_plugin-"  # between the name of an output and the random end of its temporary name
ASIDE = "replaced"  # the end of the name that an old folder has between two renames
TEMPORARY = re.compile(rf"\.(.+){re.escape(MARK)}([0-9a-f]{{8}}|{ASIDE})")
FULL = (errno.ENOSPC, errno.EDQUOT)


class OutputLockedError(InputError):
    """Another running process is writing this output."""


@dataclass(frozen=True)
class FileKind:
    """Files that one command writes."""

    name: str  # with its article, for messages: "a run"
    made: Callable[[Path], bool]  # tells whether an existing non-empty file is of this kind

    def fault(self, path: Path) -> str | None:
        """Why what exists at ``path`` must not be replaced; None where it may be."""
        if not path.is_file():
            return "is a folder" if path.is_dir() else "is no regular file"
        return None if path.stat().st_size == 0 or self.made(path) else f"is not {self.name}"


@dataclass(frozen=True)
class FolderKind:
    """Folders that one command writes."""

    name: str  # with its article, for messages: "an index"
    description: str  # the file that every such folder has
    keys: tuple[str, ...]  # of the JSON object in that file; empty if it is not JSON
    files: tuple[str, ...]  # patterns of the other files, relative to the folder; ``*`` does not match a slash
    listed: str | None = None  # key of the description under which further files are named, as keys of an object

    def inside(self, folder: str) -> tuple[str, ...]:
        """Patterns of the files of such a folder when it is a part of another folder."""
        return tuple(f"{folder}/{name}" for name in (self.description, *self.files))

    def fault(self, path: Path) -> str | None:
        """Why what exists at ``path`` must not be replaced; None where it may be. An empty folder may be."""
        if not path.is_dir():
            return "is a file"
        inner = (one for one in path.rglob("*") if one.is_symlink() or not one.is_dir() or not any(one.iterdir()))
        found = sorted(one.relative_to(path).as_posix() for one in inner)
        if not found:
            return None
        described = self._described(path)
        if described is None:
            return f"is not {self.name}"
        own = {self.description, *(described.get(self.listed, ()) if self.listed else ())}
        # what an interrupted command, or whoever deletes files of ours, leaves behind
        emptied = {parent.as_posix() for pattern in self.files for parent in PurePosixPath(pattern).parents}
        for one in found:
            temporary = any(map(TEMPORARY.fullmatch, one.split("/")))
            patterns = emptied if _is_folder(path / one) else self.files
            if one not in own and not temporary and not any(_matches(one, pattern) for pattern in patterns):
                return f"is {self.name}, but holds {one}, which is of something else"
        return None

    def _described(self, path: Path) -> dict | None:
        """The folder's description, empty if it is not JSON; None if the folder is of another kind."""
        try:
            text = (path / self.description).read_bytes()
            described = json.loads(text) if self.keys else {}
        except (OSError, ValueError):
            return None
        return described if isinstance(described, dict) and all(key in described for key in self.keys) else None


PICTURE_METADATA = {"Software": "rerank_plugin"}  # for matplotlib's savefig: how we recognize our PNG files
PICTURE = FileKind("a picture that this program drew", lambda path: b"Software\0rerank_plugin" in beginning(path))
INNER = FileKind("a file of ours", lambda path: True)  # within a folder that was checked as a whole


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _matches(path: str, pattern: str) -> bool:
    parts, patterns = path.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


def check_free(path: str | Path, kind: FileKind | FolderKind, overwrite: bool = False) -> Path:
    """Check that an output may be written at ``path``; returns the path with symbolic links resolved.

    Args:
        overwrite: whether an output of this kind may be replaced.

    Raises:
        InputError: something of another kind exists there, or an output of this kind that may not be replaced.
    """
    place = Path(os.path.realpath(path))
    if isinstance(kind, FileKind) and is_stream(Path(path)):
        return place
    with writing_to(path):
        if not os.path.lexists(place):
            return place
        fault = kind.fault(place)
        free = not any(place.iterdir()) if place.is_dir() else place.stat().st_size == 0
    if fault is not None:
        raise InputError(f"{path} {fault}: it is left as it is; choose another place, or move it away yourself")
    if not overwrite and not free:
        raise InputError(f"{path} exists already: choose another place, or overwrite it")
    return place


@contextmanager
def writing_to(path: str | Path) -> Iterator[None]:
    """Turns an OSError of the block into the `InputError` that ``path`` cannot be written."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from error


def beginning(path: Path) -> bytes:
    """The first 4 KB of a file."""
    with open(path, "rb") as file:
        return file.read(4096)


def is_packed(path: Path) -> bool:
    """Whether a file is gzipped, by its name."""
    return path.name.lower().endswith(".gz")


def is_stream(path: str | Path) -> bool:
    """Whether a path is a character device or a pipe, which is written to and never replaced."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


@contextmanager
def replacing_folder(folder: str | Path, kind: FolderKind, overwrite: bool = False) -> Iterator[Path]:
    """A temporary folder that replaces ``folder`` when the block ends without an exception, and is removed otherwise.

    Raises:
        InputError: as `check_free`, before the block and again after it; or the place cannot be written to.
    """
    place = check_free(restore_interrupted(folder), kind, overwrite)
    with ExitStack() as cleaning:
        with writing_to(folder):
            place.parent.mkdir(parents=True, exist_ok=True)
            writing = cleaning.enter_context(_temporary(place, Path.mkdir))
        try:
            yield writing
            _share(writing)
        except InputError:
            raise
        except Exception as error:  # libraries have exceptions of their own for what the system tells them
            if not writing.exists():
                raise InputError(f"{folder} was replaced or removed while it was being written: start again") from error
            for reason in map(os.strerror, FULL):
                if reason in str(error):
                    raise InputError(f"{folder}: cannot be written ({reason})") from error
            raise
        check_free(place, kind, overwrite)
        with writing_to(folder):
            _put_in_place(writing, place)


def _share(folder: Path) -> None:
    """Let those read a folder's files who may read the folder: safetensors writes files for their owner alone."""
    for path in folder.rglob("*"):
        if path.is_file() and stat.S_IMODE(path.stat().st_mode) == 0o600:
            path.chmod(folder.stat().st_mode & 0o666)


def _put_in_place(made: Path, place: Path) -> None:
    """Rename a finished folder to ``place``, and remove a folder that exists there."""
    if not place.is_dir():
        made.rename(place)
    elif _exchange(made, place):
        shutil.rmtree(made)
    else:
        aside = _aside(place)
        with locked(place):  # the lock moves with the folder: nobody heals while this process lives
            place.rename(aside)
            try:
                made.rename(place)
            except BaseException:
                aside.rename(place)
                raise
            shutil.rmtree(aside)


@contextmanager
def replacing(path: str | Path, kind: FileKind, overwrite: bool = False) -> Iterator[BinaryIO]:
    """A temporary file that replaces ``path`` when the block ends without an exception, and is removed otherwise.

    If the name ends in .gz, the file is gzipped, without name and time, so that equal contents give equal files. A
    device or a pipe is written to directly.

    Raises:
        InputError: as `check_free`, before the block and again after it; or the place cannot be written to.
    """
    with writing_to(path), ExitStack() as stack:
        if is_stream(path):
            yield stack.enter_context(open(path, "wb"))
            return
        place = check_free(path, kind, overwrite)
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = stack.enter_context(_temporary(place, lambda path: path.touch(exist_ok=False)))
        with open(temporary, "r+b") as file:
            if is_packed(Path(path)):
                with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                    yield packed
            else:
                yield file
        check_free(place, kind, overwrite)
        os.replace(temporary, place)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A private folder among the system's temporary files, removed at the end of the block, or by the next one."""
    with _temporary(Path(tempfile.gettempdir()) / "scratch", lambda path: path.mkdir(mode=0o700)) as folder:
        yield folder


def restore_interrupted(folder: str | Path) -> Path:
    """The folder; it is restored first if a process died between the two renames of a replacement."""
    folder = Path(folder)
    place = Path(os.path.realpath(folder))
    aside = _aside(place)
    if aside.is_dir() and not place.exists():
        with suppress(OSError, OutputLockedError), locked(aside):
            aside.rename(place)
    return folder


def open_locked(path: Path) -> BinaryIO:
    """Open a file for reading and writing, under an exclusive lock; it is created if it does not exist.

    Raises:
        OutputLockedError: another process holds the lock.
        InputError: the file cannot be opened, or is a symbolic link, which is not followed.
    """
    while True:
        with writing_to(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InputError(f"{path} is no regular file: move it away")
            _lock(descriptor, path)
            if is_still(descriptor, path):
                return open(descriptor, "r+b")
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its owner renamed it before the lock was free: look again


def remove_leftovers(folder: Path) -> None:
    """Remove from a folder the temporary files and folders that no running process has locked."""
    for leftover in folder.glob(f".*{MARK}*"):
        if not (found := TEMPORARY.fullmatch(leftover.name)):
            continue
        place = leftover.with_name(found[1])
        if leftover == _aside(place) and not place.exists():
            restore_interrupted(place)
            continue
        with suppress(OSError, OutputLockedError), locked(leftover):
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


def remove_folder(folder: Path) -> None:
    """Rename one of our folders to a temporary name, then remove it; after a kill, the rest counts as a leftover."""
    going = _temporary_name(folder)
    folder.rename(going)
    shutil.rmtree(going)


def link_or_copy(source: Path, target: Path) -> None:
    """Make a hard link to a file, or a copy if the file system has no hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


@contextmanager
def _temporary(place: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """A new, locked temporary file or folder beside ``place``; removed when the block ends unless it was renamed."""
    remove_leftovers(place.parent)
    while True:
        temporary = _temporary_name(place)
        make(temporary)
        try:
            descriptor = os.open(temporary, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # somebody took it for a leftover before it was opened
        with suppress(OSError):  # some network file systems have no locks: then nobody removes leftovers there, either
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if is_still(descriptor, temporary):
            break
        os.close(descriptor)  # or before it was locked
    try:
        yield temporary
    finally:
        if is_still(descriptor, temporary):  # else it is in place; what an exchange left is removed there
            shutil.rmtree(temporary, ignore_errors=True) if temporary.is_dir() else temporary.unlink()
        os.close(descriptor)


def _temporary_name(place: Path) -> Path:
    return place.with_name(f".{place.name}{MARK}{secrets.token_hex(4)}")


def _aside(place: Path) -> Path:
    return place.with_name(f".{place.name}{MARK}{ASIDE}")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock an existing file or folder for the block; an `OutputLockedError` if another process holds the lock."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _lock(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OutputLockedError(
            f"{path} is being written by another process: wait for it, or choose another place"
        ) from None


def is_still(descriptor: int, path: Path) -> bool:
    """Whether a path still names the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False


def _exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two folders atomically; False if the system or the file system does not support it."""
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)  # Linux, glibc 2.28 and later
    if renameat2 is None:
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0
