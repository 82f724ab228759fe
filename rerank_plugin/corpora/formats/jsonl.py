"""Documents and queries as JSON lines: one object a line, as BEIR, Pyserini and many exports of PubMed have them.

Metadata (date, journal, ...: :mod:`rerank_plugin.base.filters`) are read from the object and from its ``metadata``.

The id is under ``_id``, ``id``, ``docid``, ``doc_id`` or ``pmid`` (a string or a whole number), the title under
``title`` or ``question``, the abstract under ``text``, ``abstract``, ``contents``, ``body``, ``paragraphs`` or
``answer``: the first that is not empty. A list of strings (SciFact's sentences) is joined by spaces.

This is the hot path of indexing: beyond the parsing of JSON a line costs a few look-ups.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document
from rerank_plugin.corpora.metadata import metadata_of
from rerank_plugin.corpora.problems import BAD_JSON_LINE, DAMAGED_GZIP, UNUSABLE_METADATA, Problems, usable
from rerank_plugin.corpora.register import CORPUS, QUERIES, Format, register
from rerank_plugin.files.text_files import DAMAGED, byte_lines, lines

ID_KEYS = ("_id", "id", "docid", "doc_id", "pmid")
TITLE_KEYS = ("title", "question")
TEXT_KEYS = ("text", "abstract", "contents", "body", "paragraphs", "answer")
QUERY_ID_KEYS = ("_id", "id", "qid", "query_id")
QUERY_TEXT_KEYS = ("text", "query", "title")


def documents(paths: Iterable[Path], problems: Problems, ids_required: bool = True) -> Iterator[Document]:
    """Stream the documents of files, in their order. Lines that are no JSON object are told to ``problems``."""
    for path in paths:
        name, number = str(path), 0
        try:
            for number, line in enumerate(byte_lines(path), 1):
                try:
                    record = parse(line)
                    title, abstract = first(record, TITLE_KEYS), first(record, TEXT_KEYS)
                    if type(title) is not str:
                        title = text_of(title)
                    if type(abstract) is not str:
                        abstract = text_of(abstract)
                except (ValueError, RecursionError) as error:  # bad JSON, no UTF-8, no object, no text
                    if line.strip():
                        problems.add(BAD_JSON_LINE, f"{name}:{number} ({error})")
                    continue
                id = first(record, ID_KEYS)
                if type(id) is int:
                    id = str(id)
                metadata, unusable = metadata_of(record)
                document = usable(id, title, abstract, f"{name}:{number}", problems, ids_required, metadata)
                if document is not None:
                    for entry in unusable:
                        problems.add(UNUSABLE_METADATA, f"{name}:{number} ({entry})")
                    yield document
        except DAMAGED as error:
            problems.add(DAMAGED_GZIP, f"{name}:{number + 1} ({error})")


def queries(path: Path, selected: Sequence[tuple[str, str]] = ()) -> Iterator[tuple[str, str, str]]:
    """(where, id, text) of every line that has all the keys and values ``selected``."""
    for number, line in lines(path):
        where = f"{path}:{number}"
        try:
            record = parse(line.encode())
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: bad JSON line ({error}): expected one object a line") from error
        if any(str(record.get(key)) != value for key, value in selected):
            continue
        id, text = first(record, QUERY_ID_KEYS), first(record, QUERY_TEXT_KEYS)
        if id is None:
            raise InputError(f"{where}: a query without an id: expected one under {', '.join(QUERY_ID_KEYS)}")
        if text is None and not any(key in record for key in QUERY_TEXT_KEYS):
            raise InputError(f"{where}: query {id} has no text: expected one under {', '.join(QUERY_TEXT_KEYS)}")
        if type(id) not in (str, int) or not isinstance(text, (str, type(None))):
            raise InputError(f"{where}: the id of a query is a string or a whole number, and its text a string")
        yield where, str(id), text or ""


def _no_json(word: str) -> None:
    raise ValueError(f"{word} is not JSON: write null where there is no value")


# What json.loads calls, without its making of a decoder for every line that is read with an option.
_decode = json.JSONDecoder(parse_constant=_no_json).decode


def parse(line: bytes) -> dict:
    """The object of a line; a ValueError where there is none."""
    record = _decode(line.decode())
    if type(record) is not dict:
        raise ValueError(f"expected an object, found {type(record).__name__}")
    if b"\\ud" in line or b"\\uD" in line:
        # Half of a surrogate pair, written as an escape, is no character: no file and no Lucene index could hold it.
        whole = json.dumps(record, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        record = json.loads(whole)
    return record


def first(record: dict, keys: Iterable[str]) -> object:
    """The first value under one of ``keys`` that is neither null nor empty, or None."""
    for key in keys:
        value = record.get(key)
        if value is not None and value != "":
            return value
    return None


def text_of(value: object) -> str:
    """The text of a JSON value; lists are joined by spaces. A ValueError for what is no text."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " ".join(map(text_of, value))
    if type(value) is int or type(value) is float and math.isfinite(value):  # 1e999 is infinite to Python
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
