"""Outputs: which may be replaced, how they are written atomically, and how leftovers of killed processes are removed.

The rules, for every command:

* An existing output is replaced only if the caller allows it and the same command made it: a file or folder is
  recognized by its content (`FileKind`, `FolderKind`), and a folder must hold nothing else. Anything else is refused.
* A symbolic link is followed: the link stays, and the rules apply to its target.
* An output is written under a temporary name beside it, ``.NAME.rerank_plugin-XXXXXXXX``, and then renamed. The writer
  holds a lock (flock) on it; a temporary name without a lock belongs to a dead process, and the next writer in the same
  folder removes it.
* Folders are exchanged atomically if the system supports it (Linux). Otherwise the old one is first moved aside under a
  known name; if the process dies between the two renames, `restore_interrupted` moves it back.
* A device or a pipe is written to, never replaced; ``-`` is stdout.
* What has its final name is on the disk (`sync`): first files, then their folders, then the rename, then the folder of
  the name, and only then is what it replaces removed. A loss of power leaves the old output or the new one.
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
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.regular_files import regular

MARK = ".rerank_plugin-"  # between the name of an output and the random end of its temporary name
ASIDE = "replaced"  # the end of an old folder's name between the two renames
TEMPORARY = re.compile(rf"\.(.+){re.escape(MARK)}([0-9a-f]{{8}}|{ASIDE})")
STDOUT = ("-", "/dev/stdout")
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
AT_ONCE = 16  # files that are synced: the file system then writes its journal once for many


class OutputLockedError(InputError):
    """Another running process is writing this output."""


@dataclass(frozen=True)
class FileKind:
    """Files that one command writes."""

    name: str  # with its article, for messages: "a run"
    made: Callable[[Path], bool]  # whether an existing non-empty file is of this kind

    def fault(self, path: Path) -> str | None:
        """The reason why an existing ``path`` must not be replaced; None if it may be."""
        if not path.is_file():
            return "is a folder" if path.is_dir() else "is not a regular file"
        return None if path.stat().st_size == 0 or self.made(path) else f"is not {self.name}"


@dataclass(frozen=True)
class FolderKind:
    """Folders that one command writes."""

    name: str  # with its article, for messages: "an index"
    description: str  # the file that every such folder has
    keys: Collection[str]  # required in that file's JSON object; empty if it is not JSON
    files: tuple[str, ...]  # patterns of the other files, relative to the folder; ``*`` does not match a slash
    listed: str | None = None  # key of the description whose object names further files, as its keys

    @property
    def patterns(self) -> tuple[str, ...]:
        """Patterns of all files but the description and those listed there."""
        return self.files

    def inside(self, folder: str) -> tuple[str, ...]:
        """Patterns of this kind's files as the subfolder ``folder`` of another folder."""
        return tuple(f"{folder}/{name}" for name in (self.description, *self.patterns))

    def fault(self, path: Path) -> str | None:
        """The reason why an existing ``path`` must not be replaced; None if it may be, as an empty folder."""
        if not path.is_dir():
            return "is a file"
        leaves = (leaf for leaf in path.rglob("*") if leaf.is_symlink() or not leaf.is_dir() or not any(leaf.iterdir()))
        names = sorted(leaf.relative_to(path).as_posix() for leaf in leaves)
        names = [name for name in names if not any(map(TEMPORARY.fullmatch, name.split("/")))]
        if not names:  # a kill during the first write into a folder leaves a temporary file alone
            return None
        description = self._read_description(path)
        if description is None:
            return f"is not {self.name}"
        own = {self.description, *(description.get(self.listed, ()) if self.listed else ())}
        # Empty folders are left by interrupted commands and by users who delete files.
        emptied = {parent.as_posix() for pattern in self.patterns for parent in PurePosixPath(pattern).parents}
        for name in names:
            patterns = emptied if _is_folder(path / name) else self.patterns
            if name not in own and not any(matches(name, pattern) for pattern in patterns):
                return f"is {self.name}, but holds {name}, which does not belong to it"
        return None

    def _read_description(self, path: Path) -> dict | None:
        """The folder's description, empty if it is not JSON; None if the folder is of another kind."""
        try:
            text = regular(path / self.description).read_bytes()
            description = json.loads(text) if self.keys else {}
        except (OSError, ValueError, RecursionError):
            return None
        return description if isinstance(description, dict) and all(key in description for key in self.keys) else None


PICTURE_METADATA = {"Software": "rerank_plugin"}  # for matplotlib's savefig: identifies our PNG files
PICTURE = FileKind("a picture that this program drew", lambda path: b"Software\0rerank_plugin" in beginning(path))
INNER = FileKind("a file of this program", lambda path: True)  # within a folder that was checked as a whole


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def matches(path: str, pattern: str) -> bool:
    """Whether a relative path is of a pattern, in which ``*`` does not match a slash."""
    parts, patterns = path.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


def check_free(path: str | Path, kind: FileKind | FolderKind, overwrite: bool = False) -> Path:
    """Check that an output may be written at ``path``; returns the path with symbolic links resolved.

    Args:
        overwrite: whether an output of this kind may be replaced.

    Raises:
        InputError: ``path`` is of another kind, or is an output of this kind that may not be replaced.
    """
    target = Path(os.path.realpath(path))
    if is_stream(path):
        if isinstance(kind, FileKind):
            return target
        raise InputError(f"{path} is a stream, which cannot hold {kind.name}: name a folder")
    with writing_to(path):
        if not os.path.lexists(target):
            return target
        fault = kind.fault(target)
        free = not any(target.iterdir()) if target.is_dir() else target.stat().st_size == 0
    if fault is not None:
        raise InputError(f"{path} {fault}: it is left as it is; choose another place, or move it away yourself")
    if not overwrite and not free:
        with suppress(OSError):  # a kill during the last removal leaves a finished output
            remove_leftovers(target.parent)
        raise InputError(f"{path} exists already: choose another place, or overwrite it")
    return target


@contextmanager
def writing_to(path: str | Path) -> Iterator[None]:
    """Turn an OSError of the block into an `InputError`: ``path`` cannot be written."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from error


def beginning(path: Path) -> bytes:
    """The first 4 KB of a file."""
    with open(path, "rb") as file:
        return file.read(4096)


def is_packed(path: Path) -> bool:
    """Whether a file is gzipped, judged by its name."""
    return path.name.lower().endswith(".gz")


def is_stream(path: str | Path) -> bool:
    """Whether an output is stdout, a character device or a pipe."""
    if str(path) in STDOUT:
        return True
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def open_stream(path: str | Path) -> BinaryIO:
    """Open a stream for writing; stdout continues after the text that was printed before."""
    if str(path) not in STDOUT:
        return open(path, "wb")
    sys.stdout.flush()
    return open(os.dup(1), "wb")


@contextmanager
def replacing_folder(folder: str | Path, kind: FolderKind, overwrite: bool = False) -> Iterator[Path]:
    """A temporary folder that replaces ``folder`` when the block ends without an exception, and is removed otherwise.

    Raises:
        InputError: as `check_free`, before the block and again after it; or the folder cannot be written.
    """
    target = check_free(restore_interrupted(folder), kind, overwrite)
    with ExitStack() as cleaning:
        with writing_to(folder):
            target.parent.mkdir(parents=True, exist_ok=True)
            writing = cleaning.enter_context(_temporary(target, Path.mkdir))
        try:
            yield writing
            _share(writing)
        except InputError:
            raise
        except Exception as error:  # libraries wrap errors of the system in exceptions of their own
            if not writing.exists():
                raise InputError(f"{folder} was replaced or removed while it was being written: start again") from error
            for reason in map(os.strerror, DISK_FULL):  # in any library's message
                if reason in str(error):
                    raise InputError(f"{folder}: cannot be written ({reason})") from error
            raise
        check_free(target, kind, overwrite)
        with writing_to(folder):
            sync([*writing.rglob("*"), writing])
            _put_in_place(writing, target)


def sync(paths: Iterable[Path]) -> None:
    """Have files and folders on the disk: the files, then the folders, each before the one that it is in."""
    folders, files = list[Path](), list[Path]()
    for path in paths:
        (folders if path.is_dir() else files).append(path)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(_sync, files))
    for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
        _sync(folder)


def _sync(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:  # a folder that may be written but not listed
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems do so without for folders
            raise
    finally:
        os.close(descriptor)


def _share(folder: Path) -> None:
    """Give private files the folder's permissions: safetensors writes files that only their owner can read."""
    for path in folder.rglob("*"):
        if path.is_file() and stat.S_IMODE(path.stat().st_mode) == 0o600:
            path.chmod(folder.stat().st_mode & 0o666)


def _put_in_place(finished: Path, target: Path) -> None:
    """Rename a finished folder to ``target``, and remove the folder that was there."""
    if not target.is_dir():
        finished.rename(target)
        _sync(target.parent)
    elif _exchange(finished, target):
        _sync(target.parent)
        shutil.rmtree(finished)
    else:
        aside = _aside(target)
        with locked(target):  # the lock moves with the folder: no process restores it while this one lives
            target.rename(aside)
            try:
                finished.rename(target)
            except BaseException:
                aside.rename(target)
                raise
            _sync(target.parent)
            shutil.rmtree(aside)


@contextmanager
def replacing(path: str | Path, kind: FileKind, overwrite: bool = False) -> Iterator[BinaryIO]:
    """A temporary file that replaces ``path`` when the block ends without an exception, and is removed otherwise.

    If the name ends in .gz, the file is gzipped, without name and time, so that equal contents give equal files. A
    device or a pipe is written to directly.

    Raises:
        InputError: as `check_free`, before the block and again after it; or the file cannot be written.
    """
    with writing_to(path), ExitStack() as stack:
        if is_stream(path):
            yield stack.enter_context(open_stream(path))
            return
        target = check_free(path, kind, overwrite)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = stack.enter_context(_temporary(target, lambda path: path.touch(exist_ok=False)))
        with open(temporary, "r+b") as file:
            if is_packed(Path(path)):
                with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as zipped:
                    yield cast(BinaryIO, zipped)  # typeshed's GzipFile is a BufferedIOBase only
            else:
                yield file
            file.flush()
            os.fsync(file.fileno())
        check_free(target, kind, overwrite)
        os.replace(temporary, target)
        _sync(target.parent)


@contextmanager
def temporary_folder(beside: Path) -> Iterator[Path]:
    """A temporary folder beside a path, removed at the end of the block; after a kill, by the next writer there."""
    with _temporary(beside, Path.mkdir) as folder:
        yield folder


@contextmanager
def remaking_folder(folder: Path) -> Iterator[Path]:
    """A place for a folder that replaces ``folder``, one of ours whether or not it can be read, when the block ends."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(folder) as beside:
        yield (finished := beside / folder.name)
        _put_in_place(finished, folder)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A private temporary folder, removed at the end of the block; after a kill, by the next call."""
    with _temporary(Path(tempfile.gettempdir()) / "scratch", lambda path: path.mkdir(mode=0o700)) as folder:
        yield folder


def restore_interrupted(folder: str | Path) -> Path:
    """Restore a folder if a process died between the two renames of its replacement; returns its path."""
    folder = Path(folder)
    target = Path(os.path.realpath(folder))
    aside = _aside(target)
    if aside.is_dir() and not target.exists():
        with suppress(OSError, OutputLockedError), locked(aside):
            aside.rename(target)
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
                raise InputError(f"{path} is not a regular file: move it away")
            _lock(descriptor, path)
            if is_same_file(descriptor, path):
                return open(descriptor, "r+b")
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its owner renamed it before the lock was free: try again


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files and folders in a folder unless a running process has locked them."""
    for leftover in folder.glob(f".*{MARK}*"):
        if not (match := TEMPORARY.fullmatch(leftover.name)):
            continue
        target = leftover.with_name(match[1])
        if leftover == _aside(target) and not target.exists():
            restore_interrupted(target)
            continue
        with suppress(OSError, OutputLockedError), locked(leftover):
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


def remove_folder(folder: Path) -> None:
    """Rename an output folder to a temporary name, then remove it; after a kill, the rest counts as a leftover."""
    leftover = _temporary_name(folder)
    folder.rename(leftover)
    shutil.rmtree(leftover)


def link_or_copy(source: str | Path, target: str | Path) -> None:
    """Make a hard link to a file, or a copy if the file system has no hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


@contextmanager
def _temporary(target: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """A new, locked temporary file or folder beside ``target``; removed when the block ends unless it was renamed."""
    remove_leftovers(target.parent)
    while True:
        temporary = _temporary_name(target)
        make(temporary)
        try:
            descriptor = os.open(temporary, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # another process removed it as a leftover before it was opened
        with suppress(OSError):  # without locks, as on some network file systems, leftovers are never removed
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if is_same_file(descriptor, temporary):
            break
        os.close(descriptor)  # another process removed it before it was locked
    try:
        yield temporary
    finally:
        try:
            if is_same_file(
                descriptor, temporary
            ):  # otherwise it was renamed, and `_put_in_place` removes the old folder
                shutil.rmtree(temporary, ignore_errors=True) if temporary.is_dir() else temporary.unlink()
        finally:
            os.close(descriptor)


def _temporary_name(target: Path) -> Path:
    return target.with_name(f".{target.name}{MARK}{secrets.token_hex(4)}")


def _aside(target: Path) -> Path:
    return target.with_name(f".{target.name}{MARK}{ASIDE}")


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Lock an existing file or folder for the block, whose descriptor is given.

    An `OutputLockedError` if another process holds the lock.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _lock(descriptor, path)
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OutputLockedError(
            f"{path} is being written by another process: wait for it, or choose another place"
        ) from None


def is_same_file(descriptor: int, path: Path) -> bool:
    """Whether a path still names the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False


def _exchange(first: Path, second: Path) -> bool:
    """Exchange the names of two folders atomically; False if the system or the file system does not support it."""
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)  # Linux, glibc 2.28 and later
    if renameat2 is None:
        return False
    at_cwd, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return renameat2(at_cwd, os.fsencode(first), at_cwd, os.fsencode(second), exchange) == 0
