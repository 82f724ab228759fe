"""What formats of documents share: numbered lines of files, and documents from records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from rerank_plugin.base.records import Document
from rerank_plugin.corpora.metadata import metadata_of
from rerank_plugin.corpora.problems import OTHER_ENCODING, UNDECODABLE_LINE, UNUSABLE_METADATA, Problems, usable
from rerank_plugin.files.text_files import DAMAGED, byte_lines, damaged, rereadable

UNDEFINED = b"\x81\x8d\x8f\x90\x9d"  # in Windows-1252
NO_ABSTRACT = "Abstract available from the publisher."  # NLM's placeholder for another abstract


class Record(NamedTuple):
    """A record of a corpus as it was read: the id may be invalid, and the metadata in ``fields`` as well."""

    id: object
    title: str
    abstract: str
    fields: Mapping[str, Any] = {}


class Deletion(NamedTuple):
    """A document that a corpus deletes, by its id; ``version`` None: all versions of it."""

    id: str
    version: int | None = None


class DocumentStream(Iterator[Document]):
    """Documents of a corpus that may also delete documents, as daily files of PubMed do, from an index that has them.

    Args:
        deletions: lists to which the readers of the documents add.
    """

    def __init__(self, documents: Iterable[Document], deletions: Sequence[list[Deletion]]):
        self._documents, self.lists = iter(documents), deletions

    def __next__(self) -> Document:
        return next(self._documents)

    @property
    def deletions(self) -> list[Deletion]:
        """All deletions that were read; they precede all documents of the stream, also those of the same ids.

        They are complete when the first document with a version, or the end of the stream, is reached.
        """
        return list(chain.from_iterable(self.lists))


def usable_documents(
    records: Iterable[tuple[str, Record]], problems: Problems, ids_required: bool = True
) -> Iterator[Document]:
    """The documents of (where, record) pairs; ``where`` is the record's place, such as ``file:line``.

    Unusable records are left out and added to ``problems``, as are the unusable metadata of a document.
    """
    for where, (id, title, abstract, fields) in records:
        metadata, unusable = metadata_of(fields)
        document = usable(id, title, abstract, where, problems, ids_required, metadata)
        if document is not None:
            for name in unusable:
                problems.add(UNUSABLE_METADATA, f"{where} ({name})")
            yield document


def numbered_lines(path: Path, problems: Problems) -> Iterator[tuple[str, bytes]]:
    """The place (``file:line``) and the bytes of each line, decompressed, with its line end.

    A damaged compressed file is added to ``problems``, after the lines before the damage.
    """
    name, number = str(path), 0
    try:
        for number, line in enumerate(byte_lines(path), 1):
            yield f"{name}:{number}", line
    except DAMAGED as error:
        problems.add(damaged(path), f"{name}:{number + 1} ({error})")


def text_lines(path: Path, problems: Problems, ends: str | None = None) -> Iterator[tuple[str, str]]:
    """The place (``file:line``) and the text of each line, without white space (or ``ends``) at its end.

    All lines of a file have one encoding: UTF-8 or, as older exports have, Windows-1252 or Latin-1, which is added to
    ``problems``. A line of UTF-8 with other bytes is added, too; each of them becomes U+FFFD.
    """
    with rereadable([path]):
        if (encoding := _encoding(path)) != "utf-8":
            problems.add(OTHER_ENCODING, f"{path} (read as {encoding})")
        for where, line in numbered_lines(path, problems):
            try:
                yield where, line.decode(encoding).rstrip(ends)
            except UnicodeDecodeError as error:
                problems.add(UNDECODABLE_LINE, f"{where} ({error})")
                yield where, line.decode(encoding, errors="replace").rstrip(ends)


def _encoding(path: Path) -> str:
    """The encoding of a file of text: UTF-8 if most of its lines that are not ASCII are."""
    balance, bytes_of_others = 0, set[int]()  # lines of UTF-8 less others
    for _, line in numbered_lines(path, Problems()):
        if not line.isascii():
            try:
                line.decode()
                balance += 1
            except UnicodeDecodeError:
                balance -= 1
                bytes_of_others.update(line)
    if balance >= 0:
        return "utf-8"
    return "cp1252" if bytes_of_others.isdisjoint(UNDEFINED) else "latin-1"
