"""Queries as TSV: lines of ``id<TAB>text``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora.register import QUERIES, Format, register
from rerank_plugin.files.text_files import lines


def queries(path: Path) -> Iterator[tuple[str, str, str]]:
    """(where, id, text) of every line."""
    for number, line in lines(path):
        columns = line.split("\t")
        if len(columns) != 2:
            raise InputError(f"{path}:{number}: expected id<TAB>text, found {len(columns)} columns")
        yield f"{path}:{number}", columns[0].strip(), columns[1]


register(Format("TSV", __name__, {QUERIES: "a TSV file (id<TAB>text)"}, suffixes=(".tsv",), default=True))
