"""Readers of documents, queries and judgments.

A *spec* is a string that names them; all commands accept the same forms of specs, which `specs.resolve` interprets.

* `register`: the table of formats, for dispatch, help and error messages; `formats`: a module for each format
* `format_files`: files of documents and of queries in any format
* `records`, `problems`, `metadata`: documents from the records of a format, and problems with them

Heavy libraries are lazily imported.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document, Judgments, Query
from rerank_plugin.corpora import format_files
from rerank_plugin.corpora.formats import beir, ir_datasets_ids
from rerank_plugin.corpora.problems import Problems
from rerank_plugin.corpora.records import DocumentStream
from rerank_plugin.corpora.register import (
    CORPUS,
    JUDGMENTS,
    QUERIES,
    Format,
    accepted,
)
from rerank_plugin.corpora.specs import Dataset, exists, resolve, resolve_corpora

__all__ = [
    "CORPUS", "JUDGMENTS", "QUERIES", "Document", "Judgments", "Problems", "Query", "accepted", "documents",
    "judged_queries", "judgments", "queries", "queries_and_judgments",
]  # fmt: skip

log = logging.getLogger(__name__)


def documents(
    spec: str | os.PathLike[str] | Iterable[str], problems: Problems | None = None, ids_required: bool = True
) -> DocumentStream:
    """Stream the documents of a corpus, or of several.

    Files of the same format are read as one corpus, so that an article of PubMed has one version in all of them.

    Unusable records (no title and no abstract, no id, damaged) are left out and added to ``problems``, or logged as
    warnings at the end if it is None. With ``ids_required=False`` a record without an id becomes a document with the
    id "". Duplicate ids are not detected, except for the versions of an article in PubMed. Its ``deletions`` are
    for an index that holds such documents. An unknown spec raises InputError at the call, not at the first document.
    """
    collected = Problems() if problems is None else problems
    streams: list[Iterator[Document]] = []
    files: dict[Format, list[Path]] = {}
    for source in resolve_corpora([spec] if isinstance(spec, (str, os.PathLike)) else spec):
        if isinstance(source, Dataset):
            streams.append(ir_datasets_ids.documents(source.id, collected, ids_required))
            continue
        if (corpus := beir.corpus_file(path := source.path)) is not None:
            path = corpus
        elif source.split is not None:
            raise InputError(f"{path}:{source.split}: only a BEIR folder has splits; {path} has no corpus.jsonl[.gz]")
        for format, paths in format_files.corpus_files(path).items():
            files.setdefault(format, []).extend(paths)
    for format, paths in files.items():
        if repeated := [path for path, count in Counter(map(os.path.realpath, paths)).items() if count > 1]:
            raise InputError(f"{repeated[0]} is given twice: give each file of a corpus once")
        streams.append(format.reader.documents(paths, collected, ids_required))
    stream = chain.from_iterable(streams)
    deletions = [named for part in streams if isinstance(part, DocumentStream) for named in part.lists]
    return DocumentStream(stream if problems is not None else _then_log(stream, collected), deletions)


def queries(spec: str) -> list[Query]:
    """All queries of a spec, in their order; of ``folder:split``, the queries with judgments in that split."""
    source = resolve(spec, QUERIES)
    if isinstance(source, Dataset):
        return ir_datasets_ids.queries(source.id)
    if source.path.is_dir():
        of_folder = beir.queries(source.path)
        if source.split is None:
            return of_folder
        return judged_queries(of_folder, beir.judgments(source.path, source.split), spec)
    return format_files.queries(source.path, source.selected)


def judgments(spec: str) -> Judgments:
    """The judgments of a spec as ``{query id: {document id: relevance}}``."""
    source = resolve(spec, JUDGMENTS)
    if isinstance(source, Dataset):
        return ir_datasets_ids.judgments(source.id)
    if source.path.is_dir():
        return beir.judgments(source.path, source.split)
    format = format_files.format_of(source.path, JUDGMENTS)
    assert format is not None, "one format of judgments is the default"
    return format.reader.judgments(source.path)


def queries_and_judgments(spec: str) -> tuple[list[Query], Judgments]:
    """The judged queries and the judgments of a spec, or of two joined by a comma (``queries.tsv,qrels.txt``)."""
    spec = os.fspath(spec)
    if "," in spec and not exists(spec):
        parts = spec.split(",")
        if len(parts) != 2 or not all(parts):
            raise InputError(f"{spec!r}: expected queries and judgments joined by one comma, as queries.tsv,qrels.txt")
        unfiltered, judged = queries(parts[0]), judgments(parts[1])
    else:
        source = resolve(spec, QUERIES)
        if not isinstance(source, Dataset) and not source.path.is_dir():
            raise InputError(
                f"{spec}: a file cannot give both queries and judgments: join two with a comma (queries.tsv,"
                "qrels.txt), or name a BEIR folder with its split (data/nfcorpus:test) or an ir-datasets id"
            )
        judged = judgments(spec)
        unfiltered = queries(spec) if isinstance(source, Dataset) else beir.queries(source.path)
    return judged_queries(unfiltered, judged, spec), judged


def judged_queries(queries: Sequence[Query], judged: Judgments, spec: str) -> list[Query]:
    """The queries with judgments. Judged queries without a text are logged.

    Raises:
        InputError: no query has a judgment.
    """
    kept = [query for query in queries if judged.get(query.id)]
    if not kept:
        raise InputError(
            f"{spec}: none of the {len(queries)} queries has a judgment: their ids ({queries[0].id}, ...) do not "
            f"occur in the judgments ({next(iter(judged))}, ...)"
        )
    missing = sorted({id for id, of_query in judged.items() if of_query} - {query.id for query in kept})
    if missing:
        log.warning("%s: %d judged queries have no text: %s", spec, len(missing), ", ".join(missing[:5]))
    return kept


def _then_log(stream: Iterator[Document], problems: Problems) -> Iterator[Document]:
    yield from stream
    for line in problems.summary():
        log.warning("%s", line)
