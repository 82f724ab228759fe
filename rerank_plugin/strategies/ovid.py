"""Lines of Ovid's search language in PubMed's, where both mean the same; others are left to a note.

``exp X/`` and ``X/`` are headings with and without those below them, ``*X/`` main topics, ``X/ep, ge`` headings with
qualifiers; ``.ti,ab.`` after words or parentheses names fields; words side by side are a phrase, ``$`` and ``*``
truncate; ``a adj3 b`` has at most two words between, also of words in parentheses. Different operators side by side and
other wildcards are not read, and of ``limit`` only languages, years, species, sexes and some types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from rerank_plugin.base.metadata_fields import LANGUAGE_FORMS
from rerank_plugin.strategies.qualifiers import QUALIFIERS

PUBMED_TAGS = {  # by Ovid's code of a field
    "ti": ("ti",), "ab": ("ab",), "tw": ("tiab",), "mp": ("tw",), "kw": ("ot",), "kf": ("ot",), "af": ("all",),
    "sh": ("mh:noexp",), "pt": ("pt",), "lg": ("la",), "la": ("la",), "au": ("au",), "jn": ("ta",), "jw": ("ta",),
    "nm": ("nm",), "rn": ("rn",), "fs": ("sh:noexp",), "yr": ("dp",), "ez": ("edat",), "da": ("edat",), "dt": ("crdt",),
}  # fmt: skip
SIMILAR_TAGS = {"hw": ("mh",)}  # words of headings, for which PubMed has entire headings only
QUALIFIED = r"(?P<codes>[a-z]{2}(?:,[ ]?[a-z]{2})*)?(?:[ ]\[[^\[\]]*\])?"  # behind a heading's slash
DEFAULT = ("tw",)  # of words without a field, as .mp.
_CODES = "|".join(PUBMED_TAGS)
_SUFFIX = rf"(?:\.(?P<{{}}>(?:{_CODES})(?:,(?:{_CODES}))*)\.?(?=[\s)]|$))?"
_NO_OPERATOR = r"(?!\s(?:or|and|not|adj\d*)\s)"
_TOKEN = re.compile(
    rf"""\s*(?:
      (?P<open>\() | (?P<close>\)){_SUFFIX.format("of_group")} | "(?P<quoted>[^"]+)"{_SUFFIX.format("of_quoted")}
    | (?P<operator>and|or|not)(?=[\s(]|$) | adj(?P<near>\d{{0,2}})(?=[\s(]|$)
    | (?P<exp>exp\s+)?(?P<main>\*)?(?P<heading>[^\W\d_](?:{_NO_OPERATOR}[^()/"\[\].\n])*)/{QUALIFIED}(?=[\s)]|$)
    | (?P<word>[^\s()"\[\]/.?#$*]+[$*]?){_SUFFIX.format("of_word")}(?=[\s)]|$)
    )\s*""",
    re.VERBOSE | re.IGNORECASE,
)
_DAY = re.compile(r'"?(\d{4})(\d\d)?(\d\d)?\*?"?')  # 2023* and 20230105, of entry
_HEADING = re.compile(rf"\s*(exp\s+)?(\*?)([^\W\d_][^()/\"\[\].\n]{{1,200}})/{QUALIFIED}\s*", re.IGNORECASE)
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
_SHOWN = re.compile(r"(?<=\.)[ ]\[mp=[^\[\]]*\]")  # the fields of .mp. as its history names them
_SEVERAL = re.compile(r'^$|[\s"]')  # no single word
MOST_PAIRS = 200  # of words near each other


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


def translated(query: str, note: Callable[[str], None]) -> str | None:
    """A line in PubMed's language; None if it is not read. ``note`` takes an ``adj`` that is read as AND."""
    query = _SHOWN.sub("", query)
    if match := _HEADING.fullmatch(query):
        return _heading(match[3], match[1], match[2], match["codes"])
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
    loosened = list[str]()
    try:
        node, end = _level(query, 0, 0, loosened)
        read = _written(node, DEFAULT, outermost=True)
    except _Unread:
        return None
    if end != len(query):
        return None
    if loosened:
        note(loosened[0])
    return read


def _heading(name: str, exploded: str | None, main: str | None, codes: str | None) -> str | None:
    """A heading, with any of its qualifiers; None if there is no such qualifier."""
    tag = ("majr" if main else "mh") + ("" if exploded else ":noexp")
    names = [QUALIFIERS.get(code.strip().lower()) for code in codes.split(",")] if codes else [""]
    if None in names:
        return None
    pairs = [f'"{name.strip()}{qualifier and "/"}{qualifier}"[{tag}]' for qualifier in names]
    return pairs[0] if len(pairs) == 1 else f"({' OR '.join(pairs)})"


def _limit(text: str) -> str | None:
    """A part of ``limit 1 to (english language and yr="2010 -Current")``."""
    name = text.lower()
    if match := _YEARS.fullmatch(text):
        last = match[2] or match[1]
        return f"{match[1]}:{'present' if last.isalpha() else last}[dp]"
    if name.removesuffix(" language") in LANGUAGE_FORMS:
        return f"{name.removesuffix(' language')}[la]"
    if name == "abstracts":
        return "hasabstract[sb]"
    if name in ("humans", "animals", "female", "male"):
        return f"{name}[mh]"
    return f'"{name}"[pt]' if name in _TYPES else None


def _level(query: str, at: int, depth: int, loosened: list[str]) -> tuple[_Node, int]:
    """What stands up to the end, or to a closing parenthesis, and where that is."""
    parts, operators, words, near = list[_Node](), set[str](), list[str](), ""
    left, closed = list[str](), False  # what stands before adj; whether parentheses were closed just now

    def finish(fields: tuple[str, ...] = (), right: list[str] | None = None) -> None:
        nonlocal near
        if near:
            parts.append(_near(left, right or [" ".join(words)], near, loosened)._replace(fields=fields))
        elif words:
            parts.append(_Node(_phrase(words), fields))
        words.clear()
        near = ""

    while at < len(query) and query[at] != ")":
        match = _TOKEN.match(query, at)
        if match is None or depth > 50:
            raise _Unread
        at, fields = match.end(), tags(match["of_word"] or match["of_quoted"])
        behind, closed = closed, False
        if match["operator"]:
            finish()
            operators.add(match["operator"].upper())
            if len(parts) < 1 or len(operators) > 1:
                raise _Unread
        elif match["near"] is not None:
            if near or len(words) != 1 - behind:
                raise _Unread
            left, near = _alternatives(parts.pop()) if behind else [words.pop()], match["near"] or "0"
        elif match["word"]:
            words.append(match["word"].replace("$", "*"))
            if fields:
                finish(fields)
        else:
            if words or not (near and match["open"]):
                finish()
            if match["open"]:
                inner, at = _level(query, at, depth + 1, loosened)
                close = _TOKEN.match(query, at)
                if close is None or not close["close"]:
                    raise _Unread
                at = close.end()
                fields, closed = tags(close["of_group"]) or inner.fields, not near
                if near:
                    finish(fields, _alternatives(inner))
                else:
                    parts.append(inner._replace(fields=fields))
            elif match["quoted"]:
                parts.append(_Node(f'"{match["quoted"]}"', fields))
            else:
                heading = _heading(match["heading"], match["exp"], match["main"], match["codes"])
                if heading is None:
                    raise _Unread
                parts.append(_Node(heading, complete=True))
    finish()
    number_of_operators = len(parts) - 1
    if not parts or (number_of_operators and not operators):
        raise _Unread
    return parts[0] if len(parts) == 1 else _Node(operator=operators.pop(), parts=tuple(parts)), at


def tags(codes: str | None, known: Mapping[str, tuple[str, ...]] = PUBMED_TAGS) -> tuple[str, ...]:
    """PubMed's tags of Ovid's codes, ``ti,ab``."""
    of_codes = (known.get(code.strip(), ()) for code in (codes or "").lower().split(","))
    tags = list(dict.fromkeys(tag for tags in of_codes for tag in tags))
    if {"ti", "ab"} <= {*tags}:
        tags = ["tiab", *(tag for tag in tags if tag not in ("ti", "ab", "tiab"))]
    return tuple(tags)


def _phrase(words: list[str]) -> str:
    """Words side by side, in quotes."""
    if any(word.endswith("*") for word in words[:-1]):
        raise _Unread
    return words[0] if len(words) == 1 else f'"{" ".join(words)}"'


def _alternatives(node: _Node) -> list[str]:
    """The words of which any may stand beside ``adj``."""
    if node.fields or node.complete or (node.parts and node.operator != "OR"):
        raise _Unread
    return [word for part in node.parts for word in _alternatives(part)] if node.parts else [node.text]


def _near(left: list[str], right: list[str], near: str, loosened: list[str]) -> _Node:
    """Any word of the left with any of the right, with a colon and the words that may stand between, for a tag."""
    if len(left) * len(right) > MOST_PAIRS or any(map(_SEVERAL.search, (*left, *right))):
        raise _Unread
    pairs = list[_Node]()
    for first in left:
        for second in right:
            if "*" in first + second and int(near) > 0:
                loosened.append(f"{first} adj{near} {second}")
                pairs.append(_Node(operator="AND", parts=(_Node(first), _Node(second))))
            else:
                phrase = _phrase([first, second])  # in this order for adj alone
                pairs.append(_Node(phrase + (f":~{int(near) - 1}" if int(near) > 0 else "")))
    return pairs[0] if len(pairs) == 1 else _Node(operator="OR", parts=tuple(pairs))


def _written(node: _Node, fields: tuple[str, ...], outermost: bool = False) -> str:
    if node.complete or (node.text.isdecimal() and not node.fields and fields == DEFAULT):
        return node.text
    fields = node.fields or fields
    if node.parts:
        joined = f" {node.operator} ".join(_written(part, fields) for part in node.parts)
        return joined if outermost else f"({joined})"
    text, _, near = node.text.partition(":~")
    if "edat" in fields or "crdt" in fields:
        if (day := _DAY.fullmatch(text)) is None:
            raise _Unread
        text = "/".join(filter(None, day.groups()))
    tagged = [f"{text}[{tag}:~{near}]" if near else text if tag == "all" else f"{text}[{tag}]" for tag in fields]
    return tagged[0] if len(tagged) == 1 else f"({' OR '.join(tagged)})"
