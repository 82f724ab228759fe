"""Files of documents and of queries, in the format of their suffix or else of their beginning."""

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
    format_by_beginning,
    format_by_suffix,
)
from rerank_plugin.files.text_files import beginning, kind_of

log = logging.getLogger(__name__)

FIELD = "field"  # the key that chooses a text of the queries, as in ``topics.xml:field=question``
EXAMPLES = 3  # named files of those that are left out for the same reason


def corpus_files(path: Path) -> tuple[Format, list[Path]]:
    """The format of a file of documents, or of the files of a folder, and the files.

    Raises:
        InputError: the format is unknown, or the folder holds none or several.
    """
    if path.is_dir():
        return _folder_format(path)
    format = format_by_suffix(kind_of(path), CORPUS)
    if format is None and not (start := _start(path)):
        raise InputError(f"{path}: is empty: name a file with documents")
    if format is None and (format := format_by_beginning(start, CORPUS)) is None:
        raise InputError(f"{path}: documents are read from {_patterns()}: rename or convert it")
    return format, [path]


def _start(path: Path) -> str:
    return beginning(path).decode(errors="replace").lstrip()


def _folder_format(folder: Path) -> tuple[Format, list[Path]]:
    """The only format of documents in a folder, and its files; a warning names the files that are left out."""
    found: dict[Format, list[Path]] = defaultdict(list)
    left_out: dict[str, list[str]] = defaultdict(list)
    for path in _files(folder):
        format, name = format_by_suffix(kind_of(path), CORPUS), str(path.relative_to(folder))
        if reason := _reason_to_skip(path, format, folder):
            left_out[reason].append(name)
        elif format is not None:
            found[format].append(path)
    names = "; ".join(
        f"{len(names):,} {reason}: {_some(names)}" for reason, names in left_out.items() if reason != HIDDEN
    )
    if not found:
        raise InputError(
            f"{folder}: no documents in this folder: expected corpus.jsonl[.gz] (BEIR), {_patterns()}"
            + (f"; left out: {names}" if names else "")
        )
    formats = [format for format in document_formats() if format in found]
    if len(formats) > 1:
        both = " and ".join(f"{format.name} ({min(found[format]).name})" for format in formats[:2])
        raise InputError(f"{folder}: holds both {both}: move one kind elsewhere")
    if names:
        log.warning("%s: left out: %s", folder, names)
    # Files of subfolders are ordered by their own names, as NLM numbers them.
    return formats[0], sorted(found[formats[0]], key=lambda path: (path.name, path))


HIDDEN = "hidden"


def _reason_to_skip(path: Path, format: Format | None, folder: Path) -> str | None:
    """The reason why a file of a folder is not read, in the plural; None for a file of documents."""
    if path.name.startswith("."):
        return "hidden files" if format else HIDDEN
    if not path.exists():
        return "dangling links"
    if format is None:
        return "files of unknown formats"
    if not path.is_file():
        return "entries that are no files"
    return None if path.parent == folder or format.subfolders else "files in subfolders"


def _files(folder: Path) -> Iterator[Path]:
    """The files of a folder and of its subfolders, without those of hidden folders; links are followed."""

    def unreadable(error: OSError) -> None:
        raise InputError(f"{error.filename}: cannot be read ({error.strerror or error})") from error

    seen = {os.path.realpath(folder)}
    for parent, subfolders, names in os.walk(folder, onerror=unreadable, followlinks=True):
        kept = {os.path.realpath(os.path.join(parent, name)): name for name in sorted(subfolders) if name[0] != "."}
        subfolders[:] = [name for target, name in kept.items() if target not in seen]
        seen |= kept.keys()
        yield from (Path(parent, name) for name in sorted(names))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:EXAMPLES]) + (", ..." if len(names) > EXAMPLES else "")


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
    format = format_by_suffix(kind_of(path), QUERIES) or format_by_beginning(start, QUERIES)
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
