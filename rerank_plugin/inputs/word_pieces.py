"""The word pieces of queries and documents, for encoders that read pieces instead of words.

The forward index stores words, not texts, so each term of an index is tokenized into pieces once, when a model opens
the index. A document's pieces are gathered from its terms; at query time only the query is tokenized.

The model therefore reads the index's words joined by blanks: in lower case, without punctuation and accents, a
hyphenated symbol as one word (IL-2 is il2). The index stores only the class of a number; the model reads an example of
the class (``NUMBER_EXAMPLES``), since encoders are trained on numbers. Queries are treated alike.

Letters in shapes: V terms of the index, P pieces of all terms, C candidates, N document pieces, M query pieces.
"""

from __future__ import annotations

from hashlib import blake2b
from itertools import chain
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.string_table import StringsInMemory, StringTable
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex, IndexQuery
from rerank_plugin.inputs.builder import DocumentWords, InputBuilder, ModelQuery
from rerank_plugin.kernels.compiling import njit
from rerank_plugin.text.tokenizer import DOLLARS, FRACTION, INTEGER, PERCENTAGE, PLAIN, REAL, YEAR_19XX, YEAR_20XX
from rerank_plugin.text.vocabulary import Vocabulary

Tokenizer = Any  # of the library tokenizers, which only some extras install

NUMBER_EXAMPLES = {
    INTEGER: "10",
    FRACTION: "0.5",
    REAL: "1.5",
    YEAR_19XX: "1990",
    YEAR_20XX: "2000",
    PERCENTAGE: "50%",
    DOLLARS: "$10",
}
BEFORE = "a"  # any word, placed before a term to get the pieces of a term that is not first
CHUNK = 1 << 16  # terms tokenized at once


class Template(NamedTuple):
    """A tokenizer's template of two texts: special pieces before, between and after them, and the segments' types."""

    before: tuple[int, ...]  # ids of special pieces
    between: tuple[int, ...]  # likewise
    after: tuple[int, ...]  # likewise; may be empty
    types: tuple[int, ...]  # token types of the five segments: before, query, between, document, after

    @property
    def specials(self) -> int:
        """The number of special pieces."""
        return len(self.before) + len(self.between) + len(self.after)


def plain_tokenizer(tokenizer: Tokenizer) -> Tokenizer:
    """A copy of a tokenizer without truncation and padding."""
    copy = type(tokenizer).from_str(tokenizer.to_str())
    copy.no_truncation()
    copy.no_padding()
    return copy


def template(tokenizer: Tokenizer, where: str) -> Template:
    """The template by which a :func:`plain_tokenizer` joins two texts; ``where`` is its source, for messages.

    Raises:
        InputError: there are no special pieces before the first text, or none between the two.
    """
    pair = tokenizer.encode(BEFORE, BEFORE)
    order = pair.sequence_ids  # None for special pieces, 0 for the first text, 1 for the second
    first, second = order.index(0) if 0 in order else 0, order.index(1) if 1 in order else 0
    end = len(order) - order[::-1].index(0) if 0 in order else 0
    last = len(order) - order[::-1].index(1) if 1 in order else 0
    if not 0 < first < end < second < last:
        raise InputError(
            f"the tokenizer of {where} joins two texts to '{' '.join(pair.tokens)}', without special pieces before and "
            "between them: a cross-encoder needs one like BERT's, [CLS] query [SEP] document [SEP]"
        )
    types = [pair.type_ids[place] for place in (0, first, end, second, len(order) - 1)]
    return Template(tuple(pair.ids[:first]), tuple(pair.ids[end:second]), tuple(pair.ids[last:]), tuple(types))


class PieceTable(NamedTuple):
    """The pieces of every term: row r has ``pieces[offsets[r] : offsets[r + 1]]``.

    Some tokenizers encode the first word of a text differently, without the marker of a preceding blank. Then the table
    has 2 V rows, and term t at the start of a text is row t + V.
    """

    offsets: np.ndarray  # int64 [V + 1 or 2 V + 1]
    pieces: np.ndarray  # int32 [P]
    at_start: int  # row offset of a text's first term: V, or 0 if the first word is encoded like all others


def term_text(term: str) -> str:
    """The text of an index term for an encoder's tokenizer."""
    return NUMBER_EXAMPLES.get(term, term)


def make_table(terms: StringTable | StringsInMemory, tokenizer: Tokenizer) -> PieceTable:
    """The pieces of all terms of an index by a :func:`plain_tokenizer`; an `InputError` if it joins words."""
    sample = min(len(terms), 100)
    lengths, pieces = _pieces(terms, len(terms), tokenizer, BEFORE + " ")
    inside, at_start = (_pieces(terms, sample, tokenizer, before) for before in (BEFORE + " ", ""))
    marks_starts = not all(map(np.array_equal, inside, at_start))
    if marks_starts:
        start_lengths, start_pieces = _pieces(terms, len(terms), tokenizer, "")
        lengths, pieces = np.concatenate([lengths, start_lengths]), np.concatenate([pieces, start_pieces])
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return PieceTable(offsets, pieces, len(terms) if marks_starts else 0)


def _pieces(
    terms: StringTable | StringsInMemory, count: int, tokenizer: Tokenizer, before: str
) -> tuple[np.ndarray, np.ndarray]:
    """Number of pieces of each of the first ``count`` terms, int64 [count], and all their pieces, int32 [P].

    The pieces of ``before``, a text before each term, are left out.
    """
    prefix = tokenizer.encode(before.strip(), add_special_tokens=False).ids if before else []
    encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)  # the same ids, without character offsets
    lengths, pieces = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    for start in range(0, count, CHUNK):
        texts = [before + term_text(term) for term in terms.take(np.arange(start, min(start + CHUNK, count)))]
        encoded = [encoding.ids for encoding in encode(texts, add_special_tokens=False)]
        if any(ids[: len(prefix)] != prefix for ids in encoded):
            raise InputError("the encoder's tokenizer joins words across blanks: the words of an index cannot be read")
        lengths.append(np.array([len(ids) - len(prefix) for ids in encoded], np.int64))
        pieces.append(np.fromiter(chain.from_iterable(ids[len(prefix) :] for ids in encoded), np.int32))
    return np.concatenate(lengths), np.concatenate(pieces)


_tables: WeakKeyDictionary[ForwardIndex, dict[bytes, PieceTable]] = WeakKeyDictionary()


def piece_table(index: ForwardIndex, tokenizer: Tokenizer) -> PieceTable:
    """:func:`make_table`, cached for each open index and tokenizer."""
    tables = _tables.setdefault(index, {})
    key = blake2b(tokenizer.to_str().encode()).digest()
    if key not in tables:
        tables[key] = make_table(index.terms, tokenizer)
    return tables[key]


@njit(nogil=True, cache=True)
def _gather(tokens, starts, lengths, offsets, pieces, at_start, ids, counts):
    """Write the first pieces of every candidate to ``ids``, and their numbers to ``counts``.

    Args:
        tokens: tokens of the index, uint32 [T]. starts, lengths: of each candidate's tokens, int64 [C].
        offsets, pieces, at_start: of the :class:`PieceTable`.
        ids: output, int64 [C, N], initially zeros. counts: output, int64 [C].
    """
    width = ids.shape[1]
    for candidate in range(len(starts)):
        count = 0
        for place in range(lengths[candidate]):
            row = np.int64(tokens[starts[candidate] + place])
            if place == 0:
                row += at_start
            for piece in range(offsets[row], min(offsets[row + 1], offsets[row] + width - count)):
                ids[candidate, count] = pieces[piece]
                count += 1
            if count == width:
                break
        counts[candidate] = count


class PieceBuilder(InputBuilder):
    """Inputs of word pieces instead of words: ``documents`` and ``queries`` hold ids of pieces, without special pieces.

    Args:
        tokenizer: a :func:`plain_tokenizer`.
        document_pieces, query_pieces: N and M.
        unknown: id of the tokenizer's unknown piece; None if it has none.

    Raises:
        InputError: the index holds stems.
    """

    def __init__(
        self,
        index: ForwardIndex,
        tokenizer: Tokenizer,
        document_pieces: int,
        query_pieces: int,
        unknown: int | None = None,
    ):
        if index.tokenizer.settings != PLAIN.settings:
            raise InputError(
                f"the index {index.name} holds stems, but an encoder that was trained on texts reads whole words: "
                "use an index of unstemmed words"
            )
        super().__init__(index, Vocabulary([], index.tokenizer.settings), document_pieces, query_pieces, ())
        self.tokenizer, self.unknown = tokenizer, unknown
        self._table = None if index.in_memory else piece_table(index, tokenizer)

    @property
    def passage_words(self) -> int:
        return max(self.document_words // 2, 1)  # few texts have more than two pieces per word

    def query(self, terms: IndexQuery) -> ModelQuery:
        """The query's pieces, cut or padded to M."""
        text = " ".join(map(term_text, terms.terms))
        pieces = self.tokenizer.encode(text, add_special_tokens=False).ids
        kept = pieces[: self.query_words]
        ids, mask = np.zeros(self.query_words, np.int64), np.arange(self.query_words) < len(kept)
        ids[: len(kept)] = kept
        known = sum(piece != self.unknown for piece in kept)
        nowhere, weights = np.full(self.query_words, -1), np.zeros(self.query_words, np.float32)
        return ModelQuery(ids, mask, nowhere, weights, known, len(pieces) - len(kept))

    def documents(self, candidates: Candidates) -> DocumentWords:
        """The candidates' first N pieces."""
        ids = np.zeros((len(candidates), self.document_words), np.int64)
        counts = np.zeros(len(candidates), np.int64)
        tokens, table = candidates.tokens, self._table
        if table is None:  # an index in memory: a table of only its own words, renumbered
            words, tokens = np.unique(tokens, return_inverse=True)
            table = make_table(StringsInMemory(self.index.terms.take(words)), self.tokenizer)
        _gather(tokens.astype(np.uint32, copy=False), candidates.starts, candidates.lengths, *table, ids, counts)
        mask = np.arange(self.document_words) < counts[:, None]
        return DocumentWords(ids, mask, np.full(mask.shape, -1))
