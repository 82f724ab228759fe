"""Document metadata, and filters on it.

A filter compares values as `folded` writes them: without letter case, accents and punctuation.

==============  ==========  =======================================================================================
metadata        filter      value
==============  ==========  =======================================================================================
date            year        ``2015``, ``2015-03`` or ``2015-03-02``; a filter has one of them, or a range:
                            ``2015-2020``, ``2015-03..2016-02``
entry_date      entered     when PubMed entered the record; as a date
journal         journal     a text; a filter also has the full title, or initials as ``NEJM``
authors         author      a list of texts, ``Smith JA``; a filter may lack the initials, or have the fore names
mesh            mesh        a list of texts: the MeSH headings
major_topics    major       a list of texts: those of them that are the article's main topics
types           type        a list of texts: the publication types
languages       language    a list of texts; a filter has the code or the English name
retracted       retracted   whether the article was retracted; a filter says ``yes`` or ``no``
keywords        keyword     a list of texts: the authors' keywords
chemicals       chemical    a list of texts: names of substances, and of diseases and protocols that MeSH supplements
notices         notice      a list of texts, ``Retraction in: J Test. 2020;1(2):3. PMID: 12``; a filter
                            has what precedes the colon
subheadings     subheading  a list of texts, ``Aspirin/adverse effects``; a filter also has the second part alone
==============  ==========  =======================================================================================

Without a filter are the other texts of `STORED_ONLY`, the list ``full_names`` (``Smith, John A``, in the order of the
authors), the list ``registry_numbers`` (of each of the chemicals, 0 for none), and ``pmid_version``, a whole number.
``url`` is the http(s) address of the document, ``affiliation`` that of the first author; ``other_abstract`` is the
abstract in other words or languages.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.strategy import Strategy

FILTERS = {
    "year": "date", "journal": "journal", "author": "authors", "mesh": "mesh", "type": "types",
    "language": "languages", "retracted": "retracted", "entered": "entry_date", "major": "major_topics",
    "keyword": "keywords", "chemical": "chemicals", "notice": "notices", "subheading": "subheadings",
}  # fmt: skip
DATES = ("year", "entered")
PMID_VERSION = "pmid_version"
STORED_ONLY = (
    "url", "doi", "pmc", "full_journal_title", "issn", "volume", "issue", "pages", "full_names", "affiliation",
    "original_title", "other_abstract", "electronic_date", "create_date", "registry_numbers", PMID_VERSION,
)  # fmt: skip
LISTS = (
    "authors", "full_names", "mesh", "major_topics", "subheadings", "types", "languages", "keywords", "chemicals",
    "registry_numbers", "notices",
)  # fmt: skip
LONGEST_VALUE = 1000  # characters: the longest names of groups of authors have some 300
AND, NOT = "AND ", "NOT "  # before a field: every value is required, or none is allowed
Values: TypeAlias = Mapping[str, str | int | Sequence[str | int]]
_DATE = r"\d{4}(?:-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?)?"
RANGE = re.compile(rf"({_DATE})|({_DATE})?(?:\.\.|:)({_DATE})?|(\d{{4}})?-(\d{{4}})?|({_DATE})-", re.ASCII)
CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")  # not white space; halves, too
_LETTERS = str.maketrans(dict(zip("ßæœøłđðþı", ("ss", "ae", "oe", "o", "l", "d", "d", "th", "i"))))
_DROPPED, _PUNCTUATION = re.compile("['’`´.]"), re.compile(r"[\W_]+")


@lru_cache(maxsize=1 << 16)
def folded(value: str) -> str:
    """The form in which values are compared: lower case, no accents, spaces for punctuation.

    Apostrophes and full stops are dropped (``O'Brien J.`` is ``obrien j``). A text of nothing else stays as it is.
    """
    text = value.lower()
    if not text.isascii():
        parts = unicodedata.normalize("NFKD", text.translate(_LETTERS))
        text = unicodedata.normalize("NFC", "".join(part for part in parts if not unicodedata.combining(part)))
    return " ".join(_PUNCTUATION.sub(" ", _DROPPED.sub("", text)).split()) or " ".join(value.lower().split())


@dataclass(frozen=True)
class Filter:
    """Selects documents by their metadata.

    Attributes:
        values: fields (keys of `FILTERS`), each with values of which a document must have one; a field may be repeated.
        excluded: fields with values of which a document must have none.
        strategy: a Boolean strategy that a document must match, too; None for none.
    """

    values: tuple[tuple[str, tuple[str, ...]], ...]
    excluded: tuple[tuple[str, tuple[str, ...]], ...] = ()
    strategy: Strategy | None = None

    @classmethod
    def of(cls, values: Values) -> Filter:
        """The filter of a mapping such as ``{"year": "2015-2020", "type": ["Review", "Meta-Analysis"]}``.

        Of a field's values a document has one; of ``AND mesh`` all, and of ``NOT type`` none. A year may be a whole
        number, and ``retracted`` a truth value.

        Raises:
            InputError: no field, an unknown field, a field without values, or an invalid value.
        """
        if not isinstance(values, Mapping) or not all(isinstance(field, str) for field in values):
            raise InputError(f"a filter is a mapping of fields to values, as {{'type': 'Review'}}, not {values!r:.80}")
        lists = {field: entry if isinstance(entry, (list, tuple)) else (entry,) for field, entry in values.items()}
        if not lists or not all(lists.values()):
            raise InputError("a filter has a field or more, and each field a value or more, as in type:Review")
        required: list[tuple[str, tuple[str, ...]]] = []
        excluded: list[tuple[str, tuple[str, ...]]] = []
        for prefixed, of_field in lists.items():
            field = prefixed.removeprefix(NOT).removeprefix(AND).strip()
            checked = tuple(_checked(field, value) for value in of_field)
            groups = [(field, (value,)) for value in checked] if prefixed.startswith(AND) else [(field, checked)]
            (excluded if prefixed.startswith(NOT) else required).extend(groups)
        return cls(tuple(required), tuple(excluded))

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Filter:
        """The filter of strings such as ``year:2015-2020`` or ``NOT type:Letter``, as by `of`.

        A repeated field has several values.
        """
        values: dict[str, list[str]] = {}
        for text in texts:
            field, _, value = text.partition(":")
            values.setdefault(field.lstrip(), []).append(value)
        return cls.of(values)

    def __str__(self) -> str:
        excluded = ((f"{NOT}{field}", values) for field, values in self.excluded)
        values = [f"{field}:{value}" for field, values in (*self.values, *excluded) for value in values]
        return ", ".join(values if self.strategy is None else [*values, str(self.strategy)])


def years(value: str, field: str = "year") -> tuple[str, str]:
    """The first and the last date of a date or a range: ``2015``, ``2015-2020``, ``2015-03-``, ``2015-03..2016-02``."""
    match = RANGE.fullmatch(value)
    if match is None or not any(match.groups()):
        raise InputError(
            f"the filter {field}:{value}: expected a date or a range, as 2015, 2015-2020, 2015-, -2020, 2015-03 or "
            "2015-03..2016-02"
        )
    first, last = match[1] or match[2] or match[4] or match[6] or "0000", match[1] or match[3] or match[5] or "9999"
    if first > f"{last}~":  # the tilde sorts after digits and hyphens
        raise InputError(f"the filter {field}:{value} ends before it begins")
    return first, last


def _checked(field: str, value: str | int) -> str:
    """The value as it is compared; an `InputError` if the field or the value is invalid."""
    if field not in FILTERS:
        raise InputError(f"unknown filter '{field}'; known: {', '.join(FILTERS)}, as in type:Review")
    if isinstance(value, bool) and field == "retracted":
        value = "yes" if value else "no"
    elif isinstance(value, int) and not isinstance(value, bool) and field in DATES:
        value = str(value)
    if not isinstance(value, str):
        raise InputError(f"the filter {field} has the value {value!r}: expected a text")
    if len(value) > LONGEST_VALUE:
        raise InputError(f"the filter {field}:{value:.40}... has {len(value):,} characters: at most {LONGEST_VALUE:,}")
    if control := CONTROL.search(value):
        raise InputError(f"the filter {field}:{value!a} has the control character U+{ord(control[0]):04X}: remove it")
    if field in DATES:
        value = "".join(value.split()).replace("/", "-")
        years(value, field)
        return value
    value = compared(field, value)
    if field == "retracted" and value not in ("yes", "no"):
        raise InputError(f"the filter retracted:{value}: expected yes or no")
    if not value:
        raise InputError(f"the filter {field}: has no value: expected one, as in type:Review")
    return value


def compared(field: str, value: str) -> str:
    """The folded value; of a subheading its two parts, ``aspirin/adverse effects``, of a journal without ``the``.

    A qualifier has ``and`` or ``&``: neither is compared.
    """
    if field == "subheading":
        *headings, qualifier = map(folded, value.split("/"))
        return "/".join((*headings, qualifier.replace(" and ", " ")))
    return folded(value).removeprefix("the ") if field == "journal" else folded(value)
