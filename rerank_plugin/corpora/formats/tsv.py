"""Queries as TSV: lines of ``id<TAB>text``, or a header that names these and further columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora.metadata import folded_key
from rerank_plugin.corpora.register import QUERIES, Format, register
from rerank_plugin.files.text_files import lines

IDS = ("id", "qid", "queryid", "topicid", "topic", "number", "num")
NEVER_IDS = ("id", "qid", "queryid", "topicid", "questionid")  # of a query, so that they are a header
TEXTS = ("text", "query", "querytext", "title", "question", "body", "description")


def queries(path: Path, selected: object = (), field: str | None = None) -> Iterator[tuple[str, str, str]]:
    """(where, id, text) of every line below a header, if there is one; ``field``: the column of the text."""
    width, id_column, text_column = 2, 0, 1
    first = True
    for number, line in lines(path):
        columns = line.split("\t")
        if first:
            first = False
            if (named := header(columns, field)) is not None:
                width, (id_column, text_column) = len(columns), named
                continue
            if field is not None:
                raise InputError(f"{path}:{number}: no header of the columns has {field}")
        if len(columns) != width:
            expected = "id<TAB>text" if width == 2 else f"{width} columns, as in the header"
            raise InputError(f"{path}:{number}: expected {expected}, found {len(columns)} columns")
        yield f"{path}:{number}", columns[id_column].strip(), columns[text_column]


def header(columns: Sequence[str], field: str | None) -> tuple[int, int] | None:
    """The columns of ids and texts in a header; None if the first line is a query."""
    names = [folded_key(name) for name in columns]
    texts = TEXTS if field is None else (folded_key(field),)
    id = next((names.index(name) for name in IDS if name in names), None)
    text = next((names.index(name) for name in texts if name in names), None)
    if text is None and field is None and len(names) == 2 and names[0] in NEVER_IDS and len(columns[1].split()) == 1:
        text = 1  # of another name
    return None if id is None or text is None or id == text else (id, text)


register(
    Format("TSV", __name__, {QUERIES: "a TSV file (id<TAB>text)"}, suffixes=(".tsv",), default=True, has_fields=True)
)
