"""Writes a Lucene index through Anserini, and changes that of a shard, or of all documents of an undivided index.

Each change is a new commit.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError, SystemFailure, system_failure
from rerank_plugin.base.metadata_fields import SEARCHED, TERMS, UNSTEMMED, VALUE, lucene_fields
from rerank_plugin.base.records import Document
from rerank_plugin.files.string_table import StringTable
from rerank_plugin.indexes.forward import DELETED
from rerank_plugin.indexes.layout import LUCENE_COMMIT_FILE
from rerank_plugin.indexes.lucene_analysis import unstemmed_analyzer
from rerank_plugin.indexes.lucene_reader import (
    Counts,
    commit_files,
    commit_id,
    field_counts,
    filterable_counts,
    find_commit,
    lucene_ids,
    open_directory,
    open_reader,
    segment_sizes,
)
from rerank_plugin.indexes.rows import NO_ROWS
from rerank_plugin.indexes.segment import chunks
from rerank_plugin.java.jvm import java_class, java_path
from rerank_plugin.text.normalization import analyzable

RAM_BUFFER_MB = 256.0
THREADS = 1  # Python gives Lucene no more to do, and each makes a segment
LUCENE_FIELDS = ("title", "abstract", *SEARCHED, *UNSTEMMED, *TERMS)  # beside id, contents and raw
ONE_SEGMENT = 100_000  # documents up to which a new Lucene index has one segment: a search takes longer for each
MERGED = 10  # adjacent segments of about a size that Lucene merges
LARGEST = 500_000  # documents of a segment that is merged so: a merge of ten takes some 13 GB beside them
COPIES = 100_000  # documents that are written in one call
NO_WORD = "\N{REPLACEMENT CHARACTER}"  # no analyzer of texts gives this term


def contents_of(document: Document) -> str:
    """The title and the abstract."""
    return f"{document.title} {document.abstract}"


def stored_json(document: Document) -> str:
    """The JSON object that is stored of a document, in the field ``raw``."""
    id, title, abstract, metadata = document
    record = {"id": id, "contents": contents_of(document), "title": title, "abstract": abstract, **(metadata or {})}
    return json.dumps(record, ensure_ascii=False)


class LuceneWriter:
    """Writes the Lucene index: fields title, abstract and contents, with positions.

    Metadata are fields, too (:mod:`rerank_plugin.base.metadata_fields`), most with entire values as
    terms. A document is stored under ``raw`` as a JSON object with its id, contents, title, abstract and metadata, as
    they are; the fields are analyzed in the form of :func:`~rerank_plugin.text.normalization.analyzable`.

    Args:
        term_vectors: store them, too: Pyserini's own RM3 and Rocchio read them.
    """

    def __init__(self, folder: Path, term_vectors: bool = False):
        self.folder, self.documents = folder, 0
        arguments = ["-index", java_path(folder).toString(), "-input", "", "-collection", "JsonCollection"]
        arguments += ["-threads", str(THREADS), "-storePositions", "-storeRaw", "-fields", *LUCENE_FIELDS]
        arguments += ["-storeDocvectors"] if term_vectors else []
        self.indexer = java_class("io.anserini.index.SimpleIndexer")(arguments)
        fields = java_class("org.apache.commons.lang3.reflect.FieldUtils")
        self.writer = fields.readField(self.indexer, "writer", True)
        config = self.writer.getConfig()
        # Anserini buffers 2 GB of postings; Lucene lets the limit of an open writer be changed.
        config.setRAMBufferSizeMB(RAM_BUFFER_MB)
        fields.writeField(config, "codec", _compressing(config.getCodec()), True)
        # Anserini analyzes all fields as English text.
        fields.writeField(config, "analyzer", _analyzer(config.getAnalyzer()), True)
        # Jackson fills the fields of Anserini's documents: one call for many documents, with exactly our values.
        self.document_array = java_class("java.lang.Class").forName("[Lio.anserini.collection.JsonCollection$Document;")
        self.mapper = java_class("com.fasterxml.jackson.databind.ObjectMapper")()
        constraints = java_class("com.fasterxml.jackson.core.StreamReadConstraints").builder()
        # Jackson's limit of 20 million characters would end the build; `problems.LONGEST` bounds each document.
        self.mapper.getFactory().setStreamReadConstraints(constraints.maxStringLength(2**31 - 1).build())
        self.mapper.setVisibility(
            java_class("com.fasterxml.jackson.annotation.PropertyAccessor").FIELD,
            java_class("com.fasterxml.jackson.annotation.JsonAutoDetect$Visibility").ANY,
        )

    def fields(self, documents: Sequence[Document]) -> str:
        """The fields of documents for `add`, by Python alone."""
        return json.dumps([self._fields(document) for document in documents], ensure_ascii=False)

    def add(self, documents: Sequence[Document], fields: str) -> None:
        """Add documents with their `fields`, in one call to Java."""
        with self._writing():
            added = self.indexer.addJsonDocuments(self.mapper.readValue(fields, self.document_array))
        if added != len(documents):
            raise InputError(
                f"Lucene added {added} of {len(documents)} documents between ids {documents[0].id} and "
                f"{documents[-1].id}; see its messages in the log"
            )
        self.documents += added

    def _fields(self, document: Document) -> dict[str, Any]:
        """The fields of Anserini's JSON document, whose ``fields`` are indexed beside the contents."""
        id, title, abstract, metadata = document
        texts = {"title": title, "abstract": abstract}
        of_metadata = lucene_fields(metadata)
        texts |= {name: of_metadata.pop(name) for name in SEARCHED if name in of_metadata}
        fields = {name: analyzable(text) for name, text in texts.items()}
        fields |= {name: fields[stemmed] for name, stemmed in UNSTEMMED.items() if fields.get(stemmed)} | of_metadata
        contents = analyzable(contents_of(document))
        return {"id": id, "contents": contents, "raw": stored_json(document), "fields": fields}

    def close(self) -> None:
        with self._writing():
            if self.documents <= ONE_SEGMENT:  # Lucene's threads have written one each, or more
                self.writer.forceMerge(1)
            self.indexer.close()

    def _writing(self) -> AbstractContextManager[None]:
        return _writing(self.folder)


def write_numbers(folder: Path, numbers: Mapping[str, tuple[int, int]]) -> None:
    """Write a Lucene index whose statistics are given and whose documents no query finds.

    Read beside another index (`side_by_side`), it adds its statistics to those by which documents there are scored.

    Args:
        numbers: of each field, the documents that have it and its words in all of them.
    """
    package = "org.apache.lucene"
    analysis = java_class(f"{package}.analysis.custom.CustomAnalyzer").builder().withTokenizer("whitespace")
    config = java_class(f"{package}.index.IndexWriterConfig")(analysis.addTokenFilter("delimitedTermFrequency").build())
    kind = java_class(f"{package}.document.FieldType")()
    kind.setOmitNorms(True)
    kind.setIndexOptions(java_class(f"{package}.index.IndexOptions").DOCS_AND_FREQS)
    kind.freeze()
    numbers = {field: number for field, number in numbers.items() if number[0]}
    copies = java_class("java.util.Collections").nCopies
    with _writing(folder):
        writer = java_class(f"{package}.index.IndexWriter")(open_directory(folder), config)
        try:
            before = 0
            for count in sorted({1, *(documents for documents, _ in numbers.values())}):
                lengths = {
                    field: words // documents + (0 if before else words % documents)
                    for field, (documents, words) in numbers.items()
                    if documents >= count
                }
                document = _without_words(lengths, kind)
                while before < count:
                    some = min(count - before, COPIES)
                    writer.addDocuments(copies(some, document))
                    before += some
            writer.commit()
        finally:
            writer.close()


def _without_words(lengths: Mapping[str, int], kind: Any) -> Any:
    """A Lucene document whose fields have a term that is no word, as often as they would have words."""
    from jnius import cast

    document = java_class("org.apache.lucene.document.Document")()
    for field, length in lengths.items():
        text = cast("java.lang.CharSequence", java_class("java.lang.String")(f"{NO_WORD}|{length}"))
        of_kind = cast("org.apache.lucene.index.IndexableFieldType", kind)
        document.add(java_class("org.apache.lucene.document.Field")(field, text, of_kind))
    return document


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn an exception of Lucene into an `InputError`."""
    from jnius import JavaException

    try:
        yield
    except JavaException as error:
        if (failure := system_failure(error)) is not None:
            raise SystemFailure(f"{folder}: {failure}", failure.errno) from None
        message = str(error).splitlines()[0]
        raise InputError(f"{folder}: Lucene cannot write its index ({message:.200})") from None


def update_lucene(
    folder: Path, commit: str, deleted: Iterable[str] = (), added: Path | None = None, merge: bool = False
) -> None:
    """Write a new commit of a Lucene index; files of earlier ones stay.

    Deleted documents count in Lucene's statistics until a merge, even if their segment holds no others.

    Args:
        commit: the file of the commit that is changed, the last one.
        deleted: ids of documents to delete.
        added: the Lucene index of documents to add: its segments are copied as they are.
        merge: merge the segments that have deleted documents, and those that Lucene's policy finds too many.
    """
    directory = open_directory(folder)
    from jnius import cast  # not before: it would start Java without Lucene

    package = "org.apache.lucene.index."
    config = java_class(f"{package}IndexWriterConfig")()
    config.setIndexCommit(find_commit(directory, folder, commit))
    config.setIndexDeletionPolicy(java_class(f"{package}NoDeletionPolicy").INSTANCE)
    config.setCommitOnClose(False)
    config.setRAMBufferSizeMB(RAM_BUFFER_MB)
    config.setCodec(_compressing(config.getCodec()))
    if merge:
        policy = java_class(f"{package}TieredMergePolicy")()
        policy.setForceMergeDeletesPctAllowed(0.0)
    else:  # this one keeps segments of deleted documents alone: else scores would depend on who shares a segment
        everything = java_class("org.apache.lucene.search.MatchAllDocsQuery")()
        policy = java_class(f"{package}SoftDeletesRetentionMergePolicy")(
            "none",
            cast("java.util.function.Supplier", java_class("com.google.common.base.Suppliers").ofInstance(everything)),
            cast(f"{package}MergePolicy", java_class(f"{package}NoMergePolicy").INSTANCE),
        )
    config.setMergePolicy(policy)
    term, query = java_class(f"{package}Term"), java_class("org.apache.lucene.search.TermQuery")
    text = java_class("org.apache.lucene.util.BytesRef")
    with _writing(folder):
        writer = java_class(f"{package}IndexWriter")(directory, config)
        try:
            for id in deleted:  # by queries: pyjnius does not find the method that takes terms
                writer.deleteDocuments(query(term("id", text(id.encode()))))
            if added is not None:
                writer.addIndexes(open_directory(added))
            if merge:
                writer.forceMergeDeletes()
                writer.maybeMerge()
            writer.commit()
        finally:
            writer.close()


def merge_adjacent(folder: Path, commit: str, deleted: np.ndarray) -> None:
    """Let Lucene merge adjacent segments of about a size, in a new commit whose documents keep their numbers.

    No score changes, as deleted documents stay and are counted: Lucene's writer sees a commit in which nothing is
    deleted, and what it made of that gets its deleted documents again.

    Args:
        commit: the file of the commit that is changed.
        deleted: whether each of its documents is, bool [L].
    """
    directory, package = open_directory(folder), "org.apache.lucene.index."
    infos, info_of = java_class(f"{package}SegmentInfos"), java_class(f"{package}SegmentCommitInfo")

    def described(segment: Any, count: int = 0, generation: int = -1) -> Any:
        """A segment of which ``count`` documents are deleted."""
        others = segment.getFieldInfosGen(), segment.getDocValuesGen(), segment.getId()
        return info_of(segment.info, count, 0, generation, *others)

    with _writing(folder):
        whole = infos.readCommit(directory, commit)
        before = {segment.info.name: segment for segment in _segments(whole)}
        whole.clear()
        for segment in before.values():
            whole.add(described(segment))
        whole.commit(directory)
        config = java_class(f"{package}IndexWriterConfig")()
        config.setIndexCommit(find_commit(directory, folder, whole.getSegmentsFileName()))
        config.setIndexDeletionPolicy(java_class(f"{package}NoDeletionPolicy").INSTANCE)
        config.setCommitOnClose(False)
        config.setCodec(_compressing(config.getCodec()))
        policy = java_class(f"{package}LogDocMergePolicy")()
        policy.setMergeFactor(MERGED)
        policy.setMaxMergeDocs(LARGEST)
        config.setMergePolicy(policy)
        config.setMergeScheduler(java_class(f"{package}SerialMergeScheduler")())  # in this thread
        writer = java_class(f"{package}IndexWriter")(directory, config)
        try:
            writer.maybeMerge()
            writer.commit()
        finally:
            writer.close()
        merged, first = infos.readLatestCommit(directory), 0
        after = _segments(merged)
        merged.clear()
        for segment in after:
            size = segment.info.maxDoc()
            gone, first = np.flatnonzero(deleted[first : first + size]), first + size
            if (known := before.get(segment.info.name)) is not None:
                segment = known
            elif len(gone):
                live = np.full(-(-size // 64) * 64, True)
                live[size:] = live[gone] = False
                words = np.packbits(live, bitorder="little").view(np.int64).tolist()
                bits = java_class("org.apache.lucene.util.FixedBitSet")(words, size).asReadOnlyBits()
                context = java_class("org.apache.lucene.store.IOContext").DEFAULT
                format = segment.info.getCodec().liveDocsFormat()
                format.writeLiveDocs(bits, directory, segment, len(gone), context)
                segment = described(segment, len(gone), segment.getNextDelGen())
            merged.add(segment)
        merged.commit(directory)


def _segments(infos: Any) -> list[Any]:
    return [infos.info(number) for number in range(infos.size())]


def _compressing(codec: Any) -> Any:
    """This codec of Lucene's, by which stored documents take half of the room, and 0.1 ms more to read, each."""
    name = codec.getClass().getName()
    return java_class(name)(java_class(f"{name}$Mode").BEST_COMPRESSION)


def _analyzer(text_analyzer: Any) -> Any:
    """An analyzer of entire values in `TERMS`, of unstemmed words in `UNSTEMMED`; ``text_analyzer`` of the others."""
    custom = java_class("org.apache.lucene.analysis.custom.CustomAnalyzer")
    values = custom.builder().withTokenizer("pattern", "pattern", VALUE).build()
    fields = java_class("java.util.HashMap")()
    for name in (*TERMS, *UNSTEMMED):
        fields.put(name, values if name in TERMS else unstemmed_analyzer())
    return java_class("org.apache.lucene.analysis.miscellaneous.PerFieldAnalyzerWrapper")(text_analyzer, fields)


PART = 1 << 20  # rows of Lucene's documents that are compared at once


class LuceneUpdate:
    """The Lucene index of a shard, as a commit of the index reads it.

    Args:
        folder: the index folder. path: of the Lucene index in it.
        description: what the commit before says of it; empty for a new Lucene index.
        rows: of its documents, in the shard, uint32 [L]. files: of its commit, by their paths in the index folder.

    Attributes:
        counts: Lucene's, of the documents that are added, or of all in a new or a merged Lucene index.
        filterable: of a new or a merged Lucene index, the number of documents with each field that has a filter.
    """

    def __init__(
        self,
        folder: Path,
        path: str,
        description: dict[str, Any] | None = None,
        rows: np.ndarray = NO_ROWS,
        files: Sequence[str] = (),
    ):
        self.folder, self.path, self.description = folder, path, dict(description or {})
        self.rows, self.files, self.changed = np.asarray(rows), list(files), not description
        self.counts: Counts = {}
        self.filterable = Counter[str]()

    def built(self, ids: StringTable, fields: Sequence[str]) -> None:
        """Read a new Lucene index of the documents of a table of ids."""
        reader = self._opened()
        self.rows, self.counts = lucene_rows(ids, reader), field_counts(reader, fields)
        self.filterable = filterable_counts(reader)
        reader.close()

    def change(self, deleted: np.ndarray, ids: Iterable[str], added_index: Path | None, added: np.ndarray) -> None:
        """Delete documents, and add those of another Lucene index.

        Args:
            deleted: rows int64 [n]. ids: of these.
            added: rows of the added documents by their Lucene numbers, int64 [a].
        """
        known = self._rows_by_segment()
        update_lucene(self.folder / self.path, self.description[LUCENE_COMMIT_FILE], ids, added_index)
        parts = [np.zeros(0, np.uint32)]
        reader = self._opened()
        for segment, size in segment_sizes(reader).items():
            if segment not in known:
                known[segment], added = added[:size], added[size:]
            parts.append(known[segment].astype(np.uint32, copy=False))
        rows = np.concatenate(parts)
        for some in chunks(rows, PART):  # views: little memory is needed besides
            some[np.isin(some, deleted)] = DELETED
        if len(added) or (rows != DELETED).sum() != reader.numDocs():
            raise RuntimeError("Lucene and the forward index hold different documents")
        reader.close()
        self.rows = rows

    def merge(self, ids: StringTable, fields: Sequence[str]) -> None:
        """Remove deleted documents; ``ids`` are those that are left."""
        update_lucene(self.folder / self.path, self.description[LUCENE_COMMIT_FILE], merge=True)
        self.built(ids, fields)

    def merge_adjacent(self) -> None:
        """Let Lucene merge adjacent segments; documents keep their numbers."""
        deleted = self.rows == DELETED
        merge_adjacent(self.folder / self.path, self.description[LUCENE_COMMIT_FILE], deleted)
        reader = self._opened()
        if (reader.maxDoc(), reader.numDocs()) != (len(deleted), len(deleted) - deleted.sum()):
            raise RuntimeError("Lucene and the forward index hold different documents")
        reader.close()

    def _rows_by_segment(self) -> dict[str, np.ndarray]:
        """The rows of the documents of each of Lucene's segments."""
        reader = open_reader(self.folder / self.path, self.description[LUCENE_COMMIT_FILE])
        sizes = segment_sizes(reader)
        reader.close()
        return dict(zip(sizes, np.split(self.rows, np.cumsum(list(sizes.values()))[:-1])))

    def renumber(self, rows: np.ndarray) -> None:
        """Give the documents other rows, int64 [R], by those that they have."""
        live = np.flatnonzero(self.rows != DELETED)
        numbered = np.full(len(self.rows), DELETED, np.uint32)
        numbered[live] = rows[self.rows[live]]
        self.rows, self.changed = numbered, True

    def _opened(self) -> Any:
        """A reader of the commit that was just written."""
        reader = open_reader(self.folder / self.path)
        commit, files = commit_files(reader)
        self.description |= {"path": self.path, "commit": commit_id(reader), LUCENE_COMMIT_FILE: commit}
        self.files, self.changed = [f"{self.path}/{name}" for name in files], True
        return reader


def lucene_rows(table: StringTable, reader: Any, first: int = 0) -> np.ndarray:
    """Row of each Lucene document number, uint32 [n]: Lucene's threads and merges may reorder documents.

    Args:
        table: the ids of all rows from ``first`` on.
    """
    pages = (table.find(page).astype(np.uint32) for page in lucene_ids(reader))  # the largest for -1
    rows = np.concatenate([np.zeros(0, np.uint32), *pages])
    found = np.zeros(len(table), bool)
    found[rows[rows < len(table)]] = True
    if len(rows) != len(table) or not found.all():
        raise RuntimeError("Lucene and the forward index hold different documents")
    return rows + np.uint32(first)
