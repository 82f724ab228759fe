"""Folders of models as clones and downloads leave them: a pointer of git-lfs, or a page of HTML, in place of a file."""

from __future__ import annotations

from itertools import chain, islice
from pathlib import Path

from rerank_plugin.base.errors import InputError, damage
from rerank_plugin.files.regular_files import regular

SUFFIXES = (".safetensors", ".json", ".txt", ".model", ".bin")
MOST_FILES = 1000  # of a folder that are looked at
POINTER, PAGES = b"version https://git-lfs.github.com/spec/", (b"<!doctype html", b"<html")


def check_downloaded(folder: Path) -> None:
    """Check that the files of a model's folder, and of the folders in it, are what their names say.

    Raises:
        InputError: a file is a pointer of git-lfs, or a page of HTML, or cannot be read.
    """
    try:
        files = (path for path in chain(folder.glob("*"), folder.glob("*/*")) if path.suffix in SUFFIXES)
        for path in sorted(islice(files, MOST_FILES)):
            if path.is_dir():
                continue
            with regular(path).open("rb") as file:
                start = file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip().lower()
            if start.startswith(POINTER):
                raise InputError(f"{path} is a pointer of git-lfs, not the file: run git lfs pull in {folder}")
            if start.startswith(PAGES):
                raise InputError(f"{path} is no file of a model: the download saved a page of HTML; download it again")
    except OSError as error:
        raise InputError(f"{folder} cannot be read ({damage(error)}): download it again") from None
