"""Lines of Ovid's search language in PubMed's, where both mean the same; others are left to a note.

``exp X/`` and ``X/`` are headings with and without those below them, ``*X/`` main topics; ``.ti,ab.`` after words or
parentheses names fields; words side by side are a phrase, ``$`` and ``*`` truncate; ``a adj3 b`` has at most two words
between. Different operators side by side, other wildcards, qualifiers and ``adj`` of more than two words are not read,
and of ``limit`` only languages, years, species, sexes and some types.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rerank_plugin.base.metadata_fields import LANGUAGE_FORMS

FIELDS = {
    "ti": ("ti",), "ab": ("ab",), "tw": ("tiab",), "mp": ("tw",), "kw": ("ot",), "kf": ("ot",), "af": ("all",),
    "sh": ("mh:noexp",), "pt": ("pt",), "lg": ("la",), "la": ("la",), "au": ("au",), "jn": ("ta",), "jw": ("ta",),
    "nm": ("nm",), "rn": ("nm",),
}  # fmt: skip
DEFAULT = ("tw",)  # of words without a field, as .mp.
_CODES = "|".join(FIELDS)
_SUFFIX = rf"(?:\.(?P<{{}}>(?:{_CODES})(?:,(?:{_CODES}))*)\.?(?=[\s)]|$))?"
_NO_OPERATOR = r"(?!\s(?:or|and|not|adj\d*)\s)"
_TOKEN = re.compile(
    rf"""\s*(?:
      (?P<open>\() | (?P<close>\)){_SUFFIX.format("of_group")} | "(?P<quoted>[^"]+)"{_SUFFIX.format("of_quoted")}
    | (?P<operator>and|or|not)(?=[\s(]|$) | adj(?P<near>\d{{0,2}})(?=[\s(]|$)
    | (?P<exp>exp\s+)?(?P<main>\*)?(?P<heading>[^\W\d_](?:{_NO_OPERATOR}[^()/"\[\].\n])*)/(?=[\s)]|$)
    | (?P<word>[^\s()"\[\]/.?#$*]+[$*]?){_SUFFIX.format("of_word")}(?=[\s)]|$)
    )\s*""",
    re.VERBOSE | re.IGNORECASE,
)
_HEADING = re.compile(r"\s*(exp\s+)?(\*?)([^\W\d_][^()/\"\[\].\n]{1,200})/\s*", re.IGNORECASE)
_LIST = re.compile(r"\s*(or|and)/((?:\d{1,4}(?:-\d{1,4})?,?)+)\s*", re.IGNORECASE)
_REFERENCES = re.compile(r"[\s\d#()]*(?:\b(?:and|or|not)\b[\s\d#()]+)+")
_DUPLICATES = re.compile(r"\s*remove duplicates from (\d{1,4})\s*", re.IGNORECASE)
_LIMIT = re.compile(r"\s*limit (\d{1,4}) to \(?([^()]{1,300})\)?\s*", re.IGNORECASE)
_YEARS = re.compile(r'yr\s*=\s*"?\s*(\d{4})\s*(?:-\s*(\d{4}|current))?\s*"?', re.IGNORECASE)
_TYPES = (
    "clinical trial",
    "randomized controlled trial",
    "controlled clinical trial",
    "meta analysis",
    "review",
    "letter",
)
MOST_LINES = 1000


class _Node(NamedTuple):
    """Words or a heading in PubMed's language, or parts joined by an operator."""

    text: str = ""
    fields: tuple[str, ...] = ()  # none: those of the parentheses around it
    complete: bool = False  # a heading or the number of a line, which has no field
    operator: str = ""
    parts: tuple[_Node, ...] = ()


class _Unread(Exception):
    """A part that both languages do not have alike."""


def references(query: str) -> str:
    """The line with operators in capital letters where it has only numbers of lines: ``1 or 2``."""
    return query.upper() if _REFERENCES.fullmatch(query) else query


def translated(query: str) -> str | None:
    """A line in PubMed's language; None if it is not read."""
    if match := _HEADING.fullmatch(query):
        return _heading(match[3], match[1], match[2])
    if match := _LIST.fullmatch(query):
        numbers = list[int]()
        for part in match[2].strip(",").split(","):
            first, _, last = part.partition("-")
            numbers += range(int(first), min(int(last or first), int(first) + MOST_LINES) + 1)
        return f" {match[1].upper()} ".join(map(str, numbers)) if 0 < len(numbers) <= MOST_LINES else None
    if match := _DUPLICATES.fullmatch(query):
        return match[1]
    if match := _LIMIT.fullmatch(query):
        limits = [_limit(part.strip()) for part in re.split(r"\s+and\s+", match[2], flags=re.IGNORECASE)]
        return None if None in limits else " AND ".join([match[1], *filter(None, limits)])
    if query.lstrip().lower().startswith("limit "):
        return None
    try:
        node, end = _level(query, 0, 0)
    except _Unread:
        return None
    return _written(node, DEFAULT, outermost=True) if end == len(query) else None


def _heading(name: str, exploded: str | None, main: str | None) -> str:
    tag = "majr" if main else "mh"
    return f'"{name.strip()}"[{tag if exploded else f"{tag}:noexp"}]'


def _limit(text: str) -> str | None:
    """A part of ``limit 1 to (english language and yr="2010 -Current")``."""
    name = text.lower()
    if match := _YEARS.fullmatch(text):
        last = match[2] or match[1]
        return f"{match[1]}:{'present' if last.isalpha() else last}[dp]"
    if name.removesuffix(" language") in LANGUAGE_FORMS:
        return f"{name.removesuffix(' language')}[la]"
    if name in ("humans", "animals", "female", "male"):
        return f"{name}[mh]"
    return f'"{name}"[pt]' if name in _TYPES else None


def _level(query: str, at: int, depth: int) -> tuple[_Node, int]:
    """What stands up to the end, or to a closing parenthesis, and where that is."""
    parts, operators, words, near = list[_Node](), set[str](), list[str](), ""

    def finish(fields: tuple[str, ...] = ()) -> None:
        nonlocal near
        if near and len(words) != 2:
            raise _Unread
        if words:
            parts.append(_Node(_phrase(words, near), fields))
        words.clear()
        near = ""

    while at < len(query) and query[at] != ")":
        match = _TOKEN.match(query, at)
        if match is None or depth > 50:
            raise _Unread
        at, fields = match.end(), _fields(match["of_word"] or match["of_quoted"])
        if match["operator"]:
            finish()
            operators.add(match["operator"].upper())
            if len(parts) < 1 or len(operators) > 1:
                raise _Unread
        elif match["near"] is not None:
            if len(words) != 1:
                raise _Unread
            near = match["near"] or "1"
        elif match["word"]:
            words.append(match["word"].replace("$", "*"))
            if fields:
                finish(fields)
        else:
            finish()
            if match["open"]:
                inner, at = _level(query, at, depth + 1)
                close = _TOKEN.match(query, at)
                if close is None or not close["close"]:
                    raise _Unread
                at = close.end()
                parts.append(inner._replace(fields=_fields(close["of_group"]) or inner.fields))
            elif match["quoted"]:
                parts.append(_Node(f'"{match["quoted"]}"', fields))
            else:
                parts.append(_Node(_heading(match["heading"], match["exp"], match["main"]), complete=True))
    finish()
    number_of_operators = len(parts) - 1
    if not parts or (number_of_operators and not operators):
        raise _Unread
    return parts[0] if len(parts) == 1 else _Node(operator=operators.pop(), parts=tuple(parts)), at


def _fields(codes: str | None) -> tuple[str, ...]:
    """PubMed's tags of Ovid's codes."""
    tags = list(dict.fromkeys(tag for code in (codes or "").lower().split(",") for tag in FIELDS.get(code, ())))
    if {"ti", "ab"} <= {*tags}:
        tags = ["tiab", *(tag for tag in tags if tag not in ("ti", "ab", "tiab"))]
    return tuple(tags)


def _phrase(words: list[str], near: str) -> str:
    """Words side by side, in quotes; with ``near`` a colon and the words that may stand between, for a tag."""
    if any(word.endswith("*") for word in (words if near else words[:-1])):
        raise _Unread
    if not near and len(words) == 1:
        return words[0]
    return f'"{" ".join(words)}"' + (f":~{int(near) - 1}" if int(near or 1) > 1 else "")


def _written(node: _Node, fields: tuple[str, ...], outermost: bool = False) -> str:
    if node.complete or (node.text.isdecimal() and not node.fields and fields == DEFAULT):
        return node.text
    fields = node.fields or fields
    if node.parts:
        joined = f" {node.operator} ".join(_written(part, fields) for part in node.parts)
        return joined if outermost else f"({joined})"
    text, _, near = node.text.partition(":~")
    tagged = [f"{text}[{tag}:~{near}]" if near else text if tag == "all" else f"{text}[{tag}]" for tag in fields]
    return tagged[0] if len(tagged) == 1 else f"({' OR '.join(tagged)})"
