"""Offsets of tokens in a text, in code points; for explanations only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import NamedTuple

from rerank_plugin.text.tokenizer import TOKEN, Tokenizer, fold, match_tokens


class Span(NamedTuple):
    """A token, and the characters ``start`` to ``end`` of the text that it was made from."""

    token: str
    start: int
    end: int


def spans(tokenizer: Tokenizer, text: str) -> list[Span]:
    """The tokens of ``tokenizer.tokenize(text)`` with their offsets, which increase."""
    token_spans = []
    for piece in re.finditer(r"\S+", text):
        tokens, before = tokenizer.tokenize_piece(piece.group()), piece.start()
        for token, (start, end) in zip(tokens, _offsets(piece.group())):
            token_spans.append(Span(token, before + start, before + end))
    return token_spans


def _offsets(piece: str) -> Iterator[tuple[int, int]]:
    """Start and end of each token of a piece without white space."""
    folded = fold(piece)
    starts, ends = _source_offsets(piece, folded)
    for match in TOKEN.finditer(folded):
        start, end = match.span()
        tokens = match_tokens(match)
        if len(tokens) > 1:  # an ordinary word, a hyphen and a number
            hyphen = folded.index("-", start)
            yield starts[start], ends[hyphen - 1]
            start = hyphen + 1
        for _ in tokens[1:] or tokens:
            yield starts[start], ends[end - 1]


def _source_offsets(piece: str, folded: str) -> tuple[list[int], list[int]]:
    """For each character of the folded piece, start and end of its source characters in the piece."""
    lowered = [character.lower() for character in piece]  # one item per character, though some lower to two
    starts, ends = list(range(len(folded))), list(range(1, len(folded) + 1))
    if lowered == list(folded):
        return starts, ends
    for tag, first, last, start, end in SequenceMatcher(None, lowered, folded, autojunk=False).get_opcodes():
        for position in range(start, end):
            same = first + position - start
            starts[position], ends[position] = (same, same + 1) if tag == "equal" else (first, last)
    return starts, ends
