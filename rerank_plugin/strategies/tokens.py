"""The tokens of a line in PubMed's language, and its dates as metadata have them: ``2015/03/02``, ``last 5 years``."""

from __future__ import annotations

import re
from datetime import date
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


_DATE = re.compile(r"(\d{4})(?:[/-](\d{1,2})(?:[/-](\d{1,2}))?)?", re.ASCII)
_LAST = re.compile(r"(?:published )?last (\d{1,4}) (day|week|month|year)s?", re.IGNORECASE)
_DAYS = {"day": 1, "week": 7, "month": 30.44, "year": 365.25}
_NO_END = "3000"  # PubMed's last year


def last_dates(text: str) -> list[str] | None:
    """The first and the last date of ``last 5 years``, as PubMed counts them: up to now, and what is announced."""
    if (match := _LAST.fullmatch(text)) is None:
        return None
    first = date.today().toordinal() - round(int(match[1]) * _DAYS[match[2].lower()])
    return [date.fromordinal(max(1, first)).isoformat(), _NO_END]


def read_date(text: str, token: Token) -> str:
    """A date of PubMed, ``2015/03/02`` or ``present``, in the form of metadata."""
    match = _DATE.fullmatch(_NO_END if text.lower() == "present" else text)
    try:
        if match is None:
            raise ValueError(text)
        date(int(match[1]), int(match[2] or 1), int(match[3] or 1))  # 2025/02/30 is none
    except ValueError:
        raise fault(token, f"'{text:.40}' is no date", "write it as 2015, 2015/03 or 2015/03/02") from None
    return "-".join(part.zfill(2) for part in match.groups() if part)
