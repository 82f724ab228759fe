"""Readers of documents, queries and judgments.

A *spec* is a string that names them. Every command accepts the same forms of specs for a corpus, queries or judgments;
`specs.resolve` decides what a spec means.

* `register`: the table of formats, which drives dispatch, help and error messages; `formats`: the formats, one a file
* `format_files`: files of documents and of queries, in whatever format
* `click_logs` and the other `click_` modules: judgments made of click logs, by ``rerank-plugin clicks``
* `weak_labels`: judgments made of a corpus, by ``rerank-plugin weak``

Nothing heavy is imported until something is read.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document, Judgments, Query
from rerank_plugin.corpora import format_files
from rerank_plugin.corpora.formats import beir, ir_datasets_ids
from rerank_plugin.corpora.problems import Problems
from rerank_plugin.corpora.register import CORPUS, JUDGMENTS, QUERIES, accepted, of_first_line, of_suffix
from rerank_plugin.corpora.specs import exists, resolve
from rerank_plugin.files.text_files import kind_of

__all__ = [
    "CORPUS", "JUDGMENTS", "QUERIES", "Document", "Judgments", "Problems", "Query", "accepted", "documents",
    "judged_queries", "judgments", "queries", "queries_and_judgments",
]  # fmt: skip

log = logging.getLogger(__name__)


def documents(spec: str, problems: Problems | None = None, ids_required: bool = True) -> Iterator[Document]:
    """Stream the documents of a corpus.

    Records that cannot be used (no title and no abstract, no id, damaged) are left out and added to ``problems``, or
    logged as warnings at the end if it is None. With ``ids_required=False`` a record without an id becomes a document
    with the id "". Duplicate ids are not detected, except for the versions of an article in PubMed. A spec that names
    nothing raises InputError at the call, not at the first document.
    """
    source = resolve(spec, CORPUS)
    path, split = source.path, source.split
    collected = Problems() if problems is None else problems
    if source.dataset:
        stream = ir_datasets_ids.documents(source.dataset, collected, ids_required)
    elif beir.has_corpus(path):
        stream = beir.documents(path, collected, ids_required)
    elif split is not None:
        raise InputError(f"{path}:{split}: only a BEIR folder has splits, and there is no corpus.jsonl[.gz] in {path}")
    else:
        stream = format_files.documents(path, collected, ids_required)
    return stream if problems is not None else _then_log(stream, collected)


def queries(spec: str) -> list[Query]:
    """All queries of a spec, in their order; of ``folder:split``, those with judgments in that split."""
    source = resolve(spec, QUERIES)
    if source.dataset:
        return ir_datasets_ids.queries(source.dataset)
    if source.path.is_dir():
        found = beir.queries(source.path)
        if source.split is None:
            return found
        return judged_queries(found, beir.judgments(source.path, source.split), spec)
    return format_files.queries(source.path, source.selected)


def judgments(spec: str) -> Judgments:
    """The judgments of a spec as ``{query id: {document id: relevance}}``."""
    source = resolve(spec, JUDGMENTS)
    if source.dataset:
        return ir_datasets_ids.judgments(source.dataset)
    if source.path.is_dir():
        return beir.judgments(source.path, source.split)
    of_file = of_suffix(kind_of(source.path), JUDGMENTS) or of_first_line("", JUDGMENTS)
    return of_file.reader.judgments(source.path)


def queries_and_judgments(spec: str) -> tuple[list[Query], Judgments]:
    """The judged queries of one spec, or of two joined by a comma (``queries.tsv,qrels.txt``), and the judgments."""
    spec = os.fspath(spec)
    if "," in spec and not exists(spec):
        parts = spec.split(",")
        if len(parts) != 2 or not all(parts):
            raise InputError(f"{spec!r}: expected queries and judgments joined by one comma, as queries.tsv,qrels.txt")
        found, judged = queries(parts[0]), judgments(parts[1])
    else:
        source = resolve(spec, QUERIES)
        if source.path and source.path.is_file():
            raise InputError(
                f"{spec}: one file cannot give both queries and judgments: join two with a comma (queries.tsv,"
                "qrels.txt), or name a BEIR folder with its split (data/nfcorpus:test) or an ir-datasets id"
            )
        judged = judgments(spec)
        found = beir.queries(source.path) if source.path else queries(spec)
    return judged_queries(found, judged, spec), judged


def judged_queries(found: Sequence[Query], judged: Judgments, spec: str) -> list[Query]:
    """The queries with judgments. Judged queries without a text are logged; no judged query at all is an InputError."""
    kept = [query for query in found if judged.get(query.id)]
    if not kept:
        raise InputError(
            f"{spec}: none of the {len(found)} queries has a judgment: their ids ({found[0].id}, ...) do not occur "
            f"among the judged ones ({next(iter(judged))}, ...)"
        )
    missing = sorted({id for id, of_query in judged.items() if of_query} - {query.id for query in kept})
    if missing:
        log.warning("%s: %d judged queries have no text: %s", spec, len(missing), ", ".join(missing[:5]))
    return kept


def _then_log(stream: Iterator[Document], problems: Problems) -> Iterator[Document]:
    yield from stream
    for line in problems.summary():
        log.warning("%s", line)
