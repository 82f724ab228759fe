"""Data sets of the ir-datasets library (MacAvaney et al., SIGIR 2021, https://ir-datasets.com), by their ids.

Every data set has its own record types. A document's title and abstract are fields of its record. A type without such
a text field (the spans of TREC Genomics, HTML pages) gives the library's ``default_text()`` without the title, or else
all text fields together. Full texts beside an abstract are left out.
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
from rerank_plugin.corpora.problems import Problems
from rerank_plugin.corpora.records import Record, usable_documents
from rerank_plugin.corpora.register import CORPUS, JUDGMENTS, QUERIES, READERS, Format, register
from rerank_plugin.corpora.specs import unknown

TITLE_FIELDS = ("title", "headline", "page_title", "document_title")
TEXT_FIELDS = ("abstract", "text", "body")  # the first that is not empty
QUERY_FIELDS = ("text", "title", "query", "description")
_NOT_TEXT = ("doc_id", "url", "doi", "date", "marked_up_doc", "source_xml", "html", *TITLE_FIELDS)


def documents(id: str, problems: Problems, ids_required: bool = True) -> Iterator[Document]:
    """Stream the documents of a data set; an unknown id is an error at once."""
    return usable_documents(_records(_load(id, "docs", CORPUS), id), problems, ids_required)


def _records(dataset: Any, id: str) -> Iterator[tuple[str, Record]]:
    with _one_line_errors(id):
        for doc in dataset.docs_iter():
            yield f"{id} {doc.doc_id}", Record(doc.doc_id, *_title_and_abstract(doc), doc._asdict())


def queries(id: str) -> list[Query]:
    """The queries of a data set."""
    dataset = _load(id, "queries", QUERIES)
    with _one_line_errors(id):
        return format_files.checked((id, query.query_id, _query_text(query)) for query in dataset.queries_iter())


def judgments(id: str) -> Judgments:
    """The judgments of a data set; of several grades of a pair (for subtopics), the highest.

    Repeated pairs are not an error as in files: users cannot repair a published collection.
    """
    dataset = _load(id, "qrels", JUDGMENTS)
    result: Judgments = {}
    with _one_line_errors(id):
        for qrel in dataset.qrels_iter():
            of_query = result.setdefault(qrel.query_id, {})
            of_query[qrel.doc_id] = max(int(qrel.relevance), of_query.get(qrel.doc_id, int(qrel.relevance)))
    if not result:
        raise InputError(f"{id}: this ir-datasets data set holds no judgments")
    return result


def _load(id: str, part: str, kind: str) -> Any:
    with naming_extras(f"the data set {id} of ir-datasets"):
        import ir_datasets

    try:
        with _one_line_errors(id):
            dataset = ir_datasets.load(id)
    except InputError as error:
        if not isinstance(error.__cause__, KeyError):
            raise
        similar = difflib.get_close_matches(id, list(ir_datasets.registry), 3)
        raise unknown(id, kind, f" (similar ids: {', '.join(similar)})" if similar else "") from None
    if not dataset.has(part):
        subsets = sorted(name for name in ir_datasets.registry if name.startswith(f"{id}/"))
        suitable = [name for name in subsets if ir_datasets.registry[name].has(part)][:5]
        hint = f": use one of {', '.join(suitable)}" if suitable else ""
        raise InputError(f"{id}: this ir-datasets data set has no {part}{hint}")
    return dataset


@contextlib.contextmanager
def _one_line_errors(id: str) -> Iterator[None]:
    """Convert any exception of the library's downloads and parsers to a one-line InputError that names the data set."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(
            f"{id}: ir-datasets cannot provide it ({reason:.300}); see https://ir-datasets.com for how to obtain it"
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
