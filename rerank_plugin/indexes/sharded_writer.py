"""Writes the forward indexes of an index of shards: what the whole has of all documents, and the words of each shard.

The whole numbers the terms in the order in which the documents come, as a single index does. Each shard has these terms
and the document frequencies of the whole: hard links to its files where the file system has them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rerank_plugin.base.records import Document
from rerank_plugin.files.arrays import ArrayWriter, open_array, ranges
from rerank_plugin.files.outputs import link_or_copy
from rerank_plugin.files.string_table import PIECE, hash_strings
from rerank_plugin.indexes.forward import FIELDS, ForwardIndex, ForwardIndexWriter
from rerank_plugin.indexes.index_folder import GENERATION, Index
from rerank_plugin.indexes.lucene_reader import Counts
from rerank_plugin.indexes.lucene_writer import write_numbers
from rerank_plugin.indexes.sharding import SHARDS, rest_folder, shard_of


class RowsWriter:
    """Writes the id of each document of an index of shards, and its shard and its row there.

    Args:
        ids: the writer of the table of ids. numbers, places: of the arrays of shards and of rows there.
        counts: the rows that each shard has so far.
    """

    def __init__(self, ids: Any, numbers: ArrayWriter, places: ArrayWriter, counts: Sequence[int]):
        self.ids, self.numbers, self.places = ids, numbers, places
        self.counts = np.array(counts, np.int64)
        self.parts: list[np.ndarray] = [np.zeros(0, np.uint16)]

    def append(self, ids: Sequence[str], hashes: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Append documents, with the hashes of their ids, uint64 [n].

        Returns:
            for each shard that has some of them its number, and their places here, int64 [m].
        """
        numbers = shard_of(hashes, len(self.counts))
        places = np.zeros(len(ids), np.int64)
        parts = {number: np.flatnonzero(numbers == number) for number in np.unique(numbers).tolist()}
        for number, at in parts.items():
            places[at] = self.counts[number] + np.arange(len(at))
            self.counts[number] += len(at)
        self.ids.extend(ids, hashes)
        self.numbers.append(numbers)
        self.places.append(places)
        self.parts.append(numbers)
        return iter(parts.items())

    def close(self) -> None:
        self.numbers.close()
        self.places.close()

    def rows_of(self, shard: int) -> np.ndarray:
        """Which of the documents that were appended are in a shard, int64 [n]."""
        return np.flatnonzero(np.concatenate(self.parts) == shard)


class WholeWriter(ForwardIndexWriter):
    """Writes what a generation of an index of shards has of all documents: ``extend`` or ``copy``, then ``count``.

    Args:
        index: the generation before.
        anew: whether to begin its files anew, for ``copy``.
    """

    def __init__(self, index: Index, number: int, anew: bool):
        self.held = [0 if anew else len(shard.forward) for shard in index.shards]
        super().__init__(index.folder, index.tokenizer, None if anew else index.forward, number)

    def _open(self) -> None:
        self.title_lengths = self._array("title_lengths", np.uint32)
        self.ids, self.terms = self._table("ids"), self._table("terms")
        arrays = self._array(SHARDS, np.uint16), self._array("places", np.uint32)
        self.rows = RowsWriter(self.ids, *arrays, self.held)

    def divided(self, documents: Sequence[Document], hashes: np.ndarray) -> Iterator[tuple[int, list[Document]]]:
        """Append documents; returns those of each shard."""
        self._tokenized(documents)
        for number, at in self.rows.append([document.id for document in documents], hashes):
            yield number, [documents[place] for place in at.tolist()]

    def copy(self, index: ForwardIndex, rows: np.ndarray) -> None:
        tokens, starts, lengths = index.words(rows)
        self._renumbered(index, tokens[ranges(starts, lengths)])
        ids = index.ids.take(rows)
        self.rows.append(ids, hash_strings(ids))

    def close_streams(self) -> None:
        self.rows.close()
        self.pieces = {"ids": self.ids.close(), "terms": self.terms.close()}
        self.vocabulary = self.table("terms")
        size = max(len(self.vocabulary), 1)
        self.frequency = {field: np.zeros(size, np.uint32) for field in FIELDS}
        if self.index is not None:
            for field, counts in self.index.document_frequency.items():
                self.frequency[field][: len(counts)] = counts
        rows = sum(map(len, self.rows.parts))
        self.lengths = {name: np.zeros(rows, np.uint32) for name in LENGTHS}

    def count(self, number: int, part: PartWriter) -> None:
        """Count the documents that a shard has added and deleted."""
        for field, change in part.frequency.items():
            if part.index is not None:  # unsigned numbers wrap around, and back
                before = part.index.document_frequency[field]
                change[: len(before)] -= before
            self.frequency[field] += change
        rows = self.rows.rows_of(number)
        for name in LENGTHS if len(rows) else ():
            path = part.files / f"{name}.npy"
            self.lengths[name][rows] = open_array(path, path.stat().st_size)[part.first :]

    def finish_whole(self, deleted: np.ndarray) -> None:
        """Write the statistics; ``deleted`` are rows int64 [n] of documents of the index that are deleted now."""
        for name, lengths in self.lengths.items():
            writer = self.title_lengths if name == "title_lengths" else self._array(name, np.uint32)
            writer.append(lengths)
            writer.close()
        self._write_frequency(self.frequency)
        before = np.zeros(0, np.int64) if self.index is None else np.asarray(self.index.deleted, np.int64)
        self._write_deleted(before, deleted, self.title_lengths.length)

    @property
    def shared(self) -> list[str]:
        """The names of the files that each shard has, too."""
        pieces = [f"terms.{part}{end}.npy" for end in self.pieces["terms"] for part in PIECE]
        counts = [f"df_{field}{self.layout.end}.npy" for field in FIELDS]
        return ["terms.bytes.npy", "terms.offsets.npy", *pieces, *counts]


LENGTHS = ("title_lengths", *(f"unique_{field}" for field in FIELDS))  # arrays that whole and shards have


class SharedTerms:
    """The vocabulary of the whole index, in the place of a shard's writer."""

    def __init__(self, whole: WholeWriter):
        self.whole = whole

    def __len__(self) -> int:
        return len(self.whole.vocabulary)

    def extend(self, terms: Sequence[str]) -> None:
        if terms:
            raise RuntimeError(f"the vocabulary lacks {len(terms)} terms, the first {terms[0]!r}")

    def close(self) -> list[str]:
        return self.whole.pieces["terms"]


class PartWriter(ForwardIndexWriter):
    """Writes the forward index of a shard, without the files that it shares with the whole."""

    def __init__(self, shard: Index, whole: WholeWriter):
        self.shared = SharedTerms(whole)
        index = None if whole.index is None else shard.forward
        super().__init__(shard.folder, shard.tokenizer, index, whole.layout.number)
        self.searched, self.copied = whole.vocabulary, whole.copied

    def _table(self, name: str) -> Any:
        return self.shared if name == "terms" else super()._table(name)

    def _write_frequency(self, frequency: dict[str, np.ndarray]) -> None:
        self.frequency = frequency


def share(source: Path, target: Path) -> None:
    """Give a shard a file of the whole, in the place of another that it may have."""
    if target.exists() and os.path.samefile(source, target):
        return
    shared = target.with_name(f"shared.{target.name}")
    link_or_copy(source, shared)
    os.replace(shared, target)


def write_rest(shard: Path, number: int, others: Sequence[Counts]) -> list[str]:
    """Write Lucene's counts of the documents that a generation has added to the other shards.

    Returns:
        the files, by their paths in the folder of the shard; none if there are no such documents.
    """
    fields = sorted({name for counts in others for name in counts})
    totals = {name: np.sum([counts.get(name, (0, 0)) for counts in others], axis=0) for name in fields}
    if not any(documents for documents, _ in totals.values()):
        return []
    rest = rest_folder(number)
    write_numbers(shard / rest, {name: (int(documents), int(words)) for name, (documents, words) in totals.items()})
    return [f"{rest}/{path.name}" for path in (shard / rest).iterdir()]


def as_part(whole: Mapping[str, Any], number: int, shards: int) -> dict[str, Any]:
    """What the description of a shard says of its index, from the first entries of the description of that."""
    return {"documents": whole["documents"], "shard": number, SHARDS: shards, GENERATION: whole[GENERATION]}
