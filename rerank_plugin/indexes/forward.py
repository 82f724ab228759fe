"""The forward index: the words of every document as memory-mapped arrays, readable without Java.

Letters used in shapes throughout the package: B batch, C candidates, N document words, M query words, D dimension of a
word vector, V vocabulary.

It is one view of the segments (:mod:`rerank_plugin.indexes.segment`) that a commit names, and of what the commit says
of the whole: the numbers of terms, document frequencies, and deleted documents. *Rows* number the documents of all
segments. In an index of one shard they are in the order of the segments; in one of several, ``order`` has the place of
each row among the documents of all segments, one segment after the other.

Rows of deleted documents stay until their segment is merged, but no statistic counts them: document frequencies, mean
lengths and the number of documents are those of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import proxy

import numpy as np
from numpy.typing import ArrayLike

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.lazily import cached_property
from rerank_plugin.files.arrays import ranges, slices
from rerank_plugin.files.string_table import StringsInMemory, StringTable, ranks
from rerank_plugin.indexes.rows import Rows
from rerank_plugin.indexes.segment import FIELDS, Segment
from rerank_plugin.text.tokenizer import PLAIN, Tokenizer

if TYPE_CHECKING:
    from rerank_plugin.indexes.index_concepts import IndexKnowledge

NOTHING_DELETED = np.zeros(0, np.uint32)
DELETED = np.iinfo(np.uint32).max  # as the row of a document of Lucene
QUERIES_KEPT = 16  # whose terms are kept


def idf(document_frequency: np.ndarray, documents: int) -> np.ndarray:
    """Inverse document frequency ``ln(1 + (R - df + 0.5) / (df + 0.5))``, as in Lucene's BM25; float64, any shape."""
    df = np.asarray(document_frequency, dtype=np.float64)
    return np.log1p((documents - df + 0.5) / (df + 0.5))


class WordSlices(NamedTuple):
    """The words of C documents: each is ``tokens[start : start + length]``."""

    tokens: np.ndarray  # term ids, uint32 [T], of these documents or of all
    starts: np.ndarray  # int64 [C]
    lengths: np.ndarray  # int64 [C]


class IndexQuery(NamedTuple):
    """A query's tokens, their term ids in an index (int64 [M]; -1 for a term of no document), and its text."""

    terms: list[str]
    ids: np.ndarray
    text: str = ""


class CommitData(NamedTuple):
    """What a commit says of all segments together.

    Attributes:
        terms: the vocabulary. document_frequency: of every term by field, uint32 [V].
        mean_lengths: of each field.
        deleted: the rows of deleted documents, uint32 [n], sorted.
        order: the place of each row among the documents of all segments, uint32 [R]; None where it is the row.
        shards: the shard of each segment.
        documents: the number of documents of the collection, if only some of its shards are open.
    """

    terms: StringTable
    document_frequency: Mapping[str, np.ndarray]
    mean_lengths: Mapping[str, float]
    deleted: np.ndarray = NOTHING_DELETED
    order: np.ndarray | None = None
    shards: Sequence[int] = ()
    documents: int | None = None


class SegmentedTable:
    """The strings of a table that each segment has a part of, by the rows of the index."""

    def __init__(self, row_map: Rows, tables: Sequence[StringTable]):
        self.row_map, self.tables = row_map, tables

    def __len__(self) -> int:
        return len(self.row_map)

    def __getitem__(self, row: int) -> str:
        return self.take([row])[0]

    def take(self, rows: ArrayLike) -> list[str]:
        """The strings of rows int [C]."""
        rows = np.asarray(rows, np.int64)
        taken = np.empty(len(rows), object)
        for number, at, local in self.row_map.by_segment(rows):
            taken[at] = self.tables[number].take(local)
        return taken.tolist()

    def ranks(self, rows: np.ndarray) -> np.ndarray:
        """As `StringTable.ranks`."""
        parts = [(at, self.tables[number].beginnings(local)) for number, at, local in self.row_map.by_segment(rows)]
        padded = np.zeros((len(rows), max((part.shape[1] for _, part in parts), default=1)), np.uint8)
        for at, part in parts:
            padded[at, : part.shape[1]] = part
        return ranks(padded)


class ForwardIndex:
    """The segments of a commit as one index.

    ``len(forward)`` is the number of rows, R, which deleted documents keep; ``documents`` does not count these.

    Args:
        folder: the index folder.
        knowledge: the knowledge base of the concepts; None for an index without concepts.
        checksum: of the documents, terms and knowledge base. Data derived from the rows of the index stores it, to
            identify the index later. None outside an index folder with a description.
        owner: the `Index` that opened it, if any.
        lucene_rows: of each shard, the row in it of each document of its Lucene index, uint32 [L]; `DELETED` for one
            that is deleted.

    Attributes:
        deleted: the rows of deleted documents, uint32 [n], sorted.
        name: the name of the index in messages.
        in_memory: whether it holds the texts of a query (:class:`~rerank_plugin.indexes.text_index.TextIndex`).

    Raises:
        ValueError: the segments and what is said of them together do not fit.
    """

    ids: StringTable | StringsInMemory | SegmentedTable
    titles: StringTable | SegmentedTable
    published: StringTable | SegmentedTable
    terms: StringTable | StringsInMemory
    number = 1  # of the commit

    def __init__(
        self,
        folder: Path,
        segments: Sequence[Segment],
        data: CommitData,
        tokenizer: Tokenizer = PLAIN,
        knowledge: IndexKnowledge | None = None,
        checksum: str | None = None,
        owner: Any = None,
        lucene_rows: Sequence[np.ndarray] = (),
    ):
        self.folder, self.segments, self.commit_data, self.tokenizer = folder, segments, data, tokenizer
        self.knowledge, self.checksum, self.owner = knowledge, checksum, owner
        self.in_memory, self.name = False, str(folder)
        self.terms, self.mean_lengths, self.deleted = data.terms, dict(data.mean_lengths), data.deleted
        self.row_map = Rows(list(map(len, segments)), data.order, data.shards)
        self.lucene_rows_of_shards = lucene_rows
        if len(segments) == 1 and data.order is None and not len(segments[0].numbers):
            (segment,) = segments
            self.tokens, self.offsets = segment.tokens, segment.offsets
            self.ids, self.titles, self.published = segment.ids, segment.titles, segment.published
        else:
            self.ids, self.titles, self.published = (
                SegmentedTable(self.row_map, [getattr(segment, name) for segment in segments])
                for name in ("ids", "titles", "published")
            )

    def __len__(self) -> int:
        return len(self.row_map)

    @property
    def documents(self) -> int:
        """The number of documents in the collection of the document frequencies."""
        return self.held if self.commit_data.documents is None else self.commit_data.documents

    @property
    def held(self) -> int:
        """The number of documents that are held here and not deleted."""
        return len(self) - len(self.deleted)

    @property
    def is_one_segment(self) -> bool:
        """Whether all words are in the arrays ``tokens`` and ``offsets``."""
        return hasattr(self, "tokens")

    def shards_of(self, rows: np.ndarray) -> np.ndarray:
        """The shard that has each of the rows, int64 [n]; 0 in an index that is not divided."""
        return self.row_map.shard_of[self.row_map.located(rows)[0]]

    @cached_property
    def shares(self) -> np.ndarray:
        """Of the documents, those in each shard, float64 [S]."""
        return np.bincount(self.row_map.shard_of, np.diff(self.row_map.starts)) / max(len(self), 1)

    # documents

    @cached_property
    def title_lengths(self) -> np.ndarray:
        """The number of words of each title, uint32 [R]."""
        return self.row_map.of_rows([segment.title_lengths for segment in self.segments])

    @cached_property
    def unique_terms(self) -> dict[str, np.ndarray]:
        """The number of distinct terms of every document by field, uint32 [R]."""
        return {
            field: self.row_map.of_rows([segment.unique_terms[field] for segment in self.segments]) for field in FIELDS
        }

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

    @cached_property
    def lucene_rows(self) -> np.ndarray:
        """The row of each document of the Lucene indexes of all shards, one after the other, uint32 [L]."""
        if self.commit_data.order is None:
            return self.lucene_rows_of_shards[0]
        parts = []
        for shard, local in zip(self.row_map.shards, self.lucene_rows_of_shards):
            found, rows = np.full(len(local), DELETED, np.uint32), self.row_map.of_shard(shard)
            live = np.flatnonzero(local < len(rows))
            found[live] = rows[local[live]]
            parts.append(found)
        return np.concatenate(parts)

    @cached_property
    def lucene_numbers(self) -> np.ndarray:
        """The Lucene number of each row, int64 [R]; -1 for a deleted document."""
        rows = np.asarray(self.lucene_rows)
        numbers, live = np.full(len(self), -1, np.int64), np.flatnonzero(rows < len(self))  # deleted ones have no row
        numbers[rows[live]] = live
        return numbers

    def rows(self, ids: Sequence[str]) -> np.ndarray:
        """Rows of external ids, int64 [n]; -1 for an id that is not in the index, or whose document is deleted."""
        found = np.full(len(ids), -1, np.int64)
        for number in range(len(self.segments)):
            missing = np.flatnonzero(found < 0)
            rows = self.segments[number].ids.find([ids[place] for place in missing.tolist()])
            missing, rows = missing[rows >= 0], rows[rows >= 0]
            rows = self.row_map.of_segment(number, rows)
            found[missing] = rows if self.live is None else np.where(self.live[rows], rows, -1)
        return found

    def words(self, rows: np.ndarray) -> WordSlices:
        """The words of documents by their rows, int64 [C]; copied, if they are in several segments."""
        if self.is_one_segment:
            return WordSlices(self.tokens, *slices(self.offsets, rows))
        from rerank_plugin.kernels.word_loops import copy_words  # numba is slow to import

        parts = list(self.row_map.by_segment(rows))
        found = [slices(self.segments[number].offsets, local) for number, _, local in parts]
        lengths = np.zeros(len(rows), np.int64)
        for (_, at, _), (_, some) in zip(parts, found):
            lengths[at] = some
        starts = np.cumsum(lengths) - lengths
        tokens = np.empty(int(lengths.sum()), np.uint32)
        for (number, at, _), (begins, some) in zip(parts, found):
            segment = self.segments[number]
            copy_words(segment.tokens, begins, some, segment.numbers, tokens, starts[at])
        tokens.setflags(write=False)  # as the tokens of a single segment are: else kernels are compiled for both kinds
        return WordSlices(tokens, starts, lengths)

    def concept_lists(self, rows: np.ndarray) -> WordSlices:
        """The concepts of documents by their rows, int64 [C], as words; the index has a knowledge base."""
        arrays = [(segment.concepts, segment.concept_offsets) for segment in self.segments]
        if len(arrays) == 1:
            return _lists(*arrays[0], rows)
        return together(
            len(rows), ((at, _only(_lists(*arrays[n], local))) for n, at, local in self.row_map.by_segment(rows))
        )

    def document_tokens(self, row: int) -> np.ndarray:
        """Term ids of one document, uint32 [N], a view."""
        tokens, starts, lengths = self.words(np.array([row]))
        return tokens[int(starts[0]) : int(starts[0] + lengths[0])]

    # terms

    @property
    def document_frequency(self) -> Mapping[str, np.ndarray]:
        """The document frequency of every term by field, uint32 [V]."""
        return self.commit_data.document_frequency

    @property
    def vocabulary_size(self) -> int:
        return len(self.terms)

    @cached_property
    def term_weights(self) -> np.ndarray:
        """The IDF of every term in title and abstract, float64 [V]."""
        return idf(self.document_frequency["text"], self.documents)

    def check_tokenizer(self, settings: dict, subject: str) -> None:
        """An `InputError` if ``subject`` (a model, word vectors) has other tokenizer settings than the index."""
        if settings != self.tokenizer.settings:
            raise InputError(
                f"{subject} is of texts tokenized with {settings}, the index {self.name} with "
                f"{self.tokenizer.settings}: use an index and word vectors with the same stemmer"
            )

    def query(self, text: str) -> IndexQuery:
        """Tokenize a query with the tokenizer of the documents, and look up its terms."""
        return self._queries(text)

    @cached_property
    def _queries(self) -> Callable[[str], IndexQuery]:
        """The last queries: notes, first stage and models all ask for the same."""
        index = proxy(self)  # an index that held itself would wait for the garbage collector
        return lru_cache(QUERIES_KEPT)(lambda text: index._query(text))

    def _query(self, text: str) -> IndexQuery:
        terms = self.tokenizer.tokenize(text)
        ids = self.terms.find(terms)
        if len(ids):  # terms of deleted documents alone are terms of no document
            ids = np.where((ids >= 0) & (self.document_frequency["text"][ids] > 0), ids, -1)
        ids.setflags(write=False)
        return IndexQuery(terms, ids, text)


def _lists(values: np.ndarray | None, offsets: np.ndarray | None, rows: np.ndarray) -> WordSlices:
    assert values is not None and offsets is not None, "an index with a knowledge base has concepts"
    return WordSlices(values, *slices(offsets, rows))


def _only(words: WordSlices) -> WordSlices:
    """The words of some documents, and of no others."""
    return WordSlices(
        words.tokens[ranges(words.starts, words.lengths)], np.cumsum(words.lengths) - words.lengths, words.lengths
    )


def gathered_words(index: ForwardIndex, rows: np.ndarray) -> WordSlices:
    """The words of documents by their rows, int64 [C], and of no others."""
    words = index.words(rows)
    return _only(words) if index.is_one_segment else words


def together(count: int, parts: Iterable[tuple[np.ndarray, WordSlices]]) -> WordSlices:
    """The words of ``count`` documents from those of each part of them, with their places."""
    starts, lengths = np.zeros(count, np.int64), np.zeros(count, np.int64)
    tokens, before = [np.zeros(0, np.uint32)], 0
    for at, words in parts:
        starts[at], lengths[at] = words.starts + before, words.lengths
        tokens.append(words.tokens)
        before += len(words.tokens)
    joined = np.concatenate(tokens)
    joined.setflags(write=False)  # as the tokens of a single segment are
    return WordSlices(joined, starts, lengths)
