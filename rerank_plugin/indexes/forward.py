"""The forward index: the words of every document as memory-mapped arrays, readable without Java.

Letters used in shapes throughout the package: B batch, C candidates, N document words, M query words, D dimension of a
word vector, V vocabulary.

Its ``.npy`` files in an index folder (:mod:`rerank_plugin.indexes.index_folder`), where NUMBER is the generation that
was built or merged last:

=====================  =======  ======  =============================================================================
forward/NUMBER/        dtype    shape   only appended to; a generation reads as many bytes as its description says
=====================  =======  ======  =============================================================================
tokens                 uint32   [T]     term ids of all documents, title first, then abstract, without any truncation
offsets                uint64   [R+1]   where each document's tokens start
title_lengths          uint32   [R]     the number of tokens of the title
unique_FIELD           uint32   [R]     distinct terms in the field (title, abstract, text)
ids, titles            (string tables: external ids, titles as written)
published              (string table: date, tab, journal, if the corpus has them)
concepts               uint32   [Tc]    concepts of all documents in text order, as rows of the index's knowledge base
concept_offsets        uint64   [R+1]   where each document's concepts start
terms                  (string table: the vocabulary)
=====================  =======  ======  =============================================================================

=====================  =======  ======  =============================================================================
whose names end in     dtype    shape   a generation, which wrote them
=====================  =======  ======  =============================================================================
forward/NUMBER/
  df_FIELD             uint32   [V]     documents that hold the term in the field
  deleted              uint32   [n]     rows of deleted and replaced documents, sorted
  ids, terms           (hashes and rows for look-ups in the string tables, which several generations may use)
lucene_rows            uint32   [L]     row of each Lucene document number; the largest uint32 for a deleted document
=====================  =======  ======  =============================================================================

Rows of deleted documents stay until the index is merged, but no statistic counts them: document frequencies, mean
lengths and the number of documents are those of the others.

The concepts exist only if the index was built with a knowledge base (:mod:`rerank_plugin.indexes.index_concepts`).

Terms are not conflated: rare words keep their own ids here ([D18] 4.2.2 needs them), and a model maps them to its own
vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.lazily import cached_property
from rerank_plugin.base.records import Document
from rerank_plugin.files.arrays import (
    ArrayWriter,
    OffsetsWriter,
    are_below,
    are_offsets,
    open_array,
    ranges,
    save_array,
    slices,
)
from rerank_plugin.files.checksums import passed
from rerank_plugin.files.string_table import StringsInMemory, StringTable, StringTableWriter
from rerank_plugin.text.tokenizer import PLAIN, PieceCache, Tokenizer

if TYPE_CHECKING:
    from rerank_plugin.indexes.index_concepts import IndexKnowledge

FORWARD = "forward"  # the folder of the forward index in an index
TABLES = ("ids", "titles", "published", "terms")  # string tables
SEARCHABLE = ("ids", "terms")
NO_ROWS = np.zeros(0, np.int64)
DELETED = np.iinfo(np.uint32).max  # as the row of a document of Lucene
FIELDS = ("title", "abstract", "text")  # text is title + abstract: [D18]'s 'Text', Lucene's 'contents'


def idf(document_frequency: np.ndarray, documents: int) -> np.ndarray:
    """Inverse document frequency ``ln(1 + (R - df + 0.5) / (df + 0.5))``, as in Lucene's BM25; float64, any shape."""
    df = np.asarray(document_frequency, dtype=np.float64)
    return np.log1p((documents - df + 0.5) / (df + 0.5))


class Layout(NamedTuple):
    """The paths and sizes of the files of a generation's forward index in the index folder.

    Attributes:
        number: of the generation. base: of the generation that began the files that are appended to.
        files: the size in bytes of each file, by its path in the index folder; empty for the first generation.
    """

    number: int = 1
    base: int = 1
    files: Mapping[str, int] = MappingProxyType({})

    @property
    def vectors(self) -> str:
        """The name of the vectors in a folder of encodings, without ``.npy``."""
        return numbered(self.base)

    @property
    def folder(self) -> str:
        """The folder of the forward index."""
        return f"{FORWARD}/{numbered(self.base)}"

    @property
    def lucene_rows(self) -> str:
        return f"lucene_rows.{numbered(self.number)}.npy"

    @property
    def end(self) -> str:
        """What the names of files end in that this generation writes, before ``.npy``."""
        return f".{numbered(self.number)}"

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of the files of the forward index that are appended to, by their names in its folder."""
        start = f"{self.folder}/"
        return {name.removeprefix(start): size for name, size in self.files.items() if is_appended(name)}

    def pieces(self, table: str) -> list[str]:
        """The pieces of a string table, newest first."""
        start, end = f"{self.folder}/{table}.hashes", ".npy"
        names = [name[len(start) : -len(end)] for name in self.files if name.startswith(start)]
        return sorted(names, reverse=True) or [self.end]


def numbered(number: int) -> str:
    """The number of a generation in names of files."""
    return f"{number:06d}"


def is_appended(name: str) -> bool:
    """Whether a file of an index, given by its path there, is appended to; the name of any other ends in a number."""
    return name.startswith(f"{FORWARD}/") and not PurePath(name).stem.rpartition(".")[2].isdecimal()


class Words(NamedTuple):
    """The words of C documents: each is ``tokens[start : start + length]``."""

    tokens: np.ndarray  # term ids, uint32 [T], of these documents or of all
    starts: np.ndarray  # int64 [C]
    lengths: np.ndarray  # int64 [C]


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


def field_statistics(offsets: np.ndarray, title_lengths: np.ndarray, deleted: np.ndarray) -> dict[str, FieldStatistics]:
    """The statistics of each field, without some deleted rows [n].

    Args:
        offsets: where each document's words start, [R+1]. title_lengths: words of each title, [R].
    """
    documents = len(title_lengths) - len(deleted)
    titles = int(title_lengths.sum(dtype=np.int64) - title_lengths[deleted].sum(dtype=np.int64))
    texts = int(offsets[-1]) - int(slices(offsets, deleted)[1].sum())
    return _with_means(dict(zip(FIELDS, (titles, texts - titles, texts))), documents)


def together(parts: Sequence[Mapping[str, FieldStatistics]], documents: int) -> dict[str, FieldStatistics]:
    """The statistics of all documents from those of parts of them."""
    return _with_means({field: sum(part[field].tokens for part in parts) for field in FIELDS}, documents)


def _with_means(totals: Mapping[str, int], documents: int) -> dict[str, FieldStatistics]:
    return {field: FieldStatistics(total, total / max(documents, 1)) for field, total in totals.items()}


class ForwardIndex:
    """A memory-mapped forward index; opening it reads only file headers, and all of the arrays once, to check them.

    ``len(forward)`` is the number of rows, R, which deleted documents keep; ``documents`` does not count these.

    Args:
        folder: the index folder.
        knowledge: the knowledge base of the concepts; None for an index without concepts, whose ``concepts`` and
            ``concept_offsets`` are None, too.
        checksum: of the documents, terms and knowledge base, a JSON value. Data derived from the rows of the index
            stores it, to identify the index later. None outside an index folder with a description.
        layout: the paths of its files.
        owner: the `Index` that opened it, if any.

    Attributes:
        deleted: the rows of deleted documents, uint32 [n], sorted.
        collection: the number of documents of the collection that this is a part of, whose statistics it has; None for
            a whole collection.
        name: the name of the index in messages.
        shares: of the documents, those in each shard, float64 [S].
        in_memory: whether it holds the texts of a query (:class:`~rerank_plugin.indexes.text_index.TextIndex`).
    """

    ids: StringTable | StringsInMemory
    terms: StringTable | StringsInMemory
    collection: int | None = None
    shares: np.ndarray = np.ones(1)

    def __init__(
        self,
        folder: Path,
        mean_lengths: dict[str, float],
        tokenizer: Tokenizer = PLAIN,
        knowledge: IndexKnowledge | None = None,
        checksum: dict[str, str] | None = None,
        layout: Layout = Layout(),
        owner: Any = None,
    ):
        self.folder = folder
        self.mean_lengths = mean_lengths
        self.tokenizer = tokenizer
        self.knowledge = knowledge
        self.checksum, self.layout, self.owner = checksum, layout, owner
        self.in_memory, self.name = False, str(folder)
        files, sizes = folder / layout.folder, layout.sizes

        opened = []

        def array(name: str, length: int | None = None, dtype: Any = np.uint32) -> np.ndarray:
            opened.append(files / f"{name}.npy")
            return open_array(opened[-1], sizes.get(f"{name}.npy"), dtype, (length,))

        self.title_lengths = array("title_lengths")
        rows = len(self.title_lengths)
        self.tokens, self.offsets = array("tokens"), array("offsets", rows + 1, np.uint64)
        self.concepts = None if knowledge is None else array("concepts")
        self.concept_offsets = None if knowledge is None else array("concept_offsets", rows + 1, np.uint64)
        self._unique_terms = {field: array(f"unique_{field}", rows) for field in FIELDS}
        self.ids = StringTable(files, "ids", layout.pieces("ids"), sizes, rows)
        self.titles = StringTable(files, "titles", (), sizes, rows)
        self.published = StringTable(files, "published", (), sizes, rows)
        self.terms = StringTable(files, "terms", layout.pieces("terms"), sizes)
        self._document_frequency = {
            field: array(f"df_{field}{layout.end}", max(len(self.terms), 1)) for field in FIELDS
        }
        self.deleted = array(f"deleted{layout.end}")
        opened.append(folder / layout.lucene_rows)
        self.lucene_rows = open_array(opened[-1], dtype=np.uint32, shape=(None,))
        if not passed(opened, self._is_sound, rows, len(self.terms), sizes):
            raise ValueError(f"the arrays in {files} do not fit together")

    def _is_sound(self) -> bool:
        """Whether all rows, terms and concepts in the arrays exist, and their lists are inside one another."""
        rows, terms = len(self), len(self.terms)
        return (
            are_offsets(self.offsets, len(self.tokens))
            and are_below(self.tokens, terms)
            and bool((self.title_lengths <= np.diff(self.offsets)).all())
            and all(bool((counts <= np.diff(self.offsets)).all()) for counts in self._unique_terms.values())
            and are_below(self.deleted, rows)
            and bool((self.deleted[1:] > self.deleted[:-1]).all())
            and are_below(self.lucene_rows, rows, DELETED)
            and (self.knowledge is None or self._are_concepts_sound(len(self.knowledge.base)))
        )

    def _are_concepts_sound(self, count: int) -> bool:
        concepts, offsets = self.concepts, self.concept_offsets
        assert concepts is not None and offsets is not None, "an index with a knowledge base has concepts"
        return are_offsets(offsets, len(concepts)) and are_below(concepts, count)

    def __len__(self) -> int:
        return len(self.title_lengths)

    @property
    def documents(self) -> int:
        """The number of documents in the collection of the document frequencies."""
        return self.held if self.collection is None else self.collection

    @property
    def held(self) -> int:
        """The number of documents that are held here and not deleted."""
        return len(self) - len(self.deleted)

    def shards_of(self, rows: np.ndarray) -> np.ndarray:
        """The shard that has each of the rows, int64 [n]; 0 in an index that is not divided."""
        return np.zeros(len(rows), np.int64)

    @cached_property
    def live_rows(self) -> np.ndarray:
        """The rows of the documents that are not deleted, increasing, int64 [documents]."""
        return np.arange(len(self)) if self.live is None else np.flatnonzero(self.live)

    @cached_property
    def live(self) -> np.ndarray | None:
        """Whether the document of each row is not deleted, bool [R]; None if none is deleted."""
        if not len(self.deleted):
            return None
        live = np.ones(len(self), bool)
        live[self.deleted] = False
        return live

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
        return idf(self.document_frequency["text"], self.documents)

    @cached_property
    def lucene_numbers(self) -> np.ndarray:
        """The Lucene number of each row, int64 [R]; -1 for a deleted document."""
        rows = np.asarray(self.lucene_rows)
        numbers, live = np.full(len(self), -1, np.int64), np.flatnonzero(rows < len(self))  # deleted ones have no row
        numbers[rows[live]] = live
        return numbers

    def rows(self, ids: Sequence[str]) -> np.ndarray:
        """Rows of external ids, int64 [n]; -1 for an id that is not in the index, or whose document is deleted."""
        rows = self.ids.find(ids)  # of a replaced document the row of the last one
        return rows if self.live is None else np.where((rows >= 0) & self.live[rows], rows, -1)

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
        ids = self.terms.find(terms)
        if len(self.deleted):  # terms of deleted documents alone are terms of no document
            ids = np.where((ids >= 0) & (self.document_frequency["text"][ids] > 0), ids, -1)
        return IndexQuery(terms, ids, text)

    def words(self, rows: np.ndarray) -> Words:
        """The words of documents by their rows, int64 [C]."""
        return Words(self.tokens, *slices(self.offsets, rows))

    def document_tokens(self, row: int) -> np.ndarray:
        """Term ids of one document, uint32 [N], a view."""
        tokens, starts, lengths = self.words(np.array([row]))
        return tokens[int(starts[0]) : int(starts[0] + lengths[0])]


class ForwardIndexWriter:
    """Writes the forward index of a generation: ``extend`` with batches, then ``close_streams`` and ``finish``.

    Args:
        folder: the index folder.
        index: the forward index of the generation before, whose files are appended to; None for a new index.
        number: of the generation.
    """

    def __init__(
        self, folder: Path, tokenizer: Tokenizer = PLAIN, index: ForwardIndex | None = None, number: int = 1
    ) -> None:
        self.folder, self.tokenizer, self.index = folder, tokenizer, index
        self.layout = Layout(number, number) if index is None else Layout(number, index.layout.base)
        self.sizes = {} if index is None else index.layout.sizes
        self.files = folder / self.layout.folder
        self.files.mkdir(parents=True, exist_ok=True)
        self.term_ids: dict[str, int] = {}  # in order of their first occurrence here
        self.known_terms = np.zeros(0, np.int64)  # their ids in the index, if there is one
        self.copied = np.zeros(0, np.uint32)  # ids here, counted from 1, of the terms of an index that is copied
        # Term ids are cached by piece of text: after the first documents hardly any piece is tokenized again.
        self.memo = PieceCache(self._number_piece)
        self.searched: Any = None if index is None else index.terms  # where the ids of terms are looked up
        self._open()
        self.first = self.title_lengths.length  # row of the first document that is appended
        self.pieces: dict[str, list[str]] = {}  # of the string tables, once they are closed

    def _open(self) -> None:
        self.tokens = self._array("tokens", np.uint32)
        self.offsets = OffsetsWriter(self.files / "offsets.npy", self.sizes.get("offsets.npy"))
        self.title_lengths = self._array("title_lengths", np.uint32)
        self.ids, self.titles, self.published, self.terms = (self._table(name) for name in TABLES)

    def _array(self, name: str, dtype: Any) -> ArrayWriter:
        return ArrayWriter(self.files / f"{name}.npy", dtype, size=self.sizes.get(f"{name}.npy"))

    def _table(self, name: str) -> Any:
        table = None if self.index is None else getattr(self.index, name)
        return StringTableWriter(self.files, name, name in SEARCHABLE, self.layout.end, table=table, sizes=self.sizes)

    def _number_piece(self, piece: str) -> tuple[int, ...]:
        term_ids = self.term_ids
        return tuple(term_ids.setdefault(term, len(term_ids)) for term in self.tokenizer.tokenize_piece(piece))

    def extend(self, documents: Sequence[Document], id_hashes: np.ndarray | None = None) -> None:
        """Append documents. ``id_hashes`` uint64 [n], the hashes of their ids (`hash_strings`), are optional."""
        tokens, lengths, title_lengths = self._tokenized(documents)
        self.tokens.append(tokens)
        self.offsets.extend(lengths)
        self.title_lengths.append(title_lengths)
        self.ids.extend([document.id for document in documents], id_hashes)
        self.titles.extend([" ".join(document.title.split()) for document in documents])
        self.published.extend([_published(document.metadata) for document in documents])

    def _tokenized(self, documents: Sequence[Document]) -> tuple[Sequence[int] | np.ndarray, list[int], list[int]]:
        """The term ids of documents, and the number of words and of words of the title of each; writes new terms."""
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
        return self._term_ids(flat), lengths, title_lengths

    def _term_ids(self, flat: list[int]) -> Sequence[int] | np.ndarray:
        """The ids of terms in the index, from the numbers they have here; writes those that the index lacks."""
        new = list(islice(self.term_ids, len(self.known_terms), None))
        found = np.full(len(new), -1, np.int64) if self.searched is None else self.searched.find(new)
        missing = np.flatnonzero(found < 0)
        found[missing] = np.arange(len(missing)) + len(self.terms)
        self.terms.extend([new[place] for place in missing.tolist()])
        self.known_terms = np.concatenate([self.known_terms, found])
        return flat if self.searched is None else self.known_terms[flat]

    def close_streams(self) -> None:
        """Finish adding documents; from then on their ids can be looked up."""
        for stream in (self.tokens, self.offsets, self.title_lengths):
            stream.close()
        for name in TABLES:
            self.pieces[name] = getattr(self, name).close()

    def copy(self, index: ForwardIndex, rows: np.ndarray) -> None:
        """Append documents of another forward index with this tokenizer, by their rows int64 [n], to a new index."""
        starts, lengths = slices(index.offsets, rows)
        self.tokens.append(self._renumbered(index, index.tokens[ranges(starts, lengths)]))
        self.offsets.extend(lengths.tolist())
        self.title_lengths.append(index.title_lengths[rows])
        for name in ("ids", "titles", "published"):
            getattr(self, name).extend(getattr(index, name).take(rows))

    def _renumbered(self, index: ForwardIndex, tokens: np.ndarray) -> np.ndarray:
        """The ids here of terms of another index, uint32 [T]; writes new terms."""
        if not len(self.copied):
            self.copied = np.zeros(index.vocabulary_size, np.uint32)
        distinct, places = np.unique(tokens[self.copied[tokens] == 0], return_index=True)
        new = distinct[np.argsort(places)]  # in order of their first occurrence
        self.copied[new] = np.arange(len(self.terms), len(self.terms) + len(new)) + 1
        self.terms.extend(index.terms.take(new))
        return self.copied[tokens] - 1

    def table(self, name: str) -> StringTable:
        """A string table as it is once the streams are closed."""
        sizes = {path.name: path.stat().st_size for path in self.files.glob(f"{name}.*.npy")}
        return StringTable(self.files, name, self.pieces[name], sizes)

    def finish(self, lucene_rows: np.ndarray, deleted: np.ndarray = NO_ROWS) -> dict[str, FieldStatistics]:
        """Write the statistics.

        Args:
            lucene_rows: int [L], row of each Lucene number; -1 or `DELETED` for a deleted document.
            deleted: rows int64 [n] of documents of the index that are deleted now.
        """
        save_array(self.folder / self.layout.lucene_rows, lucene_rows.astype(np.uint32, copy=False))
        return self._write_statistics(max(len(self.terms), 1), deleted)

    def _write_statistics(
        self, vocabulary: int, deleted: np.ndarray, chunk: int = 10_000
    ) -> dict[str, FieldStatistics]:
        """Document frequencies, and the number of distinct terms of each document, in chunks of documents."""
        tokens, offsets, title_lengths = (
            open_array(self.files / f"{stream}.npy", (self.files / f"{stream}.npy").stat().st_size)
            for stream in ("tokens", "offsets", "title_lengths")
        )
        before, frequency = NO_ROWS, {field: np.zeros(vocabulary, np.uint32) for field in FIELDS}
        if self.index is not None:
            before = np.asarray(self.index.deleted, np.int64)
            for field, counts in self.index.document_frequency.items():
                frequency[field][: len(counts)] = counts
        unique = {field: self._array(f"unique_{field}", np.uint32) for field in FIELDS}
        for rows in chunks(np.arange(self.first, len(title_lengths)), chunk):
            for field, (document, term) in _distinct_terms(tokens, offsets, title_lengths, vocabulary, rows).items():
                np.add.at(frequency[field], term, 1)
                unique[field].append(np.bincount(document, minlength=len(rows)))
        for rows in chunks(deleted, chunk):
            for field, (_, term) in _distinct_terms(tokens, offsets, title_lengths, vocabulary, rows).items():
                np.subtract.at(frequency[field], term, 1)
        for field in FIELDS:
            unique[field].close()
        self._write_frequency(frequency)
        self._write_deleted(before, deleted, len(title_lengths))
        return field_statistics(offsets, title_lengths, self.deleted)

    def _write_frequency(self, frequency: dict[str, np.ndarray]) -> None:
        for field in FIELDS:
            save_array(self.files / f"df_{field}{self.layout.end}.npy", frequency[field])

    def _write_deleted(self, before: np.ndarray, deleted: np.ndarray, rows: int) -> None:
        self.deleted = np.union1d(before, deleted)
        self.documents = rows - len(self.deleted)
        save_array(self.files / f"deleted{self.layout.end}.npy", self.deleted.astype(np.uint32))


def _published(metadata: Mapping[str, Any] | None) -> str:
    return f"{metadata.get('date', '')}\t{metadata.get('journal', '')}".rstrip("\t") if metadata else ""


def chunks(rows: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Rows int64 [n], at most ``size`` at a time."""
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _distinct_terms(tokens, offsets, title_lengths, vocabulary: int, rows: np.ndarray):
    """Distinct (document, term) pairs of rows int64 [n] for each field: {field: (document, term)}, int64 [pairs].

    Documents are numbered by their place among the rows.
    """
    starts, lengths = slices(offsets, rows)
    document = np.repeat(np.arange(len(rows), dtype=np.int64), lengths)
    position = np.arange(len(document), dtype=np.int64) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    in_abstract = position >= np.repeat(title_lengths[rows].astype(np.int64), lengths)
    keys = (document * vocabulary + tokens[ranges(starts, lengths)].astype(np.int64)) * 2 + in_abstract
    keys.sort()
    distinct = keys[np.diff(keys, prepend=-1) != 0]
    pairs = {"title": distinct[distinct % 2 == 0] // 2, "abstract": distinct[distinct % 2 == 1] // 2}
    either = distinct // 2
    pairs["text"] = either[np.diff(either, prepend=-1) != 0]
    return {field: np.divmod(pair, vocabulary) for field, pair in pairs.items()}
