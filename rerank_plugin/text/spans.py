"""Where the tokens of a text stand in it, in code points; only explanations need to know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import NamedTuple

from rerank_plugin.text.tokenizer import TOKEN, Tokenizer, fold, tokens_of


class Span(NamedTuple):
    """A token, and the characters ``start`` to ``end`` of the text that it was made of."""

    token: str
    start: int
    end: int


def spans(tokenizer: Tokenizer, text: str) -> list[Span]:
    """The tokens of a text as ``tokenizer.tokenize`` gives them, with their places; these increase."""
    found = []
    for piece in re.finditer(r"\S+", text):
        places = _places(piece.group())
        tokens = tokenizer.tokenize_piece(piece.group())
        found += [Span(token, piece.start() + a, piece.start() + b) for token, (a, b) in zip(tokens, places)]
    return found


def _places(piece: str) -> Iterator[tuple[int, int]]:
    """Where each token of a piece without white space begins and ends."""
    folded = fold(piece)
    starts, ends = _origins(piece, folded)
    for match in TOKEN.finditer(folded):
        start, end = match.span()
        tokens = tokens_of(match)
        if len(tokens) > 1:  # an ordinary word, a hyphen and a number
            hyphen = folded.index("-", start)
            yield starts[start], ends[hyphen - 1]
            start = hyphen + 1
        for _ in tokens[1:] or tokens:
            yield starts[start], ends[end - 1]


def _origins(piece: str, folded: str) -> tuple[list[int], list[int]]:
    """For each character of the folded piece, where the characters that it was made of begin and end in the piece."""
    lowered = [character.lower() for character in piece]  # one item a character, whatever its small letter is
    starts, ends = list(range(len(folded))), list(range(1, len(folded) + 1))
    if lowered == list(folded):
        return starts, ends
    for tag, a, b, start, end in SequenceMatcher(None, lowered, folded, autojunk=False).get_opcodes():
        for place in range(start, end):
            same = a + place - start
            starts[place], ends[place] = (same, same + 1) if tag == "equal" else (a, b)
    return starts, ends
