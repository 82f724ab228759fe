"""The public function that builds an index of a corpus."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document
from rerank_plugin.corpora import Problems, documents
from rerank_plugin.corpora.metadata import NAMES, metadata_of
from rerank_plugin.indexes import building
from rerank_plugin.indexes.index_folder import Index

log = logging.getLogger(__name__)


def build_index(
    corpus: str | Path | Iterable[Document],
    folder: str | Path,
    *,
    overwrite: bool = False,
    threads: int | None = None,
) -> Index:
    """Index a corpus and open the index. Records that cannot be used are left out and counted in a warning.

    Args:
        corpus: what the commands take (``sample``, a BEIR folder, PubMed XML, JSONL, an ir-datasets id), or records
            with ``id``, ``title`` and ``abstract``, which are read once.
        folder: of the index; it appears when everything is written.
        overwrite: replace an index that is there already.
        threads: of Lucene; all processors by default.

    Raises:
        InputError: the corpus cannot be read or has no document, or something is there that must not be replaced.
    """
    problems = Problems()
    if isinstance(corpus, (str, os.PathLike)):
        source = os.fspath(corpus)
        found = documents(source, problems)
    else:
        source, found = "documents given in Python", map(_checked, corpus)
    building.build_index(found, Path(folder), source, problems, overwrite, threads)
    for line in problems.summary():
        log.warning("%s", line)
    return Index(folder)


def _checked(document: Document) -> Document:
    if not isinstance(document, Document) or not all(isinstance(part, str) for part in document[:3]):
        raise InputError(f"a document is a record of id, title and abstract, which are texts; found {document!r:.80}")
    metadata, unusable = metadata_of(document.metadata or {})
    if wrong := [*unusable, *((document.metadata or {}).keys() - NAMES)]:
        raise InputError(
            f"document {document.id} has unusable metadata ({', '.join(wrong)}); known are {', '.join(sorted(NAMES))}: "
            "texts, of authors, mesh, types and languages lists of texts, retracted is true or false, and url an http "
            "address"
        )
    if document.id.split() != [document.id]:
        raise InputError(f"the document id {document.id!r} is empty or holds white space, which a run file cannot take")
    return document._replace(metadata=metadata)
