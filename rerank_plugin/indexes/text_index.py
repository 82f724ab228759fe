"""A forward index in memory, of texts that come with a query, with the statistics of a collection.

Words are numbered in order of appearance over all texts, so that results for a word can be reused for later texts. When
there are too many words, all are forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rerank_plugin.base.stopping import stop_if_asked
from rerank_plugin.files.arrays import GrowingArray, ranges, slices
from rerank_plugin.files.string_table import StringsInMemory
from rerank_plugin.indexes.collection_statistics import CollectionStatistics
from rerank_plugin.indexes.forward import ForwardIndex, IndexQuery, WordSlices, idf
from rerank_plugin.indexes.known_pieces import KnownPieces
from rerank_plugin.indexes.segment import FIELDS
from rerank_plugin.kernels.word_loops import distinct_in_fields

STEP = 4096  # new pieces of text between two looks at whether to stop
MOST_PIECES = 1 << 20  # distinct pieces of text, some 100 bytes each, before all are forgotten


class TextIndex(ForwardIndex):
    """The texts of one query as an index; `hold` replaces them by those of the next query. Not thread-safe.

    It has the attributes of a :class:`ForwardIndex` that models read, but no folder and no concepts.

    Args:
        statistics: of the collection whose tokenizer, document frequencies and mean lengths the index has.
        threads: the number of threads that look up words.

    Attributes:
        texts: int64 [R], the number of the text of each row (a text or a passage); increasing.
    """

    terms: StringsInMemory

    def __init__(self, statistics: CollectionStatistics, threads: int = 1):
        self.statistics, self.threads = statistics, threads
        self.mean_lengths, self.tokenizer = dict(statistics.mean_lengths), statistics.tokenizer
        self.checksum, self.in_memory, self.name = None, True, statistics.source
        self.knowledge, self.owner = None, None
        self.deleted = np.zeros(0, np.uint32)
        self._begin()
        self.hold([], [])

    def _begin(self) -> None:
        """Forget all words."""
        self.terms, self.pieces = StringsInMemory(), KnownPieces()
        self._piece_terms, self._piece_starts = GrowingArray(np.uint32), GrowingArray(np.int64)
        self._piece_starts.append([0])
        self._frequency = {field: GrowingArray(np.uint32) for field in self.statistics.document_frequency}
        self._idf = GrowingArray(np.float64)

    def hold(self, titles: Sequence[str], abstracts: Sequence[str], passage_words: int | None = None) -> None:
        """Replace the texts.

        Args:
            titles, abstracts: of each text; either may be empty.
            passage_words: cut longer texts into passages of at most this many words, a row each. Each passage begins
                with the title, up to half of the passage. By default every text is one row.
        """
        if len(self.pieces) > MOST_PIECES:
            self._begin()
        numbers, counts, new = self.pieces.read(
            [text for pair in zip(titles, abstracts) for text in pair], self.threads
        )
        self._add_pieces(new)
        starts = self._piece_starts.values
        lengths = starts[numbers + 1] - starts[numbers]
        self.tokens = self._piece_terms.values[ranges(starts[numbers], lengths)]
        ends = np.concatenate([[0], np.cumsum(lengths)])[np.cumsum(counts)]  # of titles and abstracts, in tokens
        self.offsets = np.concatenate([[0], ends[1::2]]).astype(np.uint64)
        self.title_lengths = (ends[::2] - self.offsets[:-1].astype(np.int64)).astype(np.uint32)
        self.texts = np.arange(len(titles))
        if passage_words is not None:
            self._cut(max(passage_words, 2))
        self.tokens.setflags(write=False)  # like those of a stored index: else kernels are compiled for both kinds
        self.ids = StringsInMemory(f"{text} of the list" for text in self.texts.tolist())
        self._distinct: dict[str, np.ndarray] | None = None

    def _add_pieces(self, new: Sequence[str]) -> None:
        """Number the words of new pieces of text."""
        flat: list[int] = []
        add, ends = self.terms.add, []
        before = int(self._piece_starts.values[-1])
        try:
            for place, piece in enumerate(new):
                if place % STEP == 0:
                    stop_if_asked()
                flat += map(add, self.tokenizer.tokenize_piece(piece))
                ends.append(before + len(flat))
        except BaseException:
            self._begin()  # the pieces have numbers, but not all have words
            raise
        self._piece_terms.append(flat)
        self._piece_starts.append(ends)
        self._look_up_frequencies()

    def _look_up_frequencies(self) -> None:
        """Append the document frequencies of new words; 0 for words that the collection lacks."""
        known = self._idf.length
        if known == len(self.terms):
            return
        rows = self.statistics.terms.find(self.terms.strings[known:])
        for field, frequency in self.statistics.document_frequency.items():
            counts = np.asarray(frequency[np.maximum(rows, 0)]) if len(frequency) else np.zeros(len(rows))
            self._frequency[field].append(np.where(rows >= 0, counts, 0))
        self._idf.append(idf(self._frequency["text"].values[known:], self.documents))

    def _cut(self, width: int) -> None:
        """Cut the texts into passages of at most ``width`` words."""
        starts, titles = self.offsets[:-1].astype(np.int64), self.title_lengths.astype(np.int64)
        lengths = np.diff(self.offsets.astype(np.int64))
        heads = np.where(lengths > width, np.minimum(titles, width // 2), titles)  # title words of each passage
        bodies = np.where(lengths > width, width - heads, np.maximum(lengths - heads, 1))
        counts = np.maximum(-(-(lengths - heads) // bodies), 1)
        text = np.repeat(np.arange(len(lengths)), counts)
        number = np.arange(len(text)) - np.repeat(np.cumsum(counts) - counts, counts)
        head, body = heads[text], bodies[text]
        begins = head + number * body  # where the rest of a passage begins in its text
        rest = np.minimum(body, lengths[text] - begins)
        parts = np.stack([starts[text], starts[text] + begins], axis=1).ravel()
        self.tokens = self.tokens[ranges(parts, np.stack([head, rest], axis=1).ravel())]
        self.offsets = np.concatenate([[0], np.cumsum(head + rest)]).astype(np.uint64)
        self.title_lengths, self.texts = head.astype(np.uint32), text

    def __len__(self) -> int:
        return len(self.title_lengths)

    def words(self, rows: np.ndarray) -> WordSlices:
        return WordSlices(self.tokens, *slices(self.offsets, rows))

    @property
    def documents(self) -> int:
        return self.statistics.documents

    @property
    def document_frequency(self) -> dict[str, np.ndarray]:
        """The document frequency of all words so far, by field, uint32 [V]."""
        return {field: frequency.values for field, frequency in self._frequency.items()}

    @property
    def term_weights(self) -> np.ndarray:
        """The IDF of every word so far in title and abstract, float64 [V]."""
        return self._idf.values

    @property
    def unique_terms(self) -> dict[str, np.ndarray]:
        """The number of distinct words of each row by field, float64 [R]."""
        if self._distinct is None:
            offsets = self.offsets.astype(np.int64)
            counts = distinct_in_fields(self.tokens, offsets, self.title_lengths, len(self.terms))
            self._distinct = dict(zip(FIELDS, counts))
        return self._distinct

    def query(self, text: str) -> IndexQuery:
        """Tokenize a query; words that neither the collection nor these texts hold have the id -1."""
        words = self.tokenizer.tokenize(text)
        ids = np.array([self.terms.add(word) for word in words], np.int64)
        self._look_up_frequencies()
        unseen = (self._frequency["text"].values[ids] == 0) & ~np.isin(ids, self.tokens)
        return IndexQuery(words, np.where(unseen, -1, ids), text)
