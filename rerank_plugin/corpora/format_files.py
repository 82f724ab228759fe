"""Files of documents and of queries, in the format that their names tell, or else the first line."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document, Query
from rerank_plugin.corpora.problems import Problems
from rerank_plugin.corpora.register import CORPUS, QUERIES, Format, accepted, document_formats, of_first_line, of_suffix
from rerank_plugin.files.text_files import kind_of, lines, with_suffix

log = logging.getLogger(__name__)


def documents(path: Path, problems: Problems, ids_required: bool = True) -> Iterator[Document]:
    """Stream the documents of a file, or of a folder of files in one format."""
    if path.is_dir():
        of_files, files = _of_folder(path)
    else:
        of_files, files = of_suffix(kind_of(path), CORPUS), [path]
        if of_files is None:
            raise InputError(f"{path}: documents are read from {_named()}: rename or convert it")
    return of_files.reader.documents(files, problems, ids_required)


def _of_folder(folder: Path) -> tuple[Format, list[Path]]:
    found = [(one, files) for one in document_formats() if (files := _files(folder, one))]
    if not found:
        raise InputError(f"{folder}: no documents in this folder: expected corpus.jsonl[.gz] (BEIR), {_named()}")
    if len(found) > 1:
        both = " and ".join(f"{one.name} ({files[0].name})" for one, files in found[:2])
        raise InputError(f"{folder}: holds both {both}: move one kind elsewhere")
    return found[0]


def _files(folder: Path, of_files: Format) -> list[Path]:
    """The files of one format; below the folder they are ordered by name, as NLM numbers them, and not by folder."""
    found = with_suffix(folder, *of_files.suffixes)
    if found or not of_files.subfolders:
        return found
    inner = (path for path in sorted(folder.iterdir()) if path.is_dir())
    return sorted((path for one in inner for path in with_suffix(one, *of_files.suffixes)), key=lambda path: path.name)


def _named() -> str:
    """The names of files of documents, for messages."""
    suffixes = ((" ".join(f"*{suffix}[.gz]" for suffix in one.suffixes), one.name) for one in document_formats())
    return ", ".join(f"{shown} ({name})" for shown, name in suffixes)


def queries(path: Path, selected: Sequence[tuple[str, str]] = ()) -> list[Query]:
    """The queries of a file, in their order, or of a JSON lines file those that have all keys and values ``selected``.

    None is skipped: a line that cannot be read is an InputError.
    """
    _, start = next(lines(path), (0, ""))
    if not start:
        raise InputError(f"{path}: holds no queries; queries can be {accepted(QUERIES)}")
    of_file = of_suffix(kind_of(path), QUERIES) or of_first_line(start.lstrip(), QUERIES)
    if not selected:
        return checked(of_file.reader.queries(path))
    shown = " and ".join(f"{key}={value}" for key, value in selected)
    if not of_file.selectable:
        raise InputError(f"{path}: only of a JSON lines file some queries can be selected ({shown})")
    found = checked(of_file.reader.queries(path, selected))
    if not found:
        raise InputError(f"{path}: no query has {shown}")
    return found


def checked(found: Iterable[tuple[str, str, str]]) -> list[Query]:
    """The queries of (where, id, text) triples, once their ids are known to be usable and different."""
    seen: dict[str, str] = {}
    result = []
    for where, id, text in found:
        if id.split() != [id]:
            raise InputError(f"{where}: {id!r} cannot be the id of a query: expected a word without white space")
        if id in seen:
            raise InputError(f"{where}: the query id {id} was used before ({seen[id]}): give every query its own id")
        seen[id] = where
        result.append(Query(id, text.strip()))
    empty = [query.id for query in result if not query.text]
    if empty:
        named = ", ".join(empty[:5]) + (", ..." if len(empty) > 5 else "")
        log.warning("queries without text, for which nothing is ranked (%d): %s", len(empty), named)
    return result
