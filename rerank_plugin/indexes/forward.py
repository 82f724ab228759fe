"""The forward index: the words of every document as memory-mapped arrays. Readable without Java.

Letters used in shapes throughout the package: B batch, C candidates, N document words, M query words, D dimension of a
word vector, V vocabulary.

A folder of ``.npy`` files:

=====================  =======  ======  =============================================================================
file                   dtype    shape   content
=====================  =======  ======  =============================================================================
tokens                 uint32   [T]     term ids of all documents, title first, then abstract, without any truncation
offsets                uint64   [R+1]   where each document's tokens start
title_lengths          uint32   [R]     how many of them are the title's
unique_FIELD           uint32   [R]     distinct terms in the field (title, abstract, text)
idf_mass_FIELD         float32  [R]     sum of the text IDF of those distinct terms
df_FIELD               uint32   [V]     documents that hold the term in the field
id_ranks               uint32   [R]     rank of the document's id in increasing byte order: the tie rule as an array
lucene_rows            uint32   [R]     row of each Lucene document number
ids, titles, terms     (string tables: external ids, titles as written, the terms)
concepts               uint32   [Tc]    concepts of all documents in text order, as rows of the index's knowledge base
concept_offsets        uint64   [R+1]   where each document's concepts start
=====================  =======  ======  =============================================================================

The last two exist only if the index was built with a knowledge base (:mod:`rerank_plugin.indexes.index_concepts`).

Terms are not conflated: rare words keep their own ids here ([D18] 4.2.2 needs them), and a model maps them to its own
vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rerank_plugin.files.arrays import ArrayWriter, OffsetsWriter, open_array, save_array
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.string_table import StringTable, StringTableWriter, lexicographic_ranks
from rerank_plugin.text.tokenizer import PLAIN, PieceMemo, Tokenizer

if TYPE_CHECKING:
    from rerank_plugin.indexes.index_concepts import IndexKnowledge

FIELDS = ("title", "abstract", "text")  # text is title + abstract: [D18]'s 'Text', Lucene's 'contents'


def idf(document_frequency: np.ndarray, documents: int) -> np.ndarray:
    """Inverse document frequency ``ln(1 + (R - df + 0.5) / (df + 0.5))``, as in Lucene's BM25; float64, any shape."""
    df = np.asarray(document_frequency, dtype=np.float64)
    return np.log1p((documents - df + 0.5) / (df + 0.5))


class IndexQuery(NamedTuple):
    """The tokens of a query, their term ids in an index (int64 [M]; -1 for a term of no document), and its text."""

    terms: list[str]
    ids: np.ndarray
    text: str = ""


@dataclass(frozen=True)
class FieldStatistics:
    """Token count of one field over the collection, and the mean over documents."""

    tokens: int
    mean_length: float


class ForwardIndex:
    """A memory-mapped forward index; opening it reads no more than file headers.

    Args:
        knowledge: the knowledge base whose rows the concepts are; None for an index without concepts, whose
            ``concepts`` and ``concept_offsets`` are None, too.
        checksum: of all its files and of its knowledge base. Data derived from the index stores it, to identify the
            index later. None if the forward index was opened outside an index folder.

    Attributes:
        name: for messages.
        in_memory: whether it holds texts that come and go (:class:`~rerank_plugin.indexes.text_index.TextIndex`).
    """

    def __init__(
        self,
        folder: Path,
        mean_lengths: dict[str, float],
        tokenizer: Tokenizer = PLAIN,
        knowledge: IndexKnowledge | None = None,
        checksum: str | None = None,
    ):
        self.folder = folder
        self.mean_lengths = mean_lengths
        self.tokenizer = tokenizer
        self.knowledge = knowledge
        self.checksum = checksum
        self.in_memory, self.name = False, str(folder.parent)
        self.concepts, self.concept_offsets = None, None
        if knowledge is not None:
            self.concepts = open_array(folder / "concepts.npy")
            self.concept_offsets = open_array(folder / "concept_offsets.npy")
        self.tokens = open_array(folder / "tokens.npy")
        self.offsets = open_array(folder / "offsets.npy")
        self.title_lengths = open_array(folder / "title_lengths.npy")
        self.id_ranks = open_array(folder / "id_ranks.npy")
        self.lucene_rows = open_array(folder / "lucene_rows.npy")
        self.document_frequency = {field: open_array(folder / f"df_{field}.npy") for field in FIELDS}
        self.unique_terms = {field: open_array(folder / f"unique_{field}.npy") for field in FIELDS}
        self.idf_mass = {field: open_array(folder / f"idf_mass_{field}.npy") for field in FIELDS}
        self.ids = StringTable(folder, "ids")
        self.titles = StringTable(folder, "titles")
        self.terms = StringTable(folder, "terms")

    def __len__(self) -> int:
        return len(self.title_lengths)

    @property
    def documents(self) -> int:
        """The number of documents that the document frequencies are of."""
        return len(self)

    @property
    def vocabulary_size(self) -> int:
        return len(self.terms)

    def rows(self, ids: Sequence[str]) -> np.ndarray:
        """Rows of external ids, int64 [n]; -1 for an id that is not in the index."""
        return self.ids.find(ids)

    def check_tokenizer(self, settings: dict, what: str) -> None:
        """An `InputError` if the settings of ``what``, a model or word vectors, are not those of the tokenizer."""
        if settings != self.tokenizer.settings:
            raise InputError(
                f"{what} is of texts tokenized with {settings}, the index {self.name} with "
                f"{self.tokenizer.settings}: use an index and word vectors that were made with the same stemmer"
            )

    def query(self, text: str) -> IndexQuery:
        """Tokenize a query with the tokenizer of the documents, and look up its terms."""
        terms = self.tokenizer.tokenize(text)
        return IndexQuery(terms, self.terms.find(terms), text)

    def document_tokens(self, row: int) -> np.ndarray:
        """Term ids of one document, uint32 [N]: a view, nothing is copied."""
        return self.tokens[int(self.offsets[row]) : int(self.offsets[row + 1])]


class ForwardIndexWriter:
    """Builds a forward index: ``extend`` with batches of documents, then ``finish`` once the Lucene order is known."""

    def __init__(self, folder: Path, tokenizer: Tokenizer = PLAIN):
        folder.mkdir(parents=True)
        self.folder, self.tokenizer = folder, tokenizer
        self.term_ids: dict[str, int] = {}
        # A piece of text goes straight to its term ids: after the first documents hardly a piece is tokenized again.
        self.memo = PieceMemo(self._number_piece)
        self.tokens = ArrayWriter(folder / "tokens.npy", np.uint32)
        self.offsets = OffsetsWriter(folder / "offsets.npy")
        self.title_lengths = ArrayWriter(folder / "title_lengths.npy", np.uint32)
        self.ids = StringTableWriter(folder, "ids", searchable=True)
        self.titles = StringTableWriter(folder, "titles", searchable=False)

    def _number_piece(self, piece: str) -> tuple[int, ...]:
        term_ids = self.term_ids
        return tuple(term_ids.setdefault(term, len(term_ids)) for term in self.tokenizer.tokenize_piece(piece))

    def extend(
        self, ids: list[str], titles: list[str], abstracts: list[str], id_hashes: np.ndarray | None = None
    ) -> None:
        """Append documents. ``id_hashes`` uint64 [n] are those of ``hash_strings(ids)``, computed if not given."""
        number = self.memo.__getitem__
        flat: list[int] = []
        title_lengths, lengths = [], []
        for title, abstract in zip(titles, abstracts):
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
        self.ids.extend(ids, id_hashes)
        self.titles.extend([" ".join(title.split()) for title in titles])

    def close_streams(self) -> None:
        """Finish adding documents; from now on their ids can be looked up."""
        terms = StringTableWriter(self.folder, "terms", searchable=True)
        terms.extend(list(self.term_ids))
        for stream in (self.tokens, self.offsets, self.title_lengths, self.ids, self.titles, terms):
            stream.close()

    def finish(self, lucene_rows: np.ndarray) -> dict[str, FieldStatistics]:
        """Write what depends on the whole collection. ``lucene_rows`` uint32 [R]: row of each Lucene number."""
        save_array(self.folder / "lucene_rows.npy", lucene_rows.astype(np.uint32))
        save_array(self.folder / "id_ranks.npy", lexicographic_ranks(StringTable(self.folder, "ids")))
        return _write_statistics(self.folder, len(self.term_ids))


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


def _write_statistics(folder: Path, vocabulary: int, chunk: int = 10_000) -> dict[str, FieldStatistics]:
    """Document frequencies, then per document the distinct terms and their IDF mass, in chunks of documents."""
    tokens, offsets = open_array(folder / "tokens.npy"), open_array(folder / "offsets.npy")
    title_lengths = open_array(folder / "title_lengths.npy")
    documents = len(title_lengths)
    chunks = [(start, min(start + chunk, documents)) for start in range(0, documents, chunk)]
    vocabulary = max(vocabulary, 1)

    frequency = {field: np.zeros(vocabulary, np.uint32) for field in FIELDS}
    for start, stop in chunks:
        for field, (_, term) in _distinct_terms(tokens, offsets, title_lengths, vocabulary, start, stop).items():
            np.add.at(frequency[field], term, 1)
    weights = idf(frequency["text"], documents)
    unique = {field: ArrayWriter(folder / f"unique_{field}.npy", np.uint32) for field in FIELDS}
    mass = {field: ArrayWriter(folder / f"idf_mass_{field}.npy", np.float32) for field in FIELDS}
    for start, stop in chunks:
        pairs = _distinct_terms(tokens, offsets, title_lengths, vocabulary, start, stop)
        for field, (document, term) in pairs.items():
            unique[field].append(np.bincount(document, minlength=stop - start))
            mass[field].append(np.bincount(document, weights=weights[term], minlength=stop - start))
    for field in FIELDS:
        unique[field].close()
        mass[field].close()
        save_array(folder / f"df_{field}.npy", frequency[field])

    titles = int(title_lengths.sum(dtype=np.int64))
    totals = {"title": titles, "abstract": len(tokens) - titles, "text": len(tokens)}
    return {field: FieldStatistics(total, total / max(documents, 1)) for field, total in totals.items()}
