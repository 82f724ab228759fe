"""A file of queries, in the format that its name tells, or else its first line.

No query is skipped: a line that cannot be read is an InputError.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from rerank_plugin.corpora.problems import white_space
from rerank_plugin.corpora.register import QUERIES, accepted, of_first_line, of_suffix
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.files.text_files import kind_of, lines

log = logging.getLogger(__name__)


def queries(path: Path, selected: Sequence[tuple[str, str]] = ()) -> list[Query]:
    """The queries of a file, in their order.

    Args:
        selected: keys and values; of a JSON lines file those queries are read that have all of them.
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
