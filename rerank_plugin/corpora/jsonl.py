"""Documents as JSON lines: one object a line, as BEIR, Pyserini and many exports of PubMed have them.

The id is under ``_id``, ``id``, ``docid``, ``doc_id`` or ``pmid`` (a string or a whole number), the title under
``title`` or ``question``, the abstract under ``text``, ``abstract``, ``contents``, ``body``, ``paragraphs`` or
``answer``: the first that is not empty. A list of strings (SciFact's sentences) is joined by spaces.

This is the hot path of indexing: beyond the parsing of JSON a line costs a few look-ups.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Iterable, Iterator

from rerank_plugin.corpora.problems import BAD_JSON_LINE, DAMAGED_GZIP, Problems, usable
from rerank_plugin.files.records import Document
from rerank_plugin.files.text_files import DAMAGED, byte_lines

ID_KEYS = ("_id", "id", "docid", "doc_id", "pmid")
TITLE_KEYS = ("title", "question")
TEXT_KEYS = ("text", "abstract", "contents", "body", "paragraphs", "answer")


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
                        title = _text(title)
                    if type(abstract) is not str:
                        abstract = _text(abstract)
                except (ValueError, RecursionError) as error:  # bad JSON, no UTF-8, no object, no text
                    if line.strip():
                        problems.add(BAD_JSON_LINE, f"{name}:{number} ({error})")
                    continue
                id = first(record, ID_KEYS)
                if type(id) is int:
                    id = str(id)
                document = usable(id, title, abstract, f"{name}:{number}", problems, ids_required)
                if document is not None:
                    yield document
        except DAMAGED as error:
            problems.add(DAMAGED_GZIP, f"{name}:{number + 1} ({error})")


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


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " ".join(map(_text, value))
    if type(value) is int or type(value) is float and math.isfinite(value):  # 1e999 is infinite to Python
        return str(value)
    raise ValueError(f"expected a text, found {type(value).__name__}")
