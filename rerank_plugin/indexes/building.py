"""Builds an index folder; every document is read and tokenized once."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Document, Problems
from rerank_plugin.files.outputs import link_or_copy, replacing_folder
from rerank_plugin.files.string_table import SeenHashes, hash_strings
from rerank_plugin.indexes.commits import NextCommit
from rerank_plugin.indexes.index_concepts import KNOWLEDGE, IndexKnowledge
from rerank_plugin.indexes.index_folder import APPLIED, INDEX, NORMALIZATION, TERM_VECTORS
from rerank_plugin.indexes.joining import CommitSegment
from rerank_plugin.indexes.layout import DESCRIPTION
from rerank_plugin.indexes.lucene_analysis import COMPARED, PORTER, Agreement, normalizer_of
from rerank_plugin.indexes.lucene_reader import (
    CONTENTS,
    commit_id,
    indexed_fields,
    lucene_numbers,
    open_reader,
    stored_documents,
)
from rerank_plugin.indexes.lucene_writer import LuceneWriter
from rerank_plugin.indexes.segment import SegmentWriter
from rerank_plugin.java.jvm import detach_at_thread_end
from rerank_plugin.text.normalization import NORMALIZATION_VERSION
from rerank_plugin.text.tokenizer import PLAIN, Tokenizer

if TYPE_CHECKING:
    from rerank_plugin.concepts.annotation import Annotator

log = logging.getLogger(__name__)

BATCH = 1000  # documents per call to Java
TEXT_FIELDS = ["title", "abstract", "contents"]  # of Lucene, besides those of metadata
LUCENE_LAG = 3  # batches that may wait for Lucene before reading pauses: limits memory


@dataclass(frozen=True)
class BuildReport:
    """Numbers of indexed documents, terms, tokens and concepts (None without an annotator)."""

    documents: int
    terms: int
    tokens: int
    concepts: int | None = None


def _without_duplicates(
    batch: list[Document], seen: SeenHashes, problems: Problems
) -> tuple[list[Document], np.ndarray]:
    """The documents of a batch with new ids, and the hashes of their ids, uint64 [n]; the first of equal ids is kept.

    Ids are compared by 64-bit hashes. Among 36 million documents the probability of any collision is below 1 in 25,000;
    a collision would drop one document, which is reported as a duplicate.
    """
    hashes = hash_strings([document.id for document in batch])
    keep = np.zeros(len(batch), bool)
    keep[np.unique(hashes, return_index=True)[1]] = True
    keep &= ~seen.seen(hashes)
    for i in np.flatnonzero(~keep).tolist():
        problems.add("duplicate id", batch[i].id)
    seen.add(hashes[keep])
    return [batch[i] for i in np.flatnonzero(keep).tolist()], hashes[keep]


def distinct_batches(documents: Iterable[Document], problems: Problems) -> Iterator[tuple[list[Document], np.ndarray]]:
    """Documents in batches without duplicate ids, with the hashes of their ids, uint64 [n]."""
    seen, encodable = SeenHashes(), map(_encodable, documents)
    while batch := list(islice(encodable, BATCH)):
        batch, hashes = _without_duplicates(batch, seen, problems)
        if batch:
            yield batch, hashes


def build_single(
    documents: Iterable[Document],
    folder: Path,
    source: str,
    problems: Problems,
    overwrite: bool = False,
    progress: Callable[[Iterable[Document]], Iterable[Document]] = iter,
    tokenizer: Tokenizer = PLAIN,
    annotator: Annotator | None = None,
    applied: Mapping[str, Any] | None = None,
    term_vectors: bool = False,
) -> BuildReport:
    """Build ``folder`` from documents, in a temporary sibling that is renamed when everything is written.

    Args:
        documents: read once, as a stream; the vocabulary and 16 bytes per document are kept in memory.
        source: where the documents come from, for the description.
        problems: collects duplicate ids; raises at once when strict.
        progress: wraps the documents, for a progress bar.
        tokenizer: of the forward index; Lucene uses its own analyzer.
        annotator: a :class:`~rerank_plugin.concepts.annotation.Annotator` that finds the concepts of each document;
            without one the index holds no concepts.
        applied: the caller's record of what the documents are, under `APPLIED` in the description.
        term_vectors: store Lucene's term vectors, which Pyserini's own RM3 and Rocchio read.

    Raises:
        InputError: an existing output must not be replaced, or there is no document to index.
    """
    with replacing_folder(folder, INDEX, overwrite) as building:
        commit = NextCommit(building, knowledge=_knowledge(building, annotator))
        commit.entries |= {} if applied is None else {APPLIED: dict(applied)}
        batches = distinct_batches(progress(documents), problems)
        lucene = building / commit.lucene[0].path
        write_part(commit.segment_folder(0), lucene, batches, tokenizer, annotator, term_vectors)
        return finish_build(commit, [_all_of(commit, 0)], source, tokenizer, problems, term_vectors)


Batches = Iterable[tuple[list[Document], np.ndarray | None]]  # documents, and the hashes of their ids, uint64 [n]


def write_part(
    segment: Path,
    lucene: Path,
    batches: Batches,
    tokenizer: Tokenizer,
    annotator: Any,
    term_vectors: bool,
) -> None:
    """Write documents into a segment and a Lucene index; each is tokenized and annotated once."""
    writer = SegmentWriter(segment, tokenizer, annotator)

    def written() -> Iterator[list[Document]]:
        for batch, hashes in batches:
            yield batch
            writer.extend(batch, hashes)

    write_documents(written(), lucene, term_vectors)
    writer.close()


def build_without_lucene(
    documents: Iterable[Document], folder: Path, source: str, tokenizer: Tokenizer = PLAIN, overwrite: bool = False
) -> None:
    """Build an index without a Lucene index, which scoring does not need, and so without Java; ids must be distinct."""
    with replacing_folder(folder, INDEX, overwrite) as building:
        commit, rest = NextCommit(building), iter(documents)
        writer, commit.lucene = SegmentWriter(commit.segment_folder(0), tokenizer), []
        while batch := list(islice(rest, BATCH)):
            writer.extend(batch)
        writer.close()
        finish_build(commit, [_all_of(commit, 0)], source, tokenizer, Problems())


def finish_build(
    commit: NextCommit,
    parts: Sequence[CommitSegment],
    source: str,
    tokenizer: Tokenizer,
    problems: Problems,
    term_vectors: bool = False,
) -> BuildReport:
    """Write the first commit of an index, whose segments and Lucene indexes are written; make it the current one."""
    check_some(sum(len(part.rows) for part in parts), source, problems)
    if commit.lucene and not commit.lucene_description:  # our own, which nothing describes yet
        for part, update in zip(parts, commit.lucene):
            update.built(part.segment.ids, TEXT_FIELDS)
        commit.lucene_description = {
            "fields": TEXT_FIELDS, "analyzer": PORTER, NORMALIZATION: NORMALIZATION_VERSION, "positions": True,
            TERM_VECTORS: term_vectors,
            "metadata": commit.filterable,
        }  # fmt: skip
    entries = {
        "source": source,
        "tokenizer": tokenizer.settings,
        NORMALIZATION: NORMALIZATION_VERSION,
        "left_out": problems.summary(kept=False),
    }
    joined = commit.describe(parts, len(parts), entries)
    commit.switch()
    concepts = commit.description.get("concepts")
    return BuildReport(joined.documents, joined.terms, joined.fields["text"].tokens, concepts)


def _all_of(commit: NextCommit, shard: int) -> CommitSegment:
    segment = commit.written_segment(shard)
    return CommitSegment(segment, shard, np.arange(len(segment)))


def _knowledge(building: Path, annotator: Any) -> IndexKnowledge | None:
    """Give a new index the knowledge base of an annotator."""
    if annotator is None:
        return None
    shutil.copytree(annotator.knowledge.folder, building / KNOWLEDGE, copy_function=link_or_copy)
    return IndexKnowledge(building / KNOWLEDGE, annotator.settings)


def write_documents(batches: Iterable[list[Document]], folder: Path, term_vectors: bool) -> None:
    """Write batches of documents into a new Lucene index."""
    lucene = LuceneWriter(folder, term_vectors)
    # Java works without the GIL while the fields of the next documents are made, and those after them tokenized.
    with ThreadPoolExecutor(1) as python, ThreadPoolExecutor(1, initializer=detach_at_thread_end) as java:

        def add(batch: list[Document], fields: Future[str]) -> None:
            lucene.add(batch, fields.result())

        waiting: list[Future[None]] = []
        try:
            for batch in batches:
                waiting.append(java.submit(add, batch, python.submit(lucene.fields, batch)))
                while len(waiting) > LUCENE_LAG or (waiting and waiting[0].done()):
                    waiting.pop(0).result()
            for future in waiting:
                future.result()
        finally:
            lucene.close()


def build_beside(
    lucene: Path,
    folder: Path,
    title_field: str | None = None,
    text_field: str | None = None,
    overwrite: bool = False,
    progress: Callable[[Iterable[Document], int], Iterable[Document]] = lambda documents, total: documents,
    tokenizer: Tokenizer = PLAIN,
    annotator: Annotator | None = None,
    analyzer: str | None = None,
) -> BuildReport:
    """Build ``folder`` beside an existing Lucene index, which is neither copied nor changed.

    Args:
        lucene: the folder of the Lucene index, built by Anserini or Pyserini with stored ``raw`` or ``contents``.
        title_field, text_field: the titles and texts: a key of the JSON object stored as ``raw``, or a stored field. By
            default the keys of JSONL corpora.
        progress: wraps the documents, given their number, for a progress bar.
        analyzer: of the Lucene index (:mod:`~rerank_plugin.indexes.lucene_analysis`); by default Anserini's.

    The other arguments are those of `build_single`.

    Raises:
        InputError: as in `build_single`; there is no Lucene index; one of its documents has no id, the id of another
            document, or no stored text; or it was made with another analyzer.
    """
    with replacing_folder(folder, INDEX, overwrite) as building:
        reader = open_reader(lucene)
        analysis = {"analyzer": analyzer or PORTER, **_own_normalization(lucene)}
        _check_analysis(reader, lucene, title_field, text_field, analysis)
        commit, problems = NextCommit(building, knowledge=_knowledge(building, annotator)), Problems()
        writer = SegmentWriter(commit.segment_folder(0), tokenizer, annotator)
        documents = stored_documents(reader, lucene, title_field, text_field)
        for batch, hashes in distinct_batches(progress(documents, reader.numDocs()), problems):
            writer.extend(batch, hashes)
        writer.close()
        if problems.total:
            raise InputError(f"{lucene} cannot be used: {problems.summary()[0]}; ids have to be unique")
        rows = np.full(reader.maxDoc(), -1)
        rows[lucene_numbers(reader)] = np.arange(reader.numDocs())
        commit.lucene[0].rows = rows
        commit.lucene_description = {
            "path": os.path.realpath(lucene), "commit": commit_id(reader), "fields": indexed_fields(reader),
            "title_field": title_field, "text_field": text_field, **analysis,
        }  # fmt: skip
        reader.close()
        return finish_build(commit, [_all_of(commit, 0)], str(lucene), tokenizer, problems)


def _own_normalization(lucene: Path) -> dict[str, int]:
    """What the description of an index of this package says of the normalization of its Lucene index, ``lucene``."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        description = json.loads((lucene.resolve().parent / DESCRIPTION).read_bytes())["lucene"]
        if description["path"] == lucene.resolve().name:
            return {NORMALIZATION: description[NORMALIZATION]}
    return {}


def _check_analysis(reader, lucene: Path, title_field: str | None, text_field: str | None, analysis: dict) -> None:
    """Log or raise that the terms of a Lucene index are not those of its first stored texts by an analyzer."""
    fields, numbers, read = indexed_fields(reader), lucene_numbers(reader)[:COMPARED], normalizer_of(analysis)
    stored = list(stored_documents(reader, lucene, title_field, text_field, numbers))
    of_field = {
        title_field: (document.title for document in stored),
        text_field: (document.abstract for document in stored),
        CONTENTS: (f"{document.title} {document.abstract}" for document in stored),
    }
    field = next((name for name in (CONTENTS, text_field, title_field) if name in fields), None)
    if field is not None:
        agreement = Agreement(reader, field, dict(zip(numbers.tolist(), map(read, of_field[field]))))
        if warning := agreement.check(analysis["analyzer"], lucene):
            log.warning("%s", warning)


def check_some(count: int, source: str, problems: Problems) -> None:
    """An `InputError` if there was no document."""
    if not count:
        reasons = "".join(f"; {line}" for line in problems.summary(kept=False))
        raise InputError(f"no document to index in {source}{reasons}")


def _encodable(document: Document) -> Document:
    """The document with lone surrogates replaced, since neither Java nor a UTF-8 file can hold them."""
    try:
        document.id.encode(), document.title.encode(), document.abstract.encode()
    except UnicodeEncodeError:
        id, title, abstract = (text.encode(errors="replace").decode() for text in document[:3])
        return Document(id, title, abstract, document.metadata)
    return document
