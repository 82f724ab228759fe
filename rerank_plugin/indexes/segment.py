"""A segment: some documents of an index, in a folder that is written once and never changed.

=====================  =======  ======  =============================================================================
``.npy`` file          dtype    shape   content
=====================  =======  ======  =============================================================================
tokens                 uint32   [T]     term numbers of all documents, title first, then abstract, without truncation
offsets                uint64   [R+1]   where each document's tokens start
title_lengths          uint32   [R]     the number of tokens of the title
unique_FIELD           uint32   [R]     distinct terms in the field (title, abstract, text)
df_FIELD               uint32   [V]     documents of the segment that hold the term in the field
concepts               uint32   [Tc]    concepts of all documents in text order, as rows of the index's knowledge base
concept_offsets        uint64   [R+1]   where each document's concepts start
numbers                uint32   [V]     the number of each term in the whole index, written with the segment's first
                                        commit; a segment whose terms have the same numbers there has no such file
=====================  =======  ======  =============================================================================

The string tables (:mod:`rerank_plugin.files.string_table`) are ``ids`` (external ids), ``titles`` (as written),
``published`` (date, tab, journal, if the corpus has them) and ``terms``: the segment's own vocabulary, in the order of
first occurrence. Only an index with a knowledge base (:mod:`rerank_plugin.indexes.index_concepts`) has concepts.

Terms are not conflated: rare words keep their own numbers ([D18] 4.2.2 needs them), and a model maps them to its own
vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rerank_plugin.base.records import Document
from rerank_plugin.files.arrays import (
    ArrayWriter,
    OffsetsWriter,
    open_array,
    ranges,
    save_array,
    slices,
)
from rerank_plugin.files.artifact import Array, Artifact
from rerank_plugin.files.string_table import StringTableWriter
from rerank_plugin.indexes.index_concepts import ConceptWriter, IndexKnowledge, text_to_annotate
from rerank_plugin.text.tokenizer import PLAIN, PieceCache, Tokenizer

SEGMENTS = "segments"  # the folder of the segments
FIELDS: tuple[str, ...] = ("title", "abstract", "text")  # text is title + abstract: [D18]'s 'Text', Lucene's 'contents'
TABLES = ("ids", "titles", "published", "terms")
SEARCHABLE = ("ids", "terms")
NUMBERS = "numbers"
SAME_NUMBERS = np.zeros(0, np.uint32)
CHUNK = 1 << 22  # tokens that are read at once


def _are_lengths_sound(arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> bool:
    """Whether no title or set of terms is longer than its document, and each term has a document frequency."""
    lengths = np.diff(arrays["offsets"])
    counts = [arrays[name] for name in ("title_lengths", *(f"unique_{field}" for field in FIELDS))]
    return len(arrays["df_text"]) == max(sizes["V"], 1) and all(bool((some <= lengths).all()) for some in counts)


SEGMENT = Artifact(
    "a segment",
    "",  # the commit describes its files
    {},
    arrays={
        "offsets": Array(np.uint64, "R+1", offsets="T"),
        "tokens": Array(np.uint32, "T", below="V"),
        "title_lengths": Array(np.uint32, "R"),
        **{f"unique_{field}": Array(np.uint32, "R") for field in FIELDS},
        **{f"df_{field}": Array(np.uint32, "F") for field in FIELDS},
        NUMBERS: Array(np.uint32, "V", optional=True),
    },
    strings={"ids": "R", "titles": "R", "published": "R", "terms": "V"},
    check=_are_lengths_sound,
)
CONCEPTS = {"concepts": Array(np.uint32, "C", below="B"), "concept_offsets": Array(np.uint64, "R+1", offsets="C")}
WITH_CONCEPTS = replace(SEGMENT, arrays={**SEGMENT.arrays, **CONCEPTS})


class Segment:
    """An open segment; ``len(segment)`` is the number of its documents, deleted ones included.

    Args:
        knowledge: the knowledge base of the concepts; None for an index without concepts.

    Attributes:
        numbers: of its terms in the whole index, uint32 [V]; empty where they are the same.

    Raises:
        InputError: its arrays are missing, or do not fit together; it ends with ``again``.
    """

    def __init__(self, folder: Path, knowledge: IndexKnowledge | None = None, again: str = ""):
        self.folder = folder
        kind = SEGMENT if knowledge is None else WITH_CONCEPTS
        concepts = None if knowledge is None else len(knowledge.base)
        _, _, arrays, strings, _ = kind.open(folder, again, {}, B=concepts)
        self.tokens, self.offsets, self.title_lengths = (
            arrays[name] for name in ("tokens", "offsets", "title_lengths")
        )
        self.concepts, self.concept_offsets = arrays.get("concepts"), arrays.get("concept_offsets")
        self.unique_terms = {field: arrays[f"unique_{field}"] for field in FIELDS}
        self.document_frequency = {field: arrays[f"df_{field}"] for field in FIELDS}
        self.numbers = arrays.get(NUMBERS, SAME_NUMBERS)
        self.ids, self.titles, self.published, self.terms = (strings[name] for name in TABLES)

    def __len__(self) -> int:
        return len(self.title_lengths)

    def of_whole(self, terms: np.ndarray) -> np.ndarray:
        """The numbers in the whole index of terms by their numbers here, any shape."""
        return self.numbers[terms] if len(self.numbers) else terms

    def first_occurrences(self) -> np.ndarray:
        """Where each term occurs first among the tokens, int64 [V]; terms are numbered in the order of these places."""
        highest, found = -1, [np.zeros(0, np.int64)]
        for start in range(0, len(self.tokens), CHUNK):
            tokens = self.tokens[start : start + CHUNK].astype(np.int64)
            largest = np.maximum.accumulate(np.append(highest, tokens))
            found.append(np.flatnonzero(tokens > largest[:-1]) + start)
            highest = int(largest[-1])
        places = np.concatenate(found)
        if len(places) != len(self.terms):
            raise RuntimeError(f"{self.folder} numbers its terms in another order")
        return places

    def token_counts(self, rows: np.ndarray | None = None) -> dict[str, int]:
        """The number of tokens of each field in documents int64 [n], by default in all."""
        if rows is None:
            titles, texts = int(self.title_lengths.sum(dtype=np.int64)), len(self.tokens)
        else:
            titles = int(self.title_lengths[rows].sum(dtype=np.int64))
            texts = int(slices(self.offsets, rows)[1].sum())
        return dict(zip(FIELDS, (titles, texts - titles, texts)))


class SegmentWriter:
    """Writes a segment: ``extend`` with batches of documents, or ``copy`` documents of an index; then ``close``.

    Args:
        annotator: a :class:`~rerank_plugin.concepts.annotation.Annotator` that finds the concepts of documents.
        concepts: whether documents have concepts that are copied.
    """

    def __init__(self, folder: Path, tokenizer: Tokenizer = PLAIN, annotator: Any = None, concepts: bool = False):
        self.folder, self.tokenizer, self.annotator = folder, tokenizer, annotator
        folder.mkdir(parents=True, exist_ok=True)
        self.tokens = ArrayWriter(folder / "tokens.npy", np.uint32)
        self.offsets = OffsetsWriter(folder / "offsets.npy")
        self.title_lengths = ArrayWriter(folder / "title_lengths.npy", np.uint32)
        self.ids, self.titles, self.published, self.terms = (
            StringTableWriter(folder, name, name in SEARCHABLE) for name in TABLES
        )
        self.concepts = ConceptWriter(folder) if concepts or annotator is not None else None
        self.term_ids: dict[str, int] = {}  # in order of their first occurrence
        self.copied = np.zeros(0, np.uint32)  # numbers here, counted from 1, of the terms of an index that is copied
        # Term ids are cached by piece of text: after the first documents hardly any piece is tokenized again.
        self.memo = PieceCache(self._number_piece)

    def __len__(self) -> int:
        return self.title_lengths.length

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
        if self.concepts is not None:
            texts = [text_to_annotate(document.title, document.abstract) for document in documents]
            self.concepts.extend(self.annotator.concepts(texts))

    def copy(self, index: Any, rows: np.ndarray) -> None:
        """Append documents of a forward index with this tokenizer, by their rows int64 [n]."""
        tokens, starts, lengths = index.words(rows)
        self.tokens.append(self._renumbered(index, tokens[ranges(starts, lengths)]))
        self.offsets.extend(lengths.tolist())
        self.title_lengths.append(index.title_lengths[rows])
        for name in ("ids", "titles", "published"):
            getattr(self, name).extend(getattr(index, name).take(rows))
        if self.concepts is not None:
            self.concepts.copy(*index.concept_lists(rows))

    def _renumbered(self, index: Any, tokens: np.ndarray) -> np.ndarray:
        """The numbers here of terms of an index, uint32 [T]; writes new terms."""
        if not len(self.copied):
            self.copied = np.zeros(max(index.vocabulary_size, 1), np.uint32)
        distinct, places = np.unique(tokens[self.copied[tokens] == 0], return_index=True)
        new = distinct[np.argsort(places)]  # in order of their first occurrence
        self.copied[new] = np.arange(len(self.terms), len(self.terms) + len(new)) + 1
        self.terms.extend(index.terms.take(new))
        return self.copied[tokens] - 1

    def close(self) -> None:
        """Write the vocabulary, document frequencies, and the number of distinct terms of each document."""
        self.terms.extend(list(self.term_ids))
        for stream in (
            self.tokens,
            self.offsets,
            self.title_lengths,
            self.ids,
            self.titles,
            self.published,
            self.terms,
        ):
            stream.close()
        if self.concepts is not None:
            self.concepts.close()
        tokens, offsets, titles = (
            open_array(self.folder / f"{name}.npy") for name in ("tokens", "offsets", "title_lengths")
        )
        vocabulary = max(len(self.terms), 1)
        frequency = {field: np.zeros(vocabulary, np.uint32) for field in FIELDS}
        unique = {field: ArrayWriter(self.folder / f"unique_{field}.npy", np.uint32) for field in FIELDS}
        for rows in chunks(np.arange(len(self)), 10_000):
            for field, (document, term) in distinct_terms(tokens, offsets, titles, vocabulary, rows).items():
                np.add.at(frequency[field], term, 1)
                unique[field].append(np.bincount(document, minlength=len(rows)))
        for field in FIELDS:
            unique[field].close()
            save_array(self.folder / f"df_{field}.npy", frequency[field])


def _published(metadata: Mapping[str, Any] | None) -> str:
    return f"{metadata.get('date', '')}\t{metadata.get('journal', '')}".rstrip("\t") if metadata else ""


def chunks(rows: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Rows int64 [n], at most ``size`` at a time."""
    return (rows[start : start + size] for start in range(0, len(rows), size))


def distinct_terms(
    tokens: np.ndarray, offsets: np.ndarray, title_lengths: np.ndarray, vocabulary: int, rows: np.ndarray
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
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
