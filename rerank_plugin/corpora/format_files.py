"""Files of documents and of queries, in the format of their suffix or else of their first line."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document, Query
from rerank_plugin.corpora.problems import Problems
from rerank_plugin.corpora.register import (
    CORPUS,
    QUERIES,
    Format,
    accepted,
    document_formats,
    format_by_first_line,
    format_by_suffix,
)
from rerank_plugin.files.text_files import kind_of, lines, with_suffix

log = logging.getLogger(__name__)


def documents(path: Path, problems: Problems, ids_required: bool = True) -> Iterator[Document]:
    """Stream the documents of a file, or of a folder of files in one format."""
    if path.is_dir():
        format, files = _folder_format(path)
        return format.reader.documents(files, problems, ids_required)
    of_suffix = format_by_suffix(kind_of(path), CORPUS)
    if of_suffix is None:
        raise InputError(f"{path}: documents are read from {_patterns()}: rename or convert it")
    return of_suffix.reader.documents([path], problems, ids_required)


def _folder_format(folder: Path) -> tuple[Format, list[Path]]:
    """The only format of documents in a folder, and its files."""
    formats = [(format, files) for format in document_formats() if (files := _files(folder, format))]
    if not formats:
        raise InputError(f"{folder}: no documents in this folder: expected corpus.jsonl[.gz] (BEIR), {_patterns()}")
    if len(formats) > 1:
        both = " and ".join(f"{format.name} ({files[0].name})" for format, files in formats[:2])
        raise InputError(f"{folder}: holds both {both}: move one kind elsewhere")
    return formats[0]


def _files(folder: Path, format: Format) -> list[Path]:
    """The files of a format; files of subfolders are ordered by their own names, as NLM numbers them."""
    files = with_suffix(folder, *format.suffixes)
    if files or not format.subfolders:
        return files
    subfolders = (path for path in folder.iterdir() if path.is_dir())
    files = [path for subfolder in sorted(subfolders) for path in with_suffix(subfolder, *format.suffixes)]
    return sorted(files, key=lambda path: path.name)


def _patterns() -> str:
    """The file names of all formats of documents, for messages."""
    return ", ".join(
        f"{' '.join(f'*{suffix}[.gz]' for suffix in format.suffixes)} ({format.name})" for format in document_formats()
    )


def queries(path: Path, selected: Sequence[tuple[str, str]] = ()) -> list[Query]:
    """The queries of a file, in their order; ``selected``: the keys and values that a line of JSON must have.

    Raises:
        InputError: a line cannot be read, or no query is selected.
    """
    _, first_line = next(lines(path), (0, ""))
    if not first_line:
        raise InputError(f"{path}: holds no queries; queries can be {accepted(QUERIES)}")
    format = format_by_suffix(kind_of(path), QUERIES) or format_by_first_line(first_line.lstrip(), QUERIES)
    if not selected:
        return checked(format.reader.queries(path))
    selection = " and ".join(f"{key}={value}" for key, value in selected)
    if not format.selectable:
        raise InputError(f"{path}: queries can be selected in a JSON lines file only ({selection})")
    matching = checked(format.reader.queries(path, selected))
    if not matching:
        raise InputError(f"{path}: no query has {selection}")
    return matching


def checked(records: Iterable[tuple[str, str, str]]) -> list[Query]:
    """The queries of (where, id, text) records; an unusable or repeated id is an InputError."""
    seen: dict[str, str] = {}
    result = []
    for where, id, text in records:
        if id.split() != [id]:
            raise InputError(f"{where}: {id!r} cannot be the id of a query: expected a word without white space")
        if id in seen:
            raise InputError(f"{where}: the query id {id} was used before ({seen[id]}): give every query its own id")
        seen[id] = where
        result.append(Query(id, text.strip()))
    empty = [query.id for query in result if not query.text]
    if empty:
        examples = ", ".join(empty[:5]) + (", ..." if len(empty) > 5 else "")
        log.warning("queries without text, which get no hits (%d): %s", len(empty), examples)
    return result
