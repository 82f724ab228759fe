"""The public function that builds an index of a corpus."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import NoneType

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document, is_id
from rerank_plugin.corpora import Problems, documents
from rerank_plugin.corpora.metadata import NAMES, metadata_of
from rerank_plugin.indexes import building
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.text.markup import without_markup

log = logging.getLogger(__name__)


def build_index(
    corpus: str | Path | Iterable[Document],
    folder: str | Path,
    *,
    overwrite: bool = False,
    term_vectors: bool = False,
) -> Index:
    """Index a corpus and open the index. Invalid records are left out and counted in a warning.

    Args:
        corpus: a corpus as in the commands (``sample``, a BEIR folder, PubMed XML, JSONL, an ir-datasets id), or
            records with ``id``, ``title`` and ``abstract``, which are read once.
        folder: the index folder; it appears when everything is written.
        overwrite: replace an existing index.
        term_vectors: store Lucene's term vectors, which Pyserini's own RM3 and Rocchio read.

    Raises:
        InputError: the corpus cannot be read or has no document, or an existing output must not be replaced.
    """
    problems = Problems()
    records, source = records_of(corpus, problems)
    building.build_single(records, Path(folder), source, problems, overwrite, term_vectors=term_vectors)
    for line in problems.summary():
        log.warning("%s", line)
    return Index(folder)


def records_of(corpus: str | Path | Iterable[Document], problems: Problems) -> tuple[Iterable[Document], str]:
    """The documents of a corpus or those given, and their name."""
    if isinstance(corpus, (str, os.PathLike)):
        source = os.fspath(corpus)
        return documents(source, problems), source
    return map(_checked, corpus), "documents given in Python"


def _checked(document: Document) -> Document:
    """The document without inline markup, with its metadata normalized; an `InputError` if it is invalid."""
    if not isinstance(document, Document) or not all(isinstance(part, str) for part in document[:3]):
        raise InputError(f"a document is a record of id, title and abstract, which are texts; found {document!r:.80}")
    if not isinstance(document.metadata, (Mapping, NoneType)):
        raise InputError(f"document {document.id}: metadata are values by field name, not {document.metadata!r:.80}")
    metadata, unusable = metadata_of(document.metadata or {})
    if invalid := [*unusable, *((document.metadata or {}).keys() - NAMES)]:
        raise InputError(
            f"document {document.id} has invalid metadata ({', '.join(invalid)}); known: {', '.join(sorted(NAMES))}: "
            "authors, keywords, mesh, types and languages are lists of texts, retracted is true or false, url an http "
            "address, the others are texts"
        )
    if not is_id(document.id):
        raise InputError(f"the document id {document.id!r} is empty, has white space, or begins with a byte order mark")
    title, abstract = without_markup(document.title), without_markup(document.abstract)
    return Document(document.id, title, abstract, metadata)
