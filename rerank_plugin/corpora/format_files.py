"""Files of documents and of queries, in the format of their content or else of their suffix."""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.corpora.register import (
    CORPUS,
    QUERIES,
    Format,
    accepted,
    document_formats,
    find_format,
)
from rerank_plugin.files import zips
from rerank_plugin.files.text_files import beginning, kind_of

log = logging.getLogger(__name__)

FIELD = "field"  # the key that chooses a text of the queries, as in ``topics.xml:field=question``
MOST_QUERIES, MOST_CHARACTERS = 10_000_000, 1_000_000_000  # which are kept in memory
EXAMPLES = 3  # named files of those that are left out for the same reason


def corpus_files(path: Path) -> dict[Format, list[Path]]:
    """A file of documents, or those of a folder or a zip, by format.

    Raises:
        InputError: the format of the file is unknown, or the folder holds no documents.
    """
    if path.is_dir() or zips.is_zip(path):
        return _folder_files(path)
    if (format := format_of(path, CORPUS)) is None:
        if not _start(path):
            raise InputError(f"{path}: is empty: name a file with documents")
        raise InputError(f"{path}: documents are read from {_patterns()}: rename or convert it")
    return {format: [path]}


def format_of(path: Path, kind: str) -> Format | None:
    """The format of a file, plain or compressed, that gives this kind of records; None if it is unknown."""
    return find_format(kind, kind_of(path), _start(path))


def _start(path: Path) -> str:
    return beginning(path).decode(errors="replace").lstrip()


def _folder_files(folder: Path) -> dict[Format, list[Path]]:
    """The files of documents in a folder or a zip, by format; a warning names the files that are left out."""
    files: dict[Format, list[Path]] = defaultdict(list)
    left_out: dict[str, list[Path]] = defaultdict(list)
    for path in _files(folder):
        format, reason = _format_or_reason(path, folder)
        if format is not None:
            files[format].append(path)
        elif reason is not None:
            left_out[reason].append(path)
    names = _counted(left_out.items(), folder)
    if not files:
        kind = "folder" if folder.is_dir() else "zip"
        raise InputError(
            f"{folder}: no documents in this {kind}: expected corpus.jsonl[.gz] (BEIR), {_patterns()}"
            + (f"; left out: {names}" if names else "")
        )
    if len(files) > 1:
        kinds = _counted(((f"of {format.name}", paths) for format, paths in files.items()), folder)
        log.warning("%s: holds files of several formats: %s", folder, kinds)
    if names:
        log.warning("%s: left out: %s", folder, names)
    # Files of subfolders are ordered by their own names, as NLM numbers them.
    return {format: sorted(paths, key=lambda path: (path.name, path)) for format, paths in files.items()}


def _format_or_reason(path: Path, folder: Path) -> tuple[Format | None, str | None]:
    """The format of a file of a folder, or the reason why it is not read, in the plural; neither for a hidden file that
    has no suffix of documents.
    """
    if path.name.startswith("."):
        return None, "hidden files" if find_format(CORPUS, kind_of(path), "") else None
    zipped = zips.archive_of(path) is not None
    if not zipped and not path.exists():
        return None, "dangling links"
    if not zipped and not path.is_file():
        return None, "entries that are no files"
    if (start := _start(path))[:4].encode().startswith(zips.MARKS):
        return None, "zips in a zip"
    if (format := find_format(CORPUS, kind_of(path), start)) is None:
        return None, "files of unknown formats"
    return (format, None) if path.parent == folder or zipped or format.subfolders else (None, "files in subfolders")


def _files(folder: Path) -> Iterator[Path]:
    """The files of a folder and of its subfolders, without those of hidden folders; links are followed.

    Of a zip, as which the folder may be given, the files are its members.
    """
    if zips.is_zip(folder):
        yield from zips.members(folder)
        return

    def unreadable(error: OSError) -> None:
        raise InputError(f"{error.filename}: cannot be read ({error.strerror or error})") from error

    seen = {os.path.realpath(folder)}
    for parent, subfolders, names in os.walk(folder, onerror=unreadable, followlinks=True):
        kept = {os.path.realpath(os.path.join(parent, name)): name for name in sorted(subfolders) if name[0] != "."}
        subfolders[:] = [name for target, name in kept.items() if target not in seen]
        seen |= kept.keys()
        for path in (Path(parent, name) for name in sorted(names)):
            yield from zips.members(path) if zips.is_zip(path) and path.name[0] != "." else [path]


def _counted(kinds: Iterable[tuple[str, Sequence[Path]]], folder: Path) -> str:
    """The number and the first names of files of several kinds, ``2 hidden files: .a.xml, .b.xml; ...``."""

    def names(paths: Sequence[Path]) -> str:
        return ", ".join(str(path.relative_to(folder)) for path in paths[:EXAMPLES]) + ", ..." * (len(paths) > EXAMPLES)

    return "; ".join(f"{len(paths):,} {kind}: {names(paths)}" for kind, paths in kinds)


def _patterns() -> str:
    """The file names of all formats of documents, for messages."""
    return ", ".join(
        f"{' '.join(f'*{suffix}[.gz]' for suffix in format.suffixes)} ({format.name})" for format in document_formats()
    )


def queries(path: Path, selected: Sequence[tuple[str, str]] = ()) -> list[Query]:
    """The queries of a file, in their order.

    Args:
        selected: the keys and values that a line of JSON must have; the key `FIELD` names the text of a query.

    Raises:
        InputError: a line cannot be read, or no query is selected.
    """
    start = _start(path)
    nothing = InputError(f"{path}: holds no queries; queries can be {accepted(QUERIES)}")
    if not start:
        raise nothing
    format = find_format(QUERIES, kind_of(path), start)
    assert format is not None, "one format of queries is the default"
    if not selected:
        if not (read := checked(format.reader.queries(path))):
            raise nothing
        return read
    selection = " and ".join(f"{key}={value}" for key, value in selected)
    fields = [value for key, value in selected if key == FIELD] if format.has_fields else []
    others = [pair for pair in selected if not fields or pair[0] != FIELD]
    if others and not format.selectable:
        raise InputError(f"{path}: queries can be selected in a JSON lines file only ({selection})")
    matching = checked(format.reader.queries(path, others, *fields))
    if not matching:
        raise InputError(f"{path}: no query has {selection}")
    return matching


def folder_queries(folder: Path) -> list[Query]:
    """The queries of a folder whose files hold a part each, by their names; none if there are no such files."""
    records: list[tuple[str, str, str]] = []
    for path in sorted(path for path in _files(folder) if path.is_file() and path.name[0] != "."):
        if (format := format_of(path, QUERIES)) is not None and format.folders:
            records += format.reader.queries(path)
    return checked(records)


def checked(records: Iterable[tuple[str, str, str]]) -> list[Query]:
    """The queries of (where, id, text) records; an unusable or repeated id, or too many, is an InputError."""
    seen: dict[str, str] = {}
    result, characters = list[Query](), 0
    for where, id, text in records:
        characters += len(text)
        if len(result) == MOST_QUERIES or characters > MOST_CHARACTERS:
            raise InputError(
                f"{where}: more than {MOST_QUERIES:,} queries, or {MOST_CHARACTERS:,} characters of them: give them in "
                "several files"
            )
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
