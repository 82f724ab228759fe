"""The tokens of a line in PubMed's language."""

from __future__ import annotations

import re
from typing import NamedTuple

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.strategy import AND, NOT, OR

_TOKEN = re.compile(
    r'(?P<space>\s+)|(?P<open>\()|(?P<close>\))|(?P<quote>")|(?P<tag>\[[^\[\]]*\](?:(?!\w)|(?=(?:AND|OR|NOT)\b)))|(?P<word>(?:[^\s()"\[]|\[[^\[\]]*\](?=\w)(?!(?:AND|OR|NOT)\b))+|\[)'
)


class Token(NamedTuple):
    kind: str  # open, close, phrase, tag, word, or an operator
    text: str
    place: int  # of its first character, from 1 on


def tokens_of(text: str, before: int) -> list[Token]:
    """The tokens of a text; ``before`` characters stand before it."""
    found, at = list[Token](), 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None, "every character is one of a token"
        kind, token, place = match.lastgroup or "word", match[0], before + at + 1
        at = match.end()
        if kind == "space":
            continue
        if kind == "quote":
            end = text.find('"', at)
            if end < 0:
                raise fault(
                    Token(kind, token, place), "a quote that does not close", "add the closing quote, or remove it"
                )
            kind, token, at = "phrase", text[at:end], end + 1
        elif kind == "word" and token in (AND, OR, NOT):
            kind = token
        elif token == "[":
            raise fault(Token(kind, token, place), "a '[' that does not close", "close the tag, as in [tiab]")
        found.append(Token(kind, token, place))
    return found


def tagged_parentheses(line: list[Token]) -> set[int]:
    """The places of the '(' whose ')' has a tag."""
    opened, tagged = list[int](), set[int]()
    for at, token in enumerate(line):
        if token.kind == "open":
            opened.append(at)
        elif token.kind == "close" and opened:
            begun = opened.pop()
            if at + 1 < len(line) and line[at + 1].kind == "tag":
                tagged.add(begun)
    return tagged


def fault(token: Token | None, what: str, cure: str) -> InputError:
    place = "" if token is None else f" at character {token.place}"
    return InputError(f"the search strategy{place}: {what}; {cure}")
