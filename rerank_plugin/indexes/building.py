"""Builds an index folder: every document is read and tokenized once."""

from __future__ import annotations

import logging
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from rerank_plugin import __version__
from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Document, Problems
from rerank_plugin.files.outputs import link_or_copy, replacing_folder
from rerank_plugin.files.string_table import SeenHashes, StringTable, hash_strings
from rerank_plugin.indexes.forward import ForwardIndexWriter
from rerank_plugin.indexes.index_concepts import KNOWLEDGE, ConceptWriter, text_to_annotate
from rerank_plugin.indexes.index_folder import DESCRIPTION, INDEX, first_generation, write_description
from rerank_plugin.indexes.lucene_reader import (
    commit_id,
    indexed_fields,
    lucene_ids,
    lucene_numbers,
    open_reader,
    stored_documents,
)
from rerank_plugin.indexes.lucene_writer import LuceneWriter
from rerank_plugin.java.jvm import detach_at_thread_end
from rerank_plugin.text.tokenizer import PLAIN, Tokenizer

log = logging.getLogger(__name__)

BATCH = 1000  # documents that cross to Java at once
LUCENE_LAG = 3  # batches that may wait for Lucene before reading pauses: bounds the memory


@dataclass(frozen=True)
class BuildReport:
    """Numbers of indexed items; ``concepts`` is None if the index was built without an annotator."""

    documents: int
    terms: int
    tokens: int
    concepts: int | None = None


def _without_duplicates(batch: list[Document], seen: SeenHashes, problems: Problems):
    """The documents of a batch with a new id, and the hashes of their ids, uint64 [n]; the first of equal ids is kept.

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


def build_index(
    documents: Iterable[Document],
    folder: Path,
    source: str,
    problems: Problems,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Callable[[Iterable[Document]], Iterable[Document]] = iter,
    tokenizer: Tokenizer = PLAIN,
    annotator=None,
) -> BuildReport:
    """Build ``folder`` from documents, in a temporary sibling that is renamed when everything is written.

    Args:
        documents: read once, as a stream; the vocabulary and 16 bytes per document are kept in memory.
        source: where the documents come from, for the description.
        problems: collects duplicate ids; raises at once when strict.
        threads: Lucene's indexing threads; by default the number of processors.
        progress: wraps the documents, for a progress bar.
        tokenizer: of the forward index; Lucene uses its own analyzer.
        annotator: a :class:`~rerank_plugin.knowledge.annotation.Annotator` that finds the concepts of each document;
            without one the index holds no concepts.

    Raises:
        InputError: something is there that must not be replaced, or there is no document to index.
    """
    with replacing_folder(folder, INDEX, overwrite) as building:
        builder = _Builder(building, problems, tokenizer, annotator)
        lucene = LuceneWriter(building / "lucene", threads or os.cpu_count() or 1)
        # Java works without the GIL while the next documents are tokenized.
        with ThreadPoolExecutor(1, initializer=detach_at_thread_end) as executor:
            waiting: list[Future] = []
            try:
                for batch in builder.batches(map(_encodable, progress(documents))):
                    waiting.append(executor.submit(lucene.add, batch))
                    while len(waiting) > LUCENE_LAG or (waiting and waiting[0].done()):
                        waiting.pop(0).result()
                for future in waiting:
                    future.result()
            finally:
                lucene.close()
        builder.close_streams(source)
        reader = open_reader(building / "lucene")
        described = {
            "path": "lucene", "commit": commit_id(reader), "fields": ["title", "abstract", "contents"],
            "positions": True, "document_vectors": True, "metadata": dict(sorted(lucene.metadata.items())),
        }  # fmt: skip
        rows = _rows_of_lucene_numbers(building / builder.forward.layout.segment, reader)
        reader.close()
        return builder.finish(source, rows, described)


def build_beside(
    lucene: Path,
    folder: Path,
    title_field: str | None = None,
    text_field: str | None = None,
    overwrite: bool = False,
    progress: Callable[[Iterable[Document], int], Iterable[Document]] = lambda documents, total: documents,
    tokenizer: Tokenizer = PLAIN,
    annotator=None,
) -> BuildReport:
    """Build ``folder`` beside a Lucene index that somebody else built, which is read and neither copied nor changed.

    Args:
        lucene: the folder of the Lucene index, one of Anserini or Pyserini that stores ``raw`` or ``contents``.
        title_field, text_field: where titles and texts are: a key of the JSON object that is stored as ``raw``, or a
            stored field. By default the names that JSON lines may have.
        progress: wraps the documents, whose number it is told, for a progress bar.

    The other arguments are those of `build_index`.

    Raises:
        InputError: as in `build_index`; there is no Lucene index; or a document of it has no id, or the id of another
            one, or no stored text.
    """
    with replacing_folder(folder, INDEX, overwrite) as building:
        reader = open_reader(lucene)
        builder = _Builder(building, Problems(), tokenizer, annotator)
        found = stored_documents(reader, lucene, title_field, text_field)
        deque(builder.batches(map(_encodable, progress(found, reader.numDocs()))), maxlen=0)
        if builder.problems.total:
            raise InputError(f"{lucene} cannot be used: {builder.problems.summary()[0]}; ids have to be unique")
        builder.close_streams(str(lucene))
        rows = np.full(reader.maxDoc(), -1)
        rows[lucene_numbers(reader)] = np.arange(reader.numDocs())
        described = {"path": os.path.realpath(lucene), "commit": commit_id(reader), "fields": indexed_fields(reader)}
        described |= {"title_field": title_field, "text_field": text_field}
        reader.close()
        return builder.finish(str(lucene), rows, described)


class _Builder:
    """Writes what an index folder holds beside Lucene's index; each document is tokenized and annotated once."""

    def __init__(self, folder: Path, problems: Problems, tokenizer: Tokenizer, annotator):
        self.folder, self.problems, self.tokenizer, self.annotator = folder, problems, tokenizer, annotator
        self.forward = ForwardIndexWriter(folder, tokenizer)
        self.concepts = None if annotator is None else ConceptWriter(self.forward.segment)

    def batches(self, documents: Iterator[Document]) -> Iterator[list[Document]]:
        """Write documents, in batches without duplicate ids; each batch is given before it is written."""
        seen = SeenHashes()
        while batch := list(islice(documents, BATCH)):
            batch, hashes = _without_duplicates(batch, seen, self.problems)
            if not batch:
                continue
            yield batch
            self.forward.extend(batch, hashes)
            if self.concepts is not None:
                self.concepts.extend(self.annotator.concepts([text_to_annotate(*one[1:3]) for one in batch]))

    def close_streams(self, source: str) -> None:
        """Finish adding documents; an `InputError` if there were none."""
        self.forward.close_streams()
        if self.concepts is not None:
            self.concepts.close()
            shutil.copytree(self.annotator.knowledge.folder, self.folder / KNOWLEDGE, copy_function=link_or_copy)
        if not self.forward.title_lengths.length:
            raise InputError(f"no document to index in {source}")

    def finish(self, source: str, lucene_rows: np.ndarray, lucene: dict) -> BuildReport:
        """Write the statistics and the description."""
        statistics = self.forward.finish(lucene_rows)
        documents, terms = self.forward.title_lengths.length, len(self.forward.term_ids)
        of_concepts = {}
        if self.concepts is not None:
            of_concepts = {KNOWLEDGE: self.annotator.settings, "concepts": self.concepts.concepts.length}
        description = {
            **first_generation(documents, terms),
            "created_by": f"rerank_plugin {__version__}",
            "source": source,
            "tokenizer": self.tokenizer.settings,
            "fields": {field: asdict(numbers) for field, numbers in statistics.items()},
            "lucene": lucene,
            **of_concepts,
            "left_out": self.problems.summary(kept=False),
        }
        write_description(self.folder / DESCRIPTION, description)
        return BuildReport(documents, terms, statistics["text"].tokens, of_concepts.get("concepts"))


def _encodable(document: Document) -> Document:
    """The document with lone surrogates replaced, since neither Java nor a UTF-8 file can hold them."""
    try:
        document.id.encode(), document.title.encode(), document.abstract.encode()
    except UnicodeEncodeError:
        return Document(*(text.encode(errors="replace").decode() for text in document[:3]), document.metadata)
    return document


def _rows_of_lucene_numbers(segment: Path, reader) -> np.ndarray:
    """Row of each Lucene document number, int64 [R]: Lucene's threads and merges may reorder documents."""
    table = StringTable(segment, "ids")
    rows = np.concatenate([table.find(page) for page in lucene_ids(reader)])
    if (rows < 0).any() or len(rows) != len(table) or len(np.unique(rows)) != len(table):
        raise RuntimeError("Lucene and the forward index hold different documents")
    return rows
