"""The files of PubMed's distribution: the baseline of a year, and the update files whose numbers go on from it.

Each December a new baseline, ``baseline/pubmed26n0001.xml.gz`` and so on, replaces all files of the year before. Update
files are in ``updatefiles/`` and have to be applied in the order of their numbers. Each file has its MD5 beside it, in
``pubmed26n0001.xml.gz.md5``: ``MD5(pubmed26n0001.xml.gz)= 32 hexadecimal digits``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple

from rerank_plugin.base.errors import InputError

FOLDERS = BASELINE, UPDATES = "baseline", "updatefiles"
MD5 = ".md5"
_NAME = re.compile(r"pubmed(\d\d)n(\d{4,6})\.xml\.gz")
_LINK = re.compile(r"<a\b[^>]*\bhref=[\"']?([^\"'> ]+)[^>]*>.*?</a>(.*)", re.IGNORECASE)
_TAG = re.compile("<[^>]*>")
_HASH = re.compile(r"(?:MD5 ?\((?P<of>.+)\) ?= ?)?(?P<hash>[0-9a-fA-F]{32})(?:[ *]+(?P<name>\S+))?")


class SourceFile(NamedTuple):
    """A file of the distribution; files sort in the order in which they are applied."""

    release: int  # 26 of pubmed26n0001
    number: int
    folder: str  # of `FOLDERS`

    @classmethod
    def named(cls, name: str, folder: str) -> SourceFile | None:
        """The file with this name; None for a name of another form."""
        match = _NAME.fullmatch(name)
        return cls(int(match[1]), int(match[2]), folder) if match else None

    @property
    def name(self) -> str:
        return file_name(self.release, self.number)

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}"


def file_name(release: int, number: int) -> str:
    return f"pubmed{release:02}n{number:04}.xml.gz"


def listed_files(page: str, folder: str) -> Iterator[tuple[SourceFile, str]]:
    """The files in a server's list of a folder, as HTML, each with what else its line says: a date and a size."""
    for line in page.splitlines():
        if (match := _LINK.search(line)) and (file := SourceFile.named(unescape(match[1]).rpartition("/")[2], folder)):
            yield file, " ".join(unescape(_TAG.sub(" ", match[2])).split())


def md5_of(text: str, file: SourceFile) -> str:
    """The MD5 in the text of a ``.md5`` file, in lower case.

    Raises:
        InputError: the text is of another form, or of another file.
    """
    match = _HASH.fullmatch(text.strip())
    if match is None or (match["of"] or match["name"] or file.name) != file.name:
        raise InputError(f"{file.name}{MD5}: expected MD5({file.name})= and 32 digits, not {text.strip()[:60]!r}")
    return match["hash"].lower()
