"""What the formats of reference managers share: a record from the values of its fields."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rerank_plugin.base.metadata_fields import without_suffix
from rerank_plugin.corpora.metadata import DOI, PMID
from rerank_plugin.corpora.records import Record

_PUBMED = re.compile(r"pubmed|medline|\bnlm\b", re.IGNORECASE)  # in the name of a database
_ADDRESS = re.compile(
    r"(?:pubmed\.ncbi\.nlm\.nih\.gov|ncbi\.nlm\.nih\.gov/(?:m/)?pubmed)/([1-9]\d{0,8})\b|PMID:\s*(\d+)"
)
_FORE_NAME = re.compile(", .*[^\\W_]{2}(?<![A-Z])")  # more than initials
_YEAR = re.compile(r"\d{4}")


def reference(
    title: Sequence[str],
    abstract: Sequence[str],
    numbers: Sequence[str],
    databases: Sequence[str],
    notes: Sequence[str],
    years: Sequence[str],
    dates: Sequence[str],
    dois: Sequence[str],
    journals: Sequence[str],
    **metadata: Sequence[str],
) -> Record:
    """A record of a library; of each field the values, the preferred first.

    The id is the PMID, if an address, a note or a number in PubMed's database tells it, or else the first of the
    ``numbers`` without white space, or the DOI.
    """
    number = next((number for number in numbers if number.split() == [number]), "")
    found = next((match for note in notes for match in _ADDRESS.finditer(note)), None)
    pmid = found and (found[1] or found[2])
    if not pmid and PMID.fullmatch(number) and any(map(_PUBMED.search, databases)):
        pmid = number
    doi = next((match[0] for match in map(DOI.search, dois) if match), "")
    year, date = next(iter(years), ""), next(iter(dates), "")
    authors = metadata.get("authors", ())
    metadata["authors"] = [*map(_short, authors)]
    full_names = [name.removesuffix(",") for name in authors]
    metadata["full_names"] = (
        full_names if any(_FORE_NAME.search(without_suffix(name)[0]) for name in full_names) else ()
    )
    if metadata.get("full_journal_title") == [*journals[:1]]:
        del metadata["full_journal_title"]
    fields = {
        **metadata, "pmid": pmid, "doi": doi, "journal": next(iter(journals), ""), "year": year,
        "date": date if _YEAR.search(date) else date and f"{year} {date}",
    }  # fmt: skip
    return Record(pmid or number or doi, next(iter(title), ""), next(iter(abstract), ""), fields)


def _short(name: str) -> str:
    """``Smith JA Jr`` of ``Smith, John A Jr``; of a group, which ends with a comma, its name; others as they are."""
    if name.endswith(","):
        return name[:-1]
    surname, comma, given = name.partition(", ")
    given, suffix = without_suffix(given)
    words = re.findall(r"[^\W_]+", given)
    initials = (
        words[0] if len(words) == 1 and words[0].isupper() and len(words[0]) < 5 else "".join(word[0] for word in words)
    )
    return f"{surname} {initials.upper()} {suffix}".rstrip() if comma and initials else name
