"""Folders that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

from rerank_plugin.files.errors import InputError


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """A temporary sibling to write into, which takes the folder's name when the block ends without an exception.

    A folder that is replaced is moved aside first and deleted last, so there is always one that works. On an exception
    the sibling is removed and the folder stays as it was.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, not a folder that could be replaced")
    folder.parent.mkdir(parents=True, exist_ok=True)
    writing = folder.parent / f".{folder.name}.writing-{os.getpid()}"
    old = folder.parent / f".{folder.name}.old-{os.getpid()}"
    shutil.rmtree(writing, ignore_errors=True)
    writing.mkdir()
    try:
        yield writing
        if folder.exists():
            folder.rename(old)
        try:
            writing.rename(folder)
        except BaseException:
            if old.exists():
                old.rename(folder)
            raise
    finally:
        shutil.rmtree(writing, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def link_or_copy(source: Path, target: Path) -> None:
    """A second name for a file, which takes no space; a copy where the file system has no hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
