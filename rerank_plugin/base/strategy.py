"""A Boolean search strategy, as read: a tree of terms, whatever language it was written in.

A :class:`Filter <rerank_plugin.base.filters.Filter>` may hold one. Trees are hashable, and travel to other processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

AND, OR, NOT = "AND", "OR", "NOT"
ALL, TITLE, ABSTRACT, TITLE_OR_ABSTRACT, TEXT = "all", "ti", "ab", "tiab", "tw"
HEADINGS = ("mh", "majr", "sh")
AUTHORS = ("au", "1au")  # of whom quotes ask for the name as it stands, without further initials
WORDS = (ALL, TITLE, ABSTRACT, TITLE_OR_ABSTRACT, TEXT)  # fields of words; in others a term is an entire value


class Term(NamedTuple):
    """Words of a text, or a value of a field.

    Attributes:
        text: as written, without quotes, tag and asterisk.
        field: where it is searched, such as ``tiab`` or ``mh``.
        phrase: whether it stood in quotes.
        truncated: whether its last word is the beginning of a word.
        near: the most words between its words, in any order; None for words in a row.
        below: of a heading, a qualifier or both, those below, which match, too; None for itself alone.
    """

    text: str
    field: str = ALL
    phrase: bool = False
    truncated: bool = False
    near: int | None = None
    below: tuple[str, ...] | None = None

    def __str__(self) -> str:
        quote = '"' if self.phrase or (" " in self.text and self.field not in AUTHORS) else ""
        star = "*" if self.truncated else ""
        more = ":noexp" if self.field in HEADINGS and self.below is None else _near(self.near)
        field = "mh" if self.field == "sh" and "/" in self.text else self.field
        tag = "" if self.field == ALL and self.near is None else f"[{field}{more}]"
        return f"{quote}{self.text}{star}{quote}{tag}"


class Dates(NamedTuple):
    """Dates from a first to a last one, each like ``2015``, ``2015-03`` or ``2015-03-02``."""

    field: str
    first: str
    last: str

    def __str__(self) -> str:
        dates = self.first if self.first == self.last else f"{self.first}:{self.last}"
        return f"{dates.replace('-', '/')}[{self.field}]"


class Group(NamedTuple):
    """Parts joined by AND or OR; or by NOT: what matches the first part and none of the others."""

    role: str
    parts: tuple[Strategy, ...]

    def __str__(self) -> str:
        if not self.parts:
            return "all[sb]"
        return f" {self.role} ".join(
            f"({part})" if isinstance(part, Group) and part.parts else str(part) for part in self.parts
        )


Strategy = Term | Dates | Group
EVERYTHING = Group(AND, ())


def _near(words: int | None) -> str:
    return "" if words is None else f":~{words}"


def positive_terms(strategy: Strategy) -> Iterator[Term]:
    """The terms that are not negated, in their order."""
    if isinstance(strategy, Term):
        yield strategy
    elif isinstance(strategy, Group):
        for part in strategy.parts[:1] if strategy.role == NOT else strategy.parts:
            yield from positive_terms(part)


def ranking_words(strategy: Strategy, spelled: Callable[[Term], str] = lambda term: term.text) -> str:
    """The words that rank what matches: those of texts, or else of headings; each once, none that is negated.

    ``spelled``: the text of a term of texts.
    """
    terms = list(positive_terms(strategy))
    texts = [spelled(term) for term in terms if term.field in WORDS] or [
        term.text.replace("/", " ") for term in terms if term.field in ("mh", "majr", "nm", "ot", "sh")
    ]
    return " ".join({word.lower(): word for text in texts for word in text.split()}.values())
