"""Document metadata, and filters on it.

============  ================  ===================================================================================
metadata      filter            value
============  ================  ===================================================================================
date          year              ``2015``, ``2015-03`` or ``2015-03-02``; a filter has a year or a range of years
journal       journal           a text
authors       author            a list of texts
mesh          mesh              a list of texts: the MeSH headings
types         type              a list of texts: the publication types
languages     language          a list of texts
retracted     retracted         whether the article was retracted; a filter says ``yes`` or ``no``
url           (none)            the http(s) address of the document, such as its page at PubMed
doi           (none)            a text: ``10.1000/182``
keywords      (none)            a list of texts: the authors' keywords
pmid_version  (none)            a whole number: the version of the article at PubMed
============  ================  ===================================================================================
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rerank_plugin.base.errors import InputError

FILTERS = {
    "year": "date", "journal": "journal", "author": "authors", "mesh": "mesh", "type": "types",
    "language": "languages", "retracted": "retracted",
}  # fmt: skip
PMID_VERSION = "pmid_version"
STORED_ONLY = ("url", "doi", "keywords", PMID_VERSION)  # metadata without a filter
LISTS = ("authors", "mesh", "types", "languages", "keywords")
Values: TypeAlias = Mapping[str, str | int | Sequence[str | int]]
YEARS = re.compile("([0-9]{4})|([0-9]{4})?-([0-9]{4})?")


def folded(value: str) -> str:
    """The form in which values are compared: lower case, single spaces, Unicode's composed form (NFC)."""
    return " ".join(unicodedata.normalize("NFC", value.lower()).split())


@dataclass(frozen=True)
class Filter:
    """Selects documents that have, in each field, one of its values; letter case does not matter."""

    values: tuple[tuple[str, tuple[str, ...]], ...]  # field names (keys of `FILTERS`), each with its values

    @classmethod
    def of(cls, values: Values) -> Filter:
        """The filter of a mapping such as ``{"year": "2015-2020", "type": ["Review", "Meta-Analysis"]}``.

        A year may be a whole number, and ``retracted`` a truth value.

        Raises:
            InputError: no field, an unknown field, a field without values, or an invalid value.
        """
        lists = {field: entry if isinstance(entry, (list, tuple)) else (entry,) for field, entry in values.items()}
        if not lists or not all(lists.values()):
            raise InputError("a filter has a field or more, and each field a value or more, as in type:Review")
        return cls(tuple((field, tuple(_checked(field, value) for value in lists[field])) for field in lists))

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Filter:
        """The filter of strings such as ``year:2015-2020``, as by `of`; a repeated field has several values."""
        values: dict[str, list[str]] = {}
        for text in texts:
            field, _, value = text.partition(":")
            values.setdefault(field, []).append(value)
        return cls.of(values)

    def __str__(self) -> str:
        return ", ".join(f"{field}:{value}" for field, values in self.values for value in values)


def years(value: str) -> tuple[str, str]:
    """The first and the last year of ``2015``, ``2015-2020``, ``2015-`` or ``-2020``."""
    match = YEARS.fullmatch(value)
    if match is None or value == "-":
        raise InputError(f"the filter year:{value}: expected a year or a range, as 2015, 2015-2020, 2015- or -2020")
    first, last = match[1] or match[2] or "0000", match[1] or match[3] or "9999"
    if first > last:
        raise InputError(f"the filter year:{value} ends before it begins")
    return first, last


def _checked(field: str, value: str | int) -> str:
    """The folded value; an `InputError` if the field or the value is invalid."""
    if field not in FILTERS:
        raise InputError(f"unknown filter '{field}'; known: {', '.join(FILTERS)}, as in type:Review")
    if isinstance(value, bool) and field == "retracted":
        value = "yes" if value else "no"
    elif isinstance(value, int) and not isinstance(value, bool) and field == "year":
        value = str(value)
    if not isinstance(value, str):
        raise InputError(f"the filter {field} has the value {value!r}: expected a text")
    value = folded(value)
    if field == "year":
        years(value)
    elif field == "retracted" and value not in ("yes", "no"):
        raise InputError(f"the filter retracted:{value}: expected yes or no")
    elif not value:
        raise InputError(f"the filter {field}: has no value: expected one, as in type:Review")
    return value
