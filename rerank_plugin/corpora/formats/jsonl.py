"""Documents and queries as JSON: one object a line, as in BEIR, Pyserini and many exports of PubMed; or several lines
an object; an array of objects; or an object that holds such an array, as of BioASQ and Europe PMC.

Objects of BioC and of ClinicalTrials.gov have readers of their own (`FORMATS`).

Metadata (date, journal, ...: :mod:`rerank_plugin.base.filters`) are read from the object and from its ``metadata``.

The id (a string or an integer) is under ``_id``, ``id``, ``docid``, ``doc_id`` or ``pmid``, the title under ``title``
or ``question``, the abstract under ``text``, ``abstract``, ``body``, ``paragraphs``, ``answer``, ``content`` or
``contents``: the first that holds a text. The keys of Europe PMC, pubmed_parser, MEDLINE and others follow, in any
letter case, also those of full texts (:mod:`rerank_plugin.corpora.json_texts`). A text may be a list, labelled parts or
an inverted index (:mod:`rerank_plugin.corpora.json_texts`), and a record lie in others
(:mod:`rerank_plugin.corpora.json_objects`). A title may be in ``metadata``, as in CORD-19; ``contents`` that begin with
the title lose it. Tags and entities are markup.

This is the hot path of indexing: a line costs a few look-ups besides the parsing of JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document
from rerank_plugin.corpora.formats import bioc, clinical_trials
from rerank_plugin.corpora.json_objects import objects
from rerank_plugin.corpora.json_texts import (
    QUERY_ID_KEYS,
    QUERY_TEXT_KEYS,
    TITLE_KEYS,
    first_text,
    first_value,
    keys_of,
    present,
    without_title,
)
from rerank_plugin.corpora.metadata import folded_key, is_empty, whole_number
from rerank_plugin.corpora.problems import BAD_JSON_LINE, UNREAD_PART, UNREAD_TEXT, Problems
from rerank_plugin.corpora.records import Record, usable_documents
from rerank_plugin.corpora.register import CORPUS, QUERIES, Format, register
from rerank_plugin.text.markup import without_markup

FORMATS: dict[str, Callable[[dict], Record]] = {"passages": bioc.document, "protocolSection": clinical_trials.study}
TITLED = ("content", "contents", "pagecontent")  # texts that may begin with the title, as Anserini and MedRAG have them


def documents(paths: Iterable[Path], problems: Problems, ids_required: bool = True) -> Iterator[Document]:
    """Stream the documents of files, in their order. What is not a JSON object is added to ``problems``."""
    return usable_documents(_records(paths, problems), problems, ids_required)


def _records(paths: Iterable[Path], problems: Problems) -> Iterator[tuple[str, Record]]:
    def report(kind: str, where: str, reason: object) -> None:
        problems.add(kind, f"{where} ({reason})")

    for path in paths:
        for where, record in objects(path, report):
            keys, reasons = keys_of(tuple(record)), list[str]()
            try:
                if keys.format is not None:
                    yield where, FORMATS[keys.format](record)
                    continue
                title, _ = first_text(record, keys.title, reasons)
                if not title and type(inner := record.get("metadata")) is dict:
                    title, _ = first_text(inner, present(tuple(inner), TITLE_KEYS), reasons)
                abstract, key = first_text(record, keys.text, reasons)
                unread = [] if abstract else [key for key in keys.unknown if _is_text(record[key])]
            except (RecursionError, ValueError) as error:
                report(BAD_JSON_LINE, where, error)
                continue
            if title and folded_key(key) in TITLED:
                abstract = without_title(abstract, title)
            if reasons and not title and not abstract:
                report(BAD_JSON_LINE, where, reasons[0])
                continue
            for reason in reasons:
                report(UNREAD_PART, where, reason)
            if unread and title:
                report(UNREAD_TEXT, where, ", ".join(unread))
            elif unread:
                where += f", keys {', '.join(unread)}"
            yield where, Record(_id(record, keys.id), title, abstract, record)


def _id(record: dict, keys: Iterable[str]) -> object:
    key = next((key for key in keys if not is_empty(record[key])), None)
    return None if key is None else whole_number(record[key], folded_key(key) in ("pmid", "pubmedid"))


def queries(
    path: Path, selected: Sequence[tuple[str, str]] = (), field: str | None = None
) -> Iterator[tuple[str, str, str]]:
    """(where, id, text) of every object that has all ``selected`` keys and values; ``field``: the key of the text."""

    def refuse(kind: str, where: str, reason: object) -> None:
        raise InputError(f"{where}: {kind} ({reason}): expected a JSON object")

    for where, record in objects(path, refuse):
        if any(str(record.get(key)) != value for key, value in selected):
            continue
        id = _id(record, present(tuple(record), QUERY_ID_KEYS))
        keys = present(tuple(record), QUERY_TEXT_KEYS) if field is None else [key for key in (field,) if key in record]
        text = first_value(record, keys)
        if id is None:
            raise InputError(f"{where}: a query without an id: add one under {' or '.join(QUERY_ID_KEYS)}")
        if text is None and not keys:
            expected = f"name one of {', '.join(record)}" if field else f"add one under {' or '.join(QUERY_TEXT_KEYS)}"
            raise InputError(f"{where}: query {id} has no {field or 'text'}: {expected}")
        if type(id) is not str or not isinstance(text, (str, type(None))):
            raise InputError(f"{where}: the id of a query must be a string or an integer, and its text a string")
        yield where, id, without_markup(text or "")


def _is_text(value: object) -> bool:
    """Whether a value looks like a text: some words."""
    if isinstance(value, (list, dict)):
        return any(map(_is_text, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and len(value.split(None, 3)) > 2


register(
    Format(
        "JSON lines",
        __name__,
        {
            CORPUS: "JSON lines or arrays (*.jsonl[.gz], *.json or a folder)",
            QUERIES: "a JSON file[:key=value...][:field=KEY]",
        },
        suffixes=(".jsonl", ".json", ".ndjson"),
        begins=r'\{\s*["}]|\[\s*[{\]]',
        selectable=True,
        has_fields=True,
    )
)
