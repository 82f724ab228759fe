"""Documents and queries as JSON lines: one object a line, as in BEIR, Pyserini and many exports of PubMed.

Metadata (date, journal, ...: :mod:`rerank_plugin.base.filters`) are read from the object and from its ``metadata``.

The id (a string or an integer) is under ``_id``, ``id``, ``docid``, ``doc_id`` or ``pmid``, the title under ``title``
or ``question``, the abstract under ``text``, ``abstract``, ``contents``, ``body``, ``paragraphs`` or ``answer``: the
first non-empty value. A list of strings (SciFact's sentences) is joined by spaces.

This is the hot path of indexing: a line costs a few look-ups besides the parsing of JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document
from rerank_plugin.corpora.problems import BAD_JSON_LINE, Problems
from rerank_plugin.corpora.records import Record, numbered_lines, usable_documents
from rerank_plugin.corpora.register import CORPUS, QUERIES, Format, register
from rerank_plugin.files.text_files import lines
from rerank_plugin.text.markup import without_markup

ID_KEYS = ("_id", "id", "docid", "doc_id", "pmid")
TITLE_KEYS = ("title", "question")
TEXT_KEYS = ("text", "abstract", "contents", "body", "paragraphs", "answer")
QUERY_ID_KEYS = ("_id", "id", "qid", "query_id")
QUERY_TEXT_KEYS = ("text", "query", "title")


def documents(paths: Iterable[Path], problems: Problems, ids_required: bool = True) -> Iterator[Document]:
    """Stream the documents of files, in their order. Lines that are not a JSON object are added to ``problems``."""
    return usable_documents(_records(paths, problems), problems, ids_required)


def _records(paths: Iterable[Path], problems: Problems) -> Iterator[tuple[str, Record]]:
    for path in paths:
        for where, line in numbered_lines(path, problems):
            try:
                record = parse(line)
                title, abstract = first(record, TITLE_KEYS), first(record, TEXT_KEYS)
                if type(title) is not str:
                    title = text_of(title)
                if type(abstract) is not str:
                    abstract = text_of(abstract)
            except (ValueError, RecursionError) as error:  # invalid JSON or UTF-8, or a value that is not text
                if line.strip():
                    problems.add(BAD_JSON_LINE, f"{where} ({error})")
                continue
            id = first(record, ID_KEYS)
            yield where, Record(str(id) if type(id) is int else id, title, abstract, record)


def queries(path: Path, selected: Sequence[tuple[str, str]] = ()) -> Iterator[tuple[str, str, str]]:
    """(where, id, text) of every line that has all ``selected`` keys and values."""
    for number, line in lines(path):
        where = f"{path}:{number}"
        try:
            record = parse(line.encode())
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: bad JSON line ({error}): expected a JSON object") from error
        if any(str(record.get(key)) != value for key, value in selected):
            continue
        id, text = first(record, QUERY_ID_KEYS), first(record, QUERY_TEXT_KEYS)
        if id is None:
            raise InputError(f"{where}: a query without an id: add one under {' or '.join(QUERY_ID_KEYS)}")
        if text is None and not any(key in record for key in QUERY_TEXT_KEYS):
            raise InputError(f"{where}: query {id} has no text: add one under {' or '.join(QUERY_TEXT_KEYS)}")
        if type(id) not in (str, int) or not isinstance(text, (str, type(None))):
            raise InputError(f"{where}: the id of a query must be a string or an integer, and its text a string")
        yield where, str(id), without_markup(text or "")


def _reject_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON: write null for a missing value")


# Unlike json.loads with an option, this does not make a decoder for every line.
_decode = json.JSONDecoder(parse_constant=_reject_constant).decode


def parse(line: bytes) -> dict:
    """The JSON object of a line; a ValueError for any other line."""
    record = _decode(line.decode())
    if type(record) is not dict:
        raise ValueError(f"expected an object, found {type(record).__name__}")
    if b"\\ud" in line or b"\\uD" in line:
        # Half of an escaped surrogate pair is not a character: no file and no Lucene index could hold it.
        repaired = json.dumps(record, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        record = json.loads(repaired)
    return record


def first(record: dict, keys: Iterable[str]) -> object:
    """The first value under ``keys`` that is neither null nor empty, or None."""
    for key in keys:
        value = record.get(key)
        if value is not None and value != "":
            return value
    return None


def text_of(value: object) -> str:
    """The text of a JSON value; lists are joined by spaces. A ValueError for any other value."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " ".join(map(text_of, value))
    if type(value) is int or type(value) is float and math.isfinite(value):  # Python reads 1e999 as infinity
        return str(value)
    raise ValueError(f"expected a text, found {type(value).__name__}")


register(
    Format(
        "JSON lines",
        __name__,
        {CORPUS: "JSON lines (*.jsonl[.gz] or a folder)", QUERIES: "a JSON lines file[:key=value...]"},
        suffixes=(".jsonl", ".json", ".ndjson"),
        begins="{",
        selectable=True,
    )
)
