"""Builds an index folder: every document is read and tokenized once."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from uuid import uuid4

import numpy as np

from rerank_plugin import __version__
from rerank_plugin.corpora import Document, Problems
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.java import detach_at_thread_end
from rerank_plugin.files.outputs import link_or_copy, replacing_folder
from rerank_plugin.files.string_table import SeenHashes, StringTable, hash_strings
from rerank_plugin.indexes.forward import ForwardIndexWriter
from rerank_plugin.indexes.index_concepts import KNOWLEDGE, ConceptWriter, text_to_annotate
from rerank_plugin.indexes.index_folder import DESCRIPTION, FORMAT_VERSION, GENERATION, INDEX, write_description
from rerank_plugin.indexes.lucene_writer import LuceneWriter, lucene_ids
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
        return _build(iter(progress(documents)), building, source, problems, threads, tokenizer, annotator)


def _build(documents, folder: Path, source: str, problems: Problems, threads: int | None, tokenizer, annotator):
    generation = uuid4().hex
    lucene = LuceneWriter(folder / "lucene", threads or os.cpu_count() or 1, generation)
    forward = ForwardIndexWriter(folder / "forward", tokenizer)
    concepts = None if annotator is None else ConceptWriter(folder / "forward")
    seen = SeenHashes()
    # Java works without the GIL while the next documents are tokenized.
    with ThreadPoolExecutor(1, initializer=detach_at_thread_end) as executor:
        waiting: list[Future] = []
        try:
            while batch := list(islice(documents, BATCH)):
                batch, hashes = _without_duplicates(batch, seen, problems)
                if not batch:
                    continue
                ids, titles, abstracts = ([_encodable(text) for text in column] for column in zip(*batch))
                waiting.append(executor.submit(lucene.add, ids, titles, abstracts))
                forward.extend(ids, titles, abstracts, hashes)
                if concepts is not None:
                    concepts.extend(annotator.concepts(list(map(text_to_annotate, titles, abstracts))))
                while len(waiting) > LUCENE_LAG or (waiting and waiting[0].done()):
                    waiting.pop(0).result()
            for future in waiting:
                future.result()
        finally:
            lucene.close()
    forward.close_streams()
    of_concepts = {}
    if concepts is not None:
        concepts.close()
        of_concepts = {KNOWLEDGE: annotator.settings, "concepts": concepts.concepts.length}
        shutil.copytree(annotator.knowledge.folder, folder / KNOWLEDGE, copy_function=link_or_copy)
    if not len(StringTable(folder / "forward", "ids")):
        raise InputError(f"no document to index in {source}")
    statistics = forward.finish(_rows_of_lucene_numbers(folder))
    description = {
        "format_version": FORMAT_VERSION,
        GENERATION: generation,
        "created_by": f"rerank_plugin {__version__}",
        "source": source,
        "tokenizer": tokenizer.settings,
        "documents": forward.title_lengths.length,
        "terms": len(forward.term_ids),
        "fields": {field: asdict(numbers) for field, numbers in statistics.items()},
        "lucene": {"fields": ["title", "abstract", "contents"], "positions": True, "document_vectors": True},
        **of_concepts,
        "left_out": problems.summary(kept=False),
    }
    write_description(folder / DESCRIPTION, description)
    tokens, found = statistics["text"].tokens, of_concepts.get("concepts")
    return BuildReport(description["documents"], description["terms"], tokens, found)


def _encodable(text: str) -> str:
    """The text with lone surrogates replaced, since neither Java nor a UTF-8 file can hold them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def _rows_of_lucene_numbers(folder: Path) -> np.ndarray:
    """Row of each Lucene document number, uint32 [R]: Lucene's threads and merges may reorder documents."""
    table = StringTable(folder / "forward", "ids")
    rows = np.concatenate([table.find(page) for page in lucene_ids(folder / "lucene")])
    if (rows < 0).any() or len(rows) != len(table) or len(np.unique(rows)) != len(table):
        raise RuntimeError("Lucene and the forward index hold different documents")
    return rows
