"""Citations as papers and PubMed write them, ``N Engl J Med. 2019;380(11):1011-20``, and the document of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from rerank_plugin.base.strategy import AND, Dates, Group, Strategy, Term

LONGEST = 2000  # characters
_PLACE = re.compile(
    r"\W\s*(?P<year>(?:19|20)\d\d)\b[^;:]{0,20}[;,]\s*(?P<volume>\w{1,9})\s*"
    r"(?:\([\w./ -]{1,20}\))?\s*[:,]\s*(?:pp?\.\s*)?(?P<page>[A-Za-z]{0,2}\d(?:[\d.]{0,12}\d)?)",
    re.ASCII,
)
_SHORT = re.compile(
    r"\s(?P<year>(?:19|20)\d\d)\s+(?P<volume>\d{1,4})\s+(?P<page>\d{1,6})$"
    r"|\s(?P<volume_alone>\d{1,4})\s*(?:\(\d{1,4}\))?:\s*(?P<page_alone>[A-Za-z]{0,2}\d{1,6})(?:[-–]\d{1,6})?$",
    re.ASCII,
)  # Lancet 2016 387 1531, Lancet 387:1531
_IDS = (("pmid", re.compile(r"\bPMID:\s*(\d{1,9})\b")), ("doi", re.compile(r"\b(10\.\d{4,9}/\S+?)[.,;]?(?=\s|$)")))


def cited(text: str, count: Callable[[Strategy], int]) -> Strategy | None:
    """What finds the document that a citation names: its PMID, its DOI, or journal, year, volume and page.

    None for other texts, and where no document matches by ``count``.
    """
    place = _PLACE.search(text) or _SHORT.search(text) if len(text) <= LONGEST else None
    if place is None:
        return None
    return next((strategy for strategy in _strategies(text, place) if count(strategy)), None)


def _strategies(text: str, place: re.Match[str]) -> Iterator[Strategy]:
    for field, pattern in _IDS:
        if match := pattern.search(text, place.end()):
            yield Term(match[1], field)
    before = text[: place.start()].strip(" .,;:(")
    of = {name.removesuffix("_alone"): value for name, value in place.groupdict().items() if value}
    within: list[Strategy] = [Term(of["volume"], "vi"), Term(of["page"], "pg")]
    if "year" in of:
        within.insert(0, Dates("dp", of["year"], of["year"]))
    for start in dict.fromkeys((*(end.end() for end in re.finditer(r"[.?!,;] +", before)), 0)):  # of the journal
        if journal := before[start:].strip():
            yield Group(AND, (Term(journal, "ta"), *within))
