"""An index of shards: the documents of one collection in several indexes, with the rows and scores of a single one.

``INDEX/shards/NUMBER`` is the folder of a shard, an index of the documents whose ids have a hash that is NUMBER modulo
the number of shards. Terms, document frequencies, mean lengths and the number of documents are those of the whole
collection, in each shard (hard links where the file system has them), so a shard scores its documents as a single index
would. Lucene computes them from what it reads, so ``rest/NUMBER/`` of a shard is a Lucene index with the numbers of the
documents that the generation NUMBER added to the other shards, and none of their words. ``INDEX/index.json`` describes
a generation of the whole, and lists the description of each shard, ``generations/NUMBER.json`` in the shard's folder:
a generation has the same number in all, and a shard is opened by it. Rows are those of a single index of the same
corpus:

=====================  =======  ======  =============================================================================
forward/000001/        dtype    shape   of the whole
=====================  =======  ======  =============================================================================
shards                 uint16   [R]     the shard of each row
places                 uint32   [R]     its row there; rows of a shard are in the order of the rows of the whole
title_lengths          uint32   [R]     and ``unique_FIELD``, as in any forward index
ids, terms             (string tables: external ids, the vocabulary)
df_FIELD, deleted      (as in any forward index)
=====================  =======  ======  =============================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rerank_plugin.base.lazily import cached_property
from rerank_plugin.files.arrays import are_below, open_array, ranges
from rerank_plugin.files.checksums import passed
from rerank_plugin.files.string_table import StringTable
from rerank_plugin.indexes.forward import DELETED, FIELDS, ForwardIndex, Layout, Words, numbered
from rerank_plugin.text.tokenizer import Tokenizer

SHARDS = "shards"  # the folder of the shards, and in a description the path and the checksum of each
REST = "rest"  # in a shard, the folder of the Lucene indexes with the numbers of the other shards
COLLECTION = "collection"  # in the description of a shard: of which collection it is a part


class Generation(NamedTuple):
    """The number of a generation of an index of shards, which is the same in each shard, and its id."""

    number: int
    id: str


def shard_of(hashes: np.ndarray, shards: int) -> np.ndarray:
    """The shard of each document, uint16 [n], by the hashes of the ids, uint64 [n] (`hash_strings`)."""
    return (hashes % np.uint64(shards)).astype(np.uint16)


def shard_folder(number: int) -> str:
    """The path of a shard in the folder of its index."""
    return f"{SHARDS}/{number:03d}"


def rest_folder(number: int) -> str:
    """The path, in a shard, of the numbers of the other shards that a generation has added."""
    return f"{REST}/{numbered(number)}"


class ShardedTable:
    """The strings of a table that each shard has a part of, by the rows of the whole index."""

    def __init__(self, index: ShardedForward, name: str):
        self.index, self.name = index, name

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, row: int) -> str:
        return self.take([row])[0]

    def take(self, rows: ArrayLike) -> list[str]:
        """The strings of rows int [C]."""
        rows = np.asarray(rows, np.int64)
        taken = np.empty(len(rows), object)
        for at, part in self.parts(rows):
            taken[at] = part
        return taken.tolist()

    def parts(self, rows: np.ndarray) -> Iterable[tuple[np.ndarray, list[str]]]:
        """The strings that each shard has, with their places among ``rows`` int64 [n]."""
        return self.index.gather(rows, lambda shard, local: getattr(shard, self.name).take(local))


class ShardedForward(ForwardIndex):
    """The forward indexes of all shards as one; words and titles are gathered from the shards.

    Args:
        shards: the forward index of each shard.
    """

    def __init__(
        self,
        folder: Path,
        mean_lengths: dict[str, float],
        tokenizer: Tokenizer,
        checksum: dict[str, str],
        layout: Layout,
        owner: Any,
        shards: Sequence[ForwardIndex],
    ):
        self.folder, self.mean_lengths, self.tokenizer = folder, mean_lengths, tokenizer
        self.checksum, self.layout, self.owner, self.shards = checksum, layout, owner, shards
        self.knowledge, self.concepts, self.concept_offsets = None, None, None
        self.in_memory, self.name = False, str(folder)
        files, sizes = folder / layout.folder, layout.sizes

        opened = []

        def array(name: str, length: int | None = None) -> np.ndarray:
            opened.append(files / f"{name}.npy")
            return open_array(opened[-1], sizes.get(f"{name}.npy"), shape=(length,))

        self.title_lengths = array("title_lengths")
        rows = len(self.title_lengths)
        self.shard_numbers, self.places = array(SHARDS, rows), array("places", rows)
        self._unique_terms = {field: array(f"unique_{field}", rows) for field in FIELDS}
        self.ids = StringTable(files, "ids", layout.pieces("ids"), sizes, rows)
        self.terms = StringTable(files, "terms", layout.pieces("terms"), sizes)
        self.titles = ShardedTable(self, "titles")  # type: ignore[assignment]
        self.published = ShardedTable(self, "published")  # type: ignore[assignment]
        terms = max(len(self.terms), 1)
        self._document_frequency = {field: array(f"df_{field}{layout.end}", terms) for field in FIELDS}
        self.deleted = array(f"deleted{layout.end}")
        if not passed(opened, self._is_sound, list(map(len, shards)), sizes):
            raise ValueError(f"the arrays in {files} do not fit together, or the shards")

    def _is_sound(self) -> bool:
        """Whether all documents are in the shards."""
        sizes = np.array(list(map(len, self.shards)))
        return (
            are_below(self.shard_numbers, len(sizes))
            and are_below(self.places, int(sizes.max()))
            and bool((self.places < sizes[self.shard_numbers]).all())
            and are_below(self.deleted, len(self))
        )

    @cached_property
    def rows_of(self) -> list[np.ndarray]:
        """The rows of each shard's documents here, uint32 [n of the shard], increasing."""
        order = np.argsort(self.shard_numbers, kind="stable").astype(np.uint32)
        return np.split(order, np.searchsorted(self.shard_numbers[order], np.arange(1, len(self.shards))))

    @cached_property
    def lucene_rows(self) -> np.ndarray:  # type: ignore[override]  # a single index has them in a file
        """The row of each document of the shards' Lucene indexes, one after the other, uint32 [L]."""
        parts = []
        for rows, shard in zip(self.rows_of, self.shards):
            found = np.full(len(shard.lucene_rows), DELETED, np.uint32)
            live = np.flatnonzero(shard.lucene_rows < len(rows))
            found[live] = rows[shard.lucene_rows[live]]
            parts.append(found)
        return np.concatenate(parts)

    def shards_of(self, rows: np.ndarray) -> np.ndarray:
        return self.shard_numbers[rows]

    @cached_property
    def shares(self) -> np.ndarray:  # type: ignore[override]
        return np.array(list(map(len, self.rows_of))) / len(self)

    def by_shard(self, rows: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Rows int64 [n] by shard: its number, and the places among ``rows`` and rows there, int64 [m] each."""
        numbers = self.shard_numbers[rows]
        for number in np.unique(numbers).tolist():
            at = np.flatnonzero(numbers == number)
            yield number, at, self.places[rows[at]].astype(np.int64)

    def gather(
        self, rows: np.ndarray, ask: Callable[[ForwardIndex, np.ndarray], Any]
    ) -> Iterator[tuple[np.ndarray, Any]]:
        """What each shard answers for its rows, with their places among ``rows`` int64 [n]."""
        for number, at, local in self.by_shard(rows):
            yield at, ask(self.shards[number], local)

    def words(self, rows: np.ndarray) -> Words:
        """The words of documents by their rows, int64 [C], copied from the shards."""
        return self.together(len(rows), self.gather(rows, gathered_words))

    @staticmethod
    def together(count: int, parts: Iterable[tuple[np.ndarray, Words]]) -> Words:
        """The words of ``count`` documents from those of each shard and their places."""
        starts, lengths = np.zeros(count, np.int64), np.zeros(count, np.int64)
        tokens, before = [np.zeros(0, np.uint32)], 0
        for at, words in parts:
            starts[at], lengths[at] = words.starts + before, words.lengths
            tokens.append(words.tokens)
            before += len(words.tokens)
        together = np.concatenate(tokens)
        together.setflags(write=False)  # as the tokens of a single index are: else kernels are compiled for both kinds
        return Words(together, starts, lengths)


def gathered_words(index: ForwardIndex, rows: np.ndarray) -> Words:
    """The words of documents by their rows, int64 [C], and of no others."""
    tokens, starts, lengths = index.words(rows)
    return Words(tokens[ranges(starts, lengths)], np.cumsum(lengths) - lengths, lengths)
