"""Data sets of the ir-datasets library (MacAvaney et al., SIGIR 2021, https://ir-datasets.com), by their ids.

Every data set there has its own record types. A document's title and abstract are taken from the fields that carry
them; where a type has no such text field (the spans of TREC Genomics, HTML pages), the library's ``default_text()``
without the title serves, and last all text fields together. Full texts beside an abstract are left out.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator
from typing import Any

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.extras import naming_extras
from rerank_plugin.base.records import Document, Judgments, Query
from rerank_plugin.corpora import format_files
from rerank_plugin.corpora.metadata import metadata_of
from rerank_plugin.corpora.problems import UNUSABLE_METADATA, Problems, usable
from rerank_plugin.corpora.register import CORPUS, JUDGMENTS, QUERIES, READERS, Format, register
from rerank_plugin.corpora.specs import unknown

TITLE_FIELDS = ("title", "headline", "page_title", "document_title")
TEXT_FIELDS = ("abstract", "text", "body")  # the first that is not empty
QUERY_FIELDS = ("text", "title", "query", "description")
_NOT_TEXT = ("doc_id", "url", "doi", "date", "marked_up_doc", "source_xml", "html", *TITLE_FIELDS)


def documents(id: str, problems: Problems, ids_required: bool = True) -> Iterator[Document]:
    """The documents of a data set; an unknown id is an error at once."""
    dataset = _load(id, "docs", CORPUS)
    return _documents(dataset, id, problems, ids_required)


def _documents(dataset: Any, id: str, problems: Problems, ids_required: bool) -> Iterator[Document]:
    with _one_line_errors(id):
        for record in dataset.docs_iter():
            title, abstract = _title_and_abstract(record)
            where, (metadata, unusable) = f"{id} {record.doc_id}", metadata_of(record._asdict())
            document = usable(record.doc_id, title, abstract, where, problems, ids_required, metadata)
            if document is not None:
                for entry in unusable:
                    problems.add(UNUSABLE_METADATA, f"{where} ({entry})")
                yield document


def queries(id: str) -> list[Query]:
    dataset = _load(id, "queries", QUERIES)
    with _one_line_errors(id):
        found = list(dataset.queries_iter())
        return format_files.checked((id, query.query_id, _query_text(query)) for query in found)


def judgments(id: str) -> Judgments:
    """The judgments of a data set. Where a pair is judged several times (for subtopics), the highest grade counts:
    a published collection cannot be repaired by its user."""
    dataset = _load(id, "qrels", JUDGMENTS)
    result: Judgments = {}
    with _one_line_errors(id):
        for qrel in dataset.qrels_iter():
            of_query = result.setdefault(qrel.query_id, {})
            of_query[qrel.doc_id] = max(int(qrel.relevance), of_query.get(qrel.doc_id, int(qrel.relevance)))
    if not result:
        raise InputError(f"{id}: this ir-datasets data set holds no judgments")
    return result


def _load(id: str, part: str, what: str) -> Any:
    with naming_extras(f"the data set {id} of ir-datasets"):
        import ir_datasets

    try:
        with _one_line_errors(id):
            dataset = ir_datasets.load(id)
    except InputError as error:
        if not isinstance(error.__cause__, KeyError):
            raise
        close = difflib.get_close_matches(id, list(ir_datasets.registry), 3)
        raise unknown(id, what, f" (similar ids: {', '.join(close)})" if close else "") from None
    if not dataset.has(part):
        inside = sorted(name for name in ir_datasets.registry if name.startswith(f"{id}/"))
        having = [name for name in inside if ir_datasets.registry[name].has(part)][:5]
        hint = f": use one of {', '.join(having)}" if having else ""
        raise InputError(f"{id}: this ir-datasets data set has no {part}{hint}")
    return dataset


@contextlib.contextmanager
def _one_line_errors(id: str) -> Iterator[None]:
    """Turn any exception of the library's downloads and parsers into an InputError of one line with the data set."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(
            f"{id}: ir-datasets cannot provide it ({reason:.300}); see https://ir-datasets.com on how to obtain it"
        ) from error


def _title_and_abstract(record: Any) -> tuple[str, str]:
    title = _first_text(record, TITLE_FIELDS)
    abstract = _first_text(record, TEXT_FIELDS)
    if not abstract and not any(isinstance(getattr(record, field, None), str) for field in TEXT_FIELDS):
        if hasattr(record, "default_text"):
            abstract = record.default_text() or ""
            abstract = abstract.removeprefix(title).strip()
        else:
            fields = (value for name, value in zip(record._fields, record) if name not in _NOT_TEXT)
            abstract = " ".join(value for value in fields if isinstance(value, str))
    return title, abstract


def _query_text(query: Any) -> str:
    text = query.default_text() if hasattr(query, "default_text") else None
    return text or _first_text(query, QUERY_FIELDS)


def _first_text(record: Any, fields: tuple[str, ...]) -> str:
    for field in fields:
        value = getattr(record, field, None)
        if value and isinstance(value, str):
            return value
    return ""


register(Format("ir-datasets", __name__, dict.fromkeys(READERS, "an ir-datasets id (beir/nfcorpus/test)")))
