"""A file of queries: TSV (``id<TAB>text``), JSON lines, or TREC topics; told by its name, else by its first line.

A query is the user's own, so nothing is skipped here: a line that cannot be read is an InputError.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Iterable, Iterator, Sequence

from rerank_plugin.corpora import jsonl, trec_topics
from rerank_plugin.corpora.problems import white_space
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.files.text_files import kind_of, lines

log = logging.getLogger(__name__)

ID_KEYS = ("_id", "id", "qid", "query_id")
TEXT_KEYS = ("text", "query", "title")


def queries(path: Path, selected: Sequence[tuple[str, str]] = ()) -> list[Query]:
    """The queries of a file, in their order.

    Args:
        selected: keys and values; of a JSON lines file those queries are read that have all of them.
    """
    _, start = next(lines(path), (0, ""))
    if not start:
        raise InputError(f"{path}: holds no queries: expected lines of id<TAB>text, JSON lines or TREC topics")
    kind, start = kind_of(path), start.lstrip()
    if kind == ".tsv":
        found = _tsv(path)
    elif kind in (".jsonl", ".json", ".ndjson") or start.startswith("{"):
        return _selected(path, selected)
    elif start.startswith("<"):
        found = trec_topics.topics(path)
    else:
        found = _tsv(path)
    if selected:
        raise InputError(f"{path}: only of a JSON lines file some queries can be selected ({_shown(selected)})")
    return checked(found)


def _selected(path: Path, selected: Sequence[tuple[str, str]]) -> list[Query]:
    found = checked(_json_lines(path, selected))
    if selected and not found:
        raise InputError(f"{path}: no query has {_shown(selected)}")
    return found


def _shown(selected: Sequence[tuple[str, str]]) -> str:
    return " and ".join(f"{key}={value}" for key, value in selected)


def checked(found: Iterable[tuple[str, str, str]]) -> list[Query]:
    """The queries of (where, id, text) triples, once their ids are known to be usable and different."""
    seen: dict[str, str] = {}
    result = []
    for where, id, text in found:
        if not id or white_space(id):
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


def _tsv(path: Path) -> Iterator[tuple[str, str, str]]:
    for number, line in lines(path):
        columns = line.split("\t")
        if len(columns) != 2:
            raise InputError(f"{path}:{number}: expected id<TAB>text, found {len(columns)} column(s)")
        yield f"{path}:{number}", columns[0].strip(), columns[1]


def _json_lines(path: Path, selected: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    for number, line in lines(path):
        where = f"{path}:{number}"
        try:
            record = jsonl.parse(line.encode())
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: bad JSON line ({error}): expected one object a line") from error
        if any(str(record.get(key)) != value for key, value in selected):
            continue
        id, text = jsonl.first(record, ID_KEYS), jsonl.first(record, TEXT_KEYS)
        if id is None:
            raise InputError(f"{where}: a query without an id: expected one under {', '.join(ID_KEYS)}")
        if text is None and not any(key in record for key in TEXT_KEYS):
            raise InputError(f"{where}: query {id} has no text: expected one under {', '.join(TEXT_KEYS)}")
        if type(id) not in (str, int) or not isinstance(text, (str, type(None))):
            raise InputError(f"{where}: the id of a query is a string or a whole number, and its text a string")
        yield where, str(id), text or ""
