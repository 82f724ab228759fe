"""Builds an index folder; every document is read and tokenized once."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from rerank_plugin import __version__
from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Document, Problems
from rerank_plugin.files.outputs import link_or_copy, replacing_folder
from rerank_plugin.files.string_table import SeenHashes, StringTable, hash_strings
from rerank_plugin.indexes.forward import ForwardIndex, ForwardIndexWriter
from rerank_plugin.indexes.index_concepts import KNOWLEDGE, ConceptWriter, text_to_annotate
from rerank_plugin.indexes.index_folder import (
    APPLIED,
    COMMIT_FILE,
    DESCRIPTION,
    INDEX,
    NORMALIZATION,
    generation,
    write_generation,
)
from rerank_plugin.indexes.lucene_analysis import COMPARED, PORTER, Agreement, reading
from rerank_plugin.indexes.lucene_reader import (
    CONTENTS,
    commit_files,
    commit_id,
    indexed_fields,
    lucene_ids,
    lucene_numbers,
    open_reader,
    stored_documents,
)
from rerank_plugin.indexes.lucene_writer import LuceneWriter
from rerank_plugin.java.jvm import detach_at_thread_end
from rerank_plugin.kernels.parallel import processors
from rerank_plugin.text.normalization import VERSION
from rerank_plugin.text.tokenizer import PLAIN, Tokenizer

if TYPE_CHECKING:
    from rerank_plugin.knowledge.annotation import Annotator

log = logging.getLogger(__name__)

BATCH = 1000  # documents per call to Java
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


def build_index(
    documents: Iterable[Document],
    folder: Path,
    source: str,
    problems: Problems,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Callable[[Iterable[Document]], Iterable[Document]] = iter,
    tokenizer: Tokenizer = PLAIN,
    annotator: Annotator | None = None,
    applied: Mapping[str, Any] | None = None,
) -> BuildReport:
    """Build ``folder`` from documents, in a temporary sibling that is renamed when everything is written.

    Args:
        documents: read once, as a stream; the vocabulary and 16 bytes per document are kept in memory.
        source: where the documents come from, for the description.
        problems: collects duplicate ids; raises at once when strict.
        threads: Lucene's indexing threads; by default the number of CPU cores.
        progress: wraps the documents, for a progress bar.
        tokenizer: of the forward index; Lucene uses its own analyzer.
        annotator: a :class:`~rerank_plugin.knowledge.annotation.Annotator` that finds the concepts of each document;
            without one the index holds no concepts.
        applied: the caller's record of what the documents are, under `APPLIED` in the description.

    Raises:
        InputError: an existing output must not be replaced, or there is no document to index.
    """
    with replacing_folder(folder, INDEX, overwrite) as building:
        builder = Builder(building, problems, tokenizer, annotator)
        metadata = write_documents(builder.batches(progress(documents)), building / "lucene", threads)
        builder.close_streams(source)
        reader = open_reader(building / "lucene")
        lucene_description = {
            "path": "lucene", "commit": commit_id(reader), COMMIT_FILE: commit_files(reader)[0],
            "fields": ["title", "abstract", "contents"], "analyzer": PORTER, NORMALIZATION: VERSION,
            "positions": True, "document_vectors": True, "metadata": dict(sorted(metadata.items())),
        }  # fmt: skip
        rows = lucene_rows(builder.forward.table("ids"), reader)
        reader.close()
        return builder.finish(source, rows, lucene_description, {} if applied is None else {APPLIED: applied})


def write_documents(batches: Iterable[list[Document]], folder: Path, threads: int | None) -> Mapping[str, int]:
    """Write batches of documents into a new Lucene index; returns the number of documents with each metadata field."""
    lucene = LuceneWriter(folder, threads or processors())
    # Java works without the GIL while the next documents are tokenized.
    with ThreadPoolExecutor(1, initializer=detach_at_thread_end) as executor:
        waiting: list[Future[None]] = []
        try:
            for batch in batches:
                waiting.append(executor.submit(lucene.add, batch))
                while len(waiting) > LUCENE_LAG or (waiting and waiting[0].done()):
                    waiting.pop(0).result()
            for future in waiting:
                future.result()
        finally:
            lucene.close()
    return lucene.metadata


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

    The other arguments are those of `build_index`.

    Raises:
        InputError: as in `build_index`; there is no Lucene index; one of its documents has no id, the id of another
            document, or no stored text; or it was made with another analyzer.
    """
    with replacing_folder(folder, INDEX, overwrite) as building:
        reader = open_reader(lucene)
        analysis = {"analyzer": analyzer or PORTER, **_own_normalization(lucene)}
        _check_analysis(reader, lucene, title_field, text_field, analysis)
        builder = Builder(building, Problems(), tokenizer, annotator)
        documents = stored_documents(reader, lucene, title_field, text_field)
        deque(builder.batches(progress(documents, reader.numDocs())), maxlen=0)
        if builder.problems.total:
            raise InputError(f"{lucene} cannot be used: {builder.problems.summary()[0]}; ids have to be unique")
        builder.close_streams(str(lucene))
        rows = np.full(reader.maxDoc(), -1)
        rows[lucene_numbers(reader)] = np.arange(reader.numDocs())
        lucene_description = {
            "path": os.path.realpath(lucene), "commit": commit_id(reader), "fields": indexed_fields(reader),
            "title_field": title_field, "text_field": text_field, **analysis,
        }  # fmt: skip
        reader.close()
        return builder.finish(str(lucene), rows, lucene_description)


def _own_normalization(lucene: Path) -> dict[str, int]:
    """What the description of an index of this package says of the normalization of its Lucene index, ``lucene``."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        described = json.loads((lucene.resolve().parent / DESCRIPTION).read_bytes())["lucene"]
        if described["path"] == lucene.resolve().name:
            return {NORMALIZATION: described[NORMALIZATION]}
    return {}


def _check_analysis(reader, lucene: Path, title_field: str | None, text_field: str | None, analysis: dict) -> None:
    """Log or raise that the terms of a Lucene index are not those of its first stored texts by an analyzer."""
    fields, numbers, read = indexed_fields(reader), lucene_numbers(reader)[:COMPARED], reading(analysis)
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


class Builder:
    """Writes an index folder except its Lucene index; each document is tokenized and annotated once.

    Args:
        index: the forward index to append to, as the generation ``number``; None for a new index.
    """

    def __init__(
        self,
        folder: Path,
        problems: Problems,
        tokenizer: Tokenizer,
        annotator: Any,
        index: ForwardIndex | None = None,
        number: int = 1,
    ) -> None:
        self.folder, self.problems, self.tokenizer, self.annotator = folder, problems, tokenizer, annotator
        self.forward = ForwardIndexWriter(folder, tokenizer, index, number)
        self.concepts = None if annotator is None else ConceptWriter(self.forward.files, self.forward.sizes)

    def batches(self, documents: Iterable[Document]) -> Iterator[list[Document]]:
        """Write documents in batches without duplicate ids; each batch is yielded before it is written."""
        for batch, hashes in distinct_batches(documents, self.problems):
            yield batch
            self.forward.extend(batch, hashes)
            if self.concepts is not None:
                texts = [text_to_annotate(document.title, document.abstract) for document in batch]
                self.concepts.extend(self.annotator.concepts(texts))

    def close_streams(self, source: str) -> None:
        """Finish adding documents; an `InputError` if there were none."""
        self.forward.close_streams()
        if self.concepts is not None:
            self.concepts.close()
            if self.forward.index is None:
                knowledge = self.annotator.knowledge.folder
                shutil.copytree(knowledge, self.folder / KNOWLEDGE, copy_function=link_or_copy)
        check_some(len(self.forward.ids) - self.forward.first, source, self.problems)

    def finish(
        self,
        source: str,
        lucene_rows: np.ndarray,
        lucene: dict,
        entries: Mapping[str, Any] = MappingProxyType({}),
    ) -> BuildReport:
        """Write the statistics and the description; ``entries`` are further ones of this."""
        statistics = self.forward.finish(lucene_rows)
        documents, terms = self.forward.title_lengths.length, len(self.forward.terms)
        knowledge: dict[str, Any] = {}
        if self.concepts is not None:
            knowledge = {KNOWLEDGE: self.annotator.settings, "concepts": self.concepts.concepts.length}
        description = {
            **generation(1, 1, documents, terms),
            "created_by": f"rerank_plugin {__version__}",
            "source": source,
            "tokenizer": self.tokenizer.settings,
            NORMALIZATION: VERSION,
            "fields": {field: asdict(numbers) for field, numbers in statistics.items()},
            "lucene": lucene,
            **knowledge,
            **entries,
            "left_out": self.problems.summary(kept=False),
        }
        write_generation(self.folder, description)
        return BuildReport(documents, terms, statistics["text"].tokens, knowledge.get("concepts"))


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


def lucene_rows(table: StringTable, reader: Any, first: int = 0) -> np.ndarray:
    """Row of each Lucene document number, uint32 [n]: Lucene's threads and merges may reorder documents.

    Args:
        table: the ids of all rows.
        first: row of the first document of the Lucene index, which has all later ones, too.
    """
    pages = (table.find(page).astype(np.uint32) for page in lucene_ids(reader))  # the largest for -1
    rows = np.concatenate([np.zeros(0, np.uint32), *pages])
    found = np.zeros(len(table), bool)
    found[rows[rows < len(table)]] = True
    if len(rows) != len(table) - first or not found[first:].all():
        raise RuntimeError("Lucene and the forward index hold different documents")
    return rows
