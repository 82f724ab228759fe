"""The forward index: the words of every document as memory-mapped arrays, readable without Java.

Letters used in shapes throughout the package: B batch, C candidates, N document words, M query words, D dimension of a
word vector, V vocabulary.

Its ``.npy`` files in an index folder (:mod:`rerank_plugin.indexes.index_folder`):

=====================  =======  ======  =============================================================================
segments/SEGMENT/      dtype    shape   of documents that were added together; never changed
=====================  =======  ======  =============================================================================
tokens                 uint32   [T]     term ids of all documents, title first, then abstract, without any truncation
offsets                uint64   [R+1]   where each document's tokens start
title_lengths          uint32   [R]     the number of tokens of the title
unique_FIELD           uint32   [R]     distinct terms in the field (title, abstract, text)
ids, titles            (string tables: external ids, titles as written)
published              (string table: date, tab, journal, if the corpus has them)
concepts               uint32   [Tc]    concepts of all documents in text order, as rows of the index's knowledge base
concept_offsets        uint64   [R+1]   where each document's concepts start
=====================  =======  ======  =============================================================================

=====================  =======  ======  =============================================================================
other files            dtype    shape   of the whole collection
=====================  =======  ======  =============================================================================
vocabulary/terms       (string table: the terms that a segment's documents added; the name ends in the segment's number)
vocabulary/df_FIELD    uint32   [V]     documents that hold the term in the field; ends in the generation's number
lucene_rows            uint32   [L]     row of each Lucene document number; ends in the generation's number
=====================  =======  ======  =============================================================================

The concepts exist only if the index was built with a knowledge base (:mod:`rerank_plugin.indexes.index_concepts`).

Terms are not conflated: rare words keep their own ids here ([D18] 4.2.2 needs them), and a model maps them to its own
vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document
from rerank_plugin.files.arrays import ArrayWriter, OffsetsWriter, open_array, save_array
from rerank_plugin.files.string_table import StringsInMemory, StringTable, StringTableWriter
from rerank_plugin.text.tokenizer import PLAIN, PieceMemo, Tokenizer

if TYPE_CHECKING:
    from rerank_plugin.indexes.index_concepts import IndexKnowledge

FIELDS = ("title", "abstract", "text")  # text is title + abstract: [D18]'s 'Text', Lucene's 'contents'


def idf(document_frequency: np.ndarray, documents: int) -> np.ndarray:
    """Inverse document frequency ``ln(1 + (R - df + 0.5) / (df + 0.5))``, as in Lucene's BM25; float64, any shape."""
    df = np.asarray(document_frequency, dtype=np.float64)
    return np.log1p((documents - df + 0.5) / (df + 0.5))


class Layout(NamedTuple):
    """The paths of a forward index with one segment in the index folder, without ``.npy``."""

    segment: str = "segments/000001"
    terms: str = "vocabulary/terms.000001"
    frequency: str = "vocabulary/df_{}.000001"
    lucene_rows: str = "lucene_rows.000001"
    vectors: str = "000001"  # in a folder of encodings


class IndexQuery(NamedTuple):
    """A query's tokens, their term ids in an index (int64 [M]; -1 for a term of no document), and its text."""

    terms: list[str]
    ids: np.ndarray
    text: str = ""


@dataclass(frozen=True)
class FieldStatistics:
    """Token count of one field over the collection, and the mean over documents."""

    tokens: int
    mean_length: float


def field_statistics(tokens: np.ndarray, title_lengths: np.ndarray) -> dict[str, FieldStatistics]:
    """The statistics of each field, from the words of all documents [T] and the lengths of their titles [R]."""
    titles = int(title_lengths.sum(dtype=np.int64))
    totals = zip(FIELDS, (titles, len(tokens) - titles, len(tokens)))
    return {field: FieldStatistics(total, total / max(len(title_lengths), 1)) for field, total in totals}


class ForwardIndex:
    """A memory-mapped forward index; opening it reads only file headers.

    Args:
        folder: the index folder.
        knowledge: the knowledge base of the concepts; None for an index without concepts, whose ``concepts`` and
            ``concept_offsets`` are None, too.
        checksum: of the files and terms of its segments and of its knowledge base, a JSON value. Data derived from the
            index stores it, to identify the index later. None outside an index folder with a description.
        layout: the paths of its files.

    Attributes:
        name: the name of the index in messages.
        in_memory: whether it holds the texts of a query (:class:`~rerank_plugin.indexes.text_index.TextIndex`).
    """

    ids: StringTable | StringsInMemory
    terms: StringTable | StringsInMemory

    def __init__(
        self,
        folder: Path,
        mean_lengths: dict[str, float],
        tokenizer: Tokenizer = PLAIN,
        knowledge: IndexKnowledge | None = None,
        checksum: dict[str, str] | None = None,
        layout: Layout = Layout(),
    ):
        self.folder = folder
        self.mean_lengths = mean_lengths
        self.tokenizer = tokenizer
        self.knowledge = knowledge
        self.checksum, self.layout = checksum, layout
        segment = folder / layout.segment
        self.in_memory, self.name = False, str(folder)
        self.concepts: np.ndarray | None = None
        self.concept_offsets: np.ndarray | None = None
        if knowledge is not None:
            self.concepts = open_array(segment / "concepts.npy")
            self.concept_offsets = open_array(segment / "concept_offsets.npy")
        self.tokens = open_array(segment / "tokens.npy")
        self.offsets = open_array(segment / "offsets.npy")
        self.title_lengths = open_array(segment / "title_lengths.npy")
        self._unique_terms = {field: open_array(segment / f"unique_{field}.npy") for field in FIELDS}
        self.ids = StringTable(segment, "ids")
        self.titles = StringTable(segment, "titles")
        self.published = StringTable(segment, "published")
        self.lucene_rows = open_array(folder / f"{layout.lucene_rows}.npy")
        self._document_frequency = {
            field: open_array(folder / f"{layout.frequency.format(field)}.npy") for field in FIELDS
        }
        self.terms = StringTable(folder, layout.terms)

    def __len__(self) -> int:
        return len(self.title_lengths)

    @property
    def documents(self) -> int:
        """The number of documents in the collection of the document frequencies."""
        return len(self)

    @property
    def document_frequency(self) -> dict[str, np.ndarray]:
        """The document frequency of every term by field, uint32 [V]."""
        return self._document_frequency

    @property
    def unique_terms(self) -> dict[str, np.ndarray]:
        """The number of distinct terms of every document by field, uint32 [R]."""
        return self._unique_terms

    @property
    def vocabulary_size(self) -> int:
        return len(self.terms)

    @cached_property
    def term_weights(self) -> np.ndarray:
        """The IDF of every term in title and abstract, float64 [V]."""
        return idf(self.document_frequency["text"], len(self))

    @cached_property
    def lucene_numbers(self) -> np.ndarray:
        """The Lucene number of each row, int64 [R]."""
        rows = np.asarray(self.lucene_rows)
        numbers, live = np.empty(len(self), np.int64), np.flatnonzero(rows < len(self))  # deleted ones have no row
        numbers[rows[live]] = live
        return numbers

    def rows(self, ids: Sequence[str]) -> np.ndarray:
        """Rows of external ids, int64 [n]; -1 for an id that is not in the index."""
        return self.ids.find(ids)

    def check_tokenizer(self, settings: dict, subject: str) -> None:
        """An `InputError` if ``subject`` (a model, word vectors) has other tokenizer settings than the index."""
        if settings != self.tokenizer.settings:
            raise InputError(
                f"{subject} is of texts tokenized with {settings}, the index {self.name} with "
                f"{self.tokenizer.settings}: use an index and word vectors with the same stemmer"
            )

    def query(self, text: str) -> IndexQuery:
        """Tokenize a query with the tokenizer of the documents, and look up its terms."""
        terms = self.tokenizer.tokenize(text)
        return IndexQuery(terms, self.terms.find(terms), text)

    def document_tokens(self, row: int) -> np.ndarray:
        """Term ids of one document, uint32 [N], a view."""
        return self.tokens[int(self.offsets[row]) : int(self.offsets[row + 1])]


class ForwardIndexWriter:
    """Writes a forward index of one segment: ``extend`` with batches, then ``close_streams`` and ``finish``."""

    def __init__(self, folder: Path, tokenizer: Tokenizer = PLAIN):
        self.folder, self.tokenizer, self.layout = folder, tokenizer, Layout()
        self.segment = segment = folder / self.layout.segment
        for subfolder in (segment, folder / "vocabulary"):
            subfolder.mkdir(parents=True)
        self.term_ids: dict[str, int] = {}
        # Term ids are cached by piece of text: after the first documents hardly any piece is tokenized again.
        self.memo = PieceMemo(self._number_piece)
        self.tokens = ArrayWriter(segment / "tokens.npy", np.uint32)
        self.offsets = OffsetsWriter(segment / "offsets.npy")
        self.title_lengths = ArrayWriter(segment / "title_lengths.npy", np.uint32)
        self.ids = StringTableWriter(segment, "ids", searchable=True)
        self.titles = StringTableWriter(segment, "titles", searchable=False)
        self.published = StringTableWriter(segment, "published", searchable=False)

    def _number_piece(self, piece: str) -> tuple[int, ...]:
        term_ids = self.term_ids
        return tuple(term_ids.setdefault(term, len(term_ids)) for term in self.tokenizer.tokenize_piece(piece))

    def extend(self, documents: Sequence[Document], id_hashes: np.ndarray | None = None) -> None:
        """Append documents. ``id_hashes`` uint64 [n], the hashes of their ids (`hash_strings`), are optional."""
        number = self.memo.__getitem__
        flat: list[int] = []
        title_lengths, lengths = [], []
        for _, title, abstract, _ in documents:
            before = len(flat)
            for piece in map(number, title.split()):
                flat += piece
            title_lengths.append(len(flat) - before)
            for piece in map(number, abstract.split()):
                flat += piece
            lengths.append(len(flat) - before)
        self.tokens.append(flat)
        self.offsets.extend(lengths)
        self.title_lengths.append(title_lengths)
        self.ids.extend([document.id for document in documents], id_hashes)
        self.titles.extend([" ".join(document.title.split()) for document in documents])
        self.published.extend([_published(document.metadata) for document in documents])

    def close_streams(self) -> None:
        """Finish adding documents; from then on their ids can be looked up."""
        terms = StringTableWriter(self.folder, self.layout.terms, searchable=True)
        terms.extend(list(self.term_ids))
        for stream in (
            self.tokens, self.offsets, self.title_lengths, self.ids, self.titles, self.published, terms
        ):  # fmt: skip
            stream.close()

    def finish(self, lucene_rows: np.ndarray) -> dict[str, FieldStatistics]:
        """Write the statistics. ``lucene_rows`` int [L]: row of each Lucene number; -1 for a deleted document."""
        save_array(self.folder / f"{self.layout.lucene_rows}.npy", lucene_rows.astype(np.uint32))
        return self._write_statistics(max(len(self.term_ids), 1))

    def _write_statistics(self, vocabulary: int, chunk: int = 10_000) -> dict[str, FieldStatistics]:
        """Document frequencies, and the number of distinct terms of each document, in chunks of documents."""
        tokens, offsets, title_lengths = (
            open_array(self.segment / f"{name}.npy") for name in ("tokens", "offsets", "title_lengths")
        )
        documents = len(title_lengths)
        frequency = {field: np.zeros(vocabulary, np.uint32) for field in FIELDS}
        unique = {field: ArrayWriter(self.segment / f"unique_{field}.npy", np.uint32) for field in FIELDS}
        for start in range(0, documents, chunk):
            stop = min(start + chunk, documents)
            pairs = _distinct_terms(tokens, offsets, title_lengths, vocabulary, start, stop)
            for field, (document, term) in pairs.items():
                np.add.at(frequency[field], term, 1)
                unique[field].append(np.bincount(document, minlength=stop - start))
        for field in FIELDS:
            unique[field].close()
            save_array(self.folder / f"{self.layout.frequency.format(field)}.npy", frequency[field])
        return field_statistics(tokens, title_lengths)


def _published(metadata: Mapping[str, Any] | None) -> str:
    return f"{metadata.get('date', '')}\t{metadata.get('journal', '')}".rstrip("\t") if metadata else ""


def _distinct_terms(tokens, offsets, title_lengths, vocabulary: int, start: int, stop: int):
    """Distinct (document, term) pairs of documents start..stop for each field: {field: (document, term)}, int64 [n]."""
    first, last = int(offsets[start]), int(offsets[stop])
    lengths = np.diff(offsets[start : stop + 1].astype(np.int64))
    document = np.repeat(np.arange(stop - start, dtype=np.int64), lengths)
    position = np.arange(last - first, dtype=np.int64) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    in_abstract = position >= np.repeat(title_lengths[start:stop].astype(np.int64), lengths)
    keys = (document * vocabulary + tokens[first:last].astype(np.int64)) * 2 + in_abstract
    keys.sort()
    distinct = keys[np.diff(keys, prepend=-1) != 0]
    pairs = {"title": distinct[distinct % 2 == 0] // 2, "abstract": distinct[distinct % 2 == 1] // 2}
    either = distinct // 2
    pairs["text"] = either[np.diff(either, prepend=-1) != 0]
    return {field: np.divmod(pair, vocabulary) for field, pair in pairs.items()}
