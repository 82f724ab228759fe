"""Metadata of documents, converted to the form of :mod:`rerank_plugin.base.filters`.

Exports name and write the same things in many ways: `KEYS` has the keys of PubMed's MEDLINE text, Europe PMC, BioASQ,
pubmed_parser and others, which are compared without case, underscores and hyphens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from rerank_plugin.base.filters import FILTERS, LISTS, PMID_VERSION, STORED_ONLY
from rerank_plugin.base.metadata_fields import AT_PUBMED

NAMES = frozenset((*FILTERS.values(), *STORED_ONLY))
NOTHING = ("null", "None", "nan", "NaN")  # as programs write a missing value into a string
LONGEST = 1000  # characters of a text
LONG = {"other_abstract": 100_000, "affiliation": 4000}  # and of these
KEYS = {
    "date": "date pubdate publicationdate publisheddate datepublished published publishtime firstpublicationdate "
    "articledate dp",
    "year": "year pubyear publicationyear",
    "journal": "journal journaltitle journalname medlineta ta jt isoabbreviation journalinfo journalbook "
    "sourcetitle publicationtitle",
    "authors": "authors author authorlist authornames authorstring au",
    "mesh": "mesh meshterms meshheadings meshheadinglist meshmajor mh",
    "types": "types publicationtypes publicationtype pubtypes pubtype pubtypelist pt documenttype itemtype",
    "languages": "languages language lang la languageoforiginaldocument",
    "keywords": "keywords keyword keywordlist ot authorkeywords",
    "retracted": "retracted isretracted",
    "doi": "doi",
    "url": "url",
    "pmid": "pmid pubmedid",
    PMID_VERSION: "pmidversion",
    "pmc": "pmc pmcid",
    "entry_date": "entrydate edat createdate",
    "create_date": "createdate crdt",
    "electronic_date": "electronicdate dep",
    "full_journal_title": "fulljournaltitle fulljournalname jt",
    "issn": "issn essn journalissn issnl",
    "volume": "volume journalvolume vi",
    "issue": "issue journalissue ip",
    "pages": "pages pageinfo pagination pg medlinepgn",
    "full_names": "fullnames fau",
    "affiliation": "affiliation ad",
    "major_topics": "majortopics",
    "subheadings": "subheadings",
    "chemicals": "chemicals chemicallist rn",
    "registry_numbers": "registrynumbers",
    "notices": "notices",
    "original_title": "originaltitle vernaculartitle tt",
    "other_abstract": "otherabstract oab",
}  # of each entry, the preferred first; pmid and year become parts of others
PARTS = ("fullname", "name", "collectivename", "descriptorname", "term", "text", "title")  # of an object in a list
SURNAMES, GIVEN = ("lastname", "last", "family", "surname"), ("initials", "firstname", "first", "given", "forename")
SEPARATED, BETWEEN_NOTICES = re.compile(r"\s*;\s*"), re.compile(r"\s*\|\s*")  # sources of notices have semicolons
INITIALS = re.compile(r" (?:[A-Z]\.?-?){1,4}$")
UNIQUE_ID = re.compile(r"[A-Z]\d{6,9}:")  # of a MeSH term, as pubmed_parser writes it before the name
_FLOAT, _LONG_FLOAT = re.compile(r"\d+\.\d*(e\+?\d{1,2})?|\d+e\+?\d{1,2}", re.I), re.compile(r"\d{4,15}\.0+")
PMID, DOI = re.compile("[1-9][0-9]{0,8}"), re.compile(r"10\.[0-9]{4,9}/\S+")
ADDRESS = re.compile(r"https?://[^\s/]\S*", re.IGNORECASE)
PUBMED = "https://pubmed.ncbi.nlm.nih.gov/{}/"
PMC = re.compile(r"(?:PMC)?([1-9][0-9]*)(?:\.[0-9]+)?", re.IGNORECASE)

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = (
    r"(?P<name>Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|"
    r"Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)
_DAY = r"(?:st|nd|rd|th)?"
_YEAR_FIRST = re.compile(r"(\d{4})(?:([-/.])(\d{1,2})(?!\d)(?:\2(\d{1,2})(?!\d))?)?(?=$|[^\d])")
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)?")
_YEAR_LAST = re.compile(r"(?:(\d{1,2})([-/.]))?(\d{1,2})[-/.](\d{4})")
_WORDS = re.compile(
    rf"(?:(?<!\d)(?P<before>\d{{1,2}}){_DAY}\W+)?\b{_MONTH}\b(?:\W+(?P<after>\d{{1,2}}){_DAY}(?![\d-]))?", re.I
)
_YEAR = re.compile(r"(?<!\d)(?:1[5-9]|20|21)\d\d(?!\d)")


class ImpossibleDate(ValueError):
    """A date that cannot be read or is not in the calendar; ``readable`` is its beginning that is, or empty."""

    def __init__(self, readable: str = ""):
        super().__init__("no date of the calendar")
        self.readable = readable


@lru_cache(maxsize=4096)
def read_date(text: str) -> str:
    """A date as ``2015``, ``2015-03`` or ``2015-03-02``.

    Accepted are dates with the year first or last, with hyphens, slashes or dots, the names of months (``2015
    Mar-Apr``, ``2 March 2015``: of a period its beginning), and seasons (``Winter 2016``), of which the year is kept.
    Where day and month cannot be told apart (03/02/2015), the year is kept.

    Raises:
        ImpossibleDate: the text is no date, or not in the calendar.
    """
    year = month = day = None
    if match := _COMPACT.fullmatch(text):
        year, month, day = match.groups()
    elif match := _YEAR_LAST.fullmatch(text):
        first, separator, second, year = match.groups()
        if first is None:
            month = second
        elif separator == "." or int(first) > 12 or first == second:  # dots stand between day and month, in this order
            day, month = first, second
        elif int(second) > 12:
            month, day = first, second
    elif (words := _WORDS.search(text)) and (found := _YEAR.search(text)):
        year, month = found[0], str(MONTHS.index(words["name"][:3].title()) + 1)
        day = words["before"] or words["after"]
    elif match := _YEAR_FIRST.match(text):
        year, _, month, day = match.groups()
    elif found := _YEAR.search(text):
        year = found[0]
    if year is None or not _YEAR.fullmatch(year):
        raise ImpossibleDate
    if month is None:
        return year
    if not 1 <= int(month) <= 12:
        raise ImpossibleDate(year)
    readable = f"{year}-{int(month):02d}"
    if day is None:
        return readable
    try:
        return date(int(year), int(month), int(day)).isoformat()
    except ValueError:
        raise ImpossibleDate(readable) from None


def metadata_of(record: Mapping[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
    """The metadata of a JSON object, None for none, and the names of its invalid entries.

    The object and its ``metadata``, as in BEIR, are searched for `KEYS`. A text is accepted for a list of one text, and
    a ``year`` for a ``date``; the time of day is dropped, and of an impossible date the possible part is kept. A
    ``pmid`` or a ``doi`` wins over a ``url``, unless that is a page at PubMed: identifiers outlive addresses.
    """
    values = dict(_entries(record))
    if isinstance(inner := record.get("metadata"), dict):
        values |= _entries(inner)
    journal = values.get("journal")
    while isinstance(journal, dict):  # Europe PMC has the issue in it, and the journal in that
        values = {name: value for name, value in _entries(journal) if name in ("volume", "issue", "issn")} | values
        if "isoabbreviation" in journal and "title" in journal:
            values.setdefault("full_journal_title", journal["title"])
        journal = journal.get("journal")
    usable: dict[str, Any] = {}
    unusable: list[str] = []
    year, pmid = values.pop("year", None), values.pop("pmid", None)
    for name, value in ("date", values.pop("date", None)), ("date", year), *sorted(values.items()):
        if name in usable or value is None:
            continue
        try:
            if (value := _value(name, value)) not in ("", []):
                usable[name] = value
        except ImpossibleDate as error:
            unusable.append(name)
            if error.readable:
                usable[name] = error.readable
        except ValueError:
            unusable.append(name)
    pmid = whole_number(pmid, of_pubmed=True)
    if address := pubmed_address(pmid) if type(pmid) is str else None:
        usable["url"] = address
    elif (doi := usable.get("doi")) and not AT_PUBMED.fullmatch(usable.get("url", "")):
        usable["url"] = f"https://doi.org/{quote(doi, errors='replace')}"
    if address or "doi" in usable:  # the address of the record is not needed
        unusable = [name for name in unusable if name != "url"]
    return usable or None, unusable


def is_empty(value: Any) -> bool:
    """Whether a value holds nothing: null, a blank string, one of `NOTHING`, or a list or an object of nothing else."""
    if type(value) is str:  # nearly always, and fast
        return not value or value.isspace() or value in NOTHING
    values = [value]
    while values:
        value = values.pop()
        if isinstance(value, (list, dict)):
            values.extend(value.values() if isinstance(value, dict) else value)
        elif value is not None and not (isinstance(value, str) and (not value.strip() or value in NOTHING)):
            return False
    return True


def whole_number(value: Any, of_pubmed: bool = False) -> Any:
    """The digits of a whole number as an id, ``31000001`` of 31000001.0, as pandas writes ids where some are missing.

    Other values are left as they are, also short strings such as "1.0", unless they are of PubMed.
    """
    if type(value) is str and (_FLOAT.fullmatch(value) if of_pubmed else _LONG_FLOAT.fullmatch(value)):
        number = float(value)
        return str(int(number)) if number.is_integer() and number < 2**53 else value
    if type(value) is float and value.is_integer() and 0 <= value < 2**53:
        return str(int(value))
    return str(value) if type(value) is int else value


def folded_key(key: str) -> str:
    """A key without letter case and punctuation: ``pubdate`` for ``PubDate`` and ``pub_date``."""
    return re.sub("[^a-z0-9]", "", key.lower())


def _entries(record: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The name and the value of each entry: the first of its keys that is not empty."""
    for name, keys in _keys(tuple(record)):
        for key in keys:
            if not is_empty(value := record[key]):
                yield name, value
                break


@lru_cache(maxsize=1024)
def _keys(keys: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    """The entries among the keys of a record, each with its keys."""
    by_folded: dict[str, list[str]] = {}
    for key in keys:
        by_folded.setdefault(folded_key(key), []).append(key)
    found = (
        (name, [key for alias in aliases.split() for key in by_folded.get(alias, ())]) for name, aliases in KEYS.items()
    )
    return [(name, of_name) for name, of_name in found if of_name]


def pubmed_address(pmid: str) -> str | None:
    """The page of an article at PubMed; None for an invalid PMID."""
    return PUBMED.format(pmid) if PMID.fullmatch(pmid) else None


def _value(name: str, value: Any) -> Any:
    """The value in the form of its entry; a ValueError if it is invalid."""
    if name == "retracted":
        value = {"true": True, "false": False}.get(str(value).lower(), value)
        if not isinstance(value, bool):
            raise ValueError
        return value
    if name == PMID_VERSION:
        if not (number := str(value)).isdecimal() or number[0] == "0":
            raise ValueError
        return int(number)
    if name in LISTS:
        return [text for part in _parts(name, value) if (text := _text(part))]
    if name in ("date", "entry_date", "create_date", "electronic_date"):
        return _date(value)
    if name == "journal" and isinstance(value, dict):
        value = value.get("journal", value)
        value = (
            _of(value, "isoabbreviation", "medlineabbreviation", "title", "name") if isinstance(value, dict) else value
        )
    if name in ("volume", "issue", "pages") and type(value) in (int, float):
        value = whole_number(value)
    if name in STORED_ONLY and isinstance(value, (list, dict)):
        value = next((part for part in _parts(name, value) if not is_empty(part)), "")
    text = _text(value, LONG.get(name, LONGEST))
    if name == "pmc" and text:
        if (match := PMC.fullmatch(text)) is None:
            raise ValueError
        text = f"PMC{match[1]}"
    if name == "url" and text:
        text = text.replace(" ", "")  # some addresses of NFCorpus have spaces
        if not ADDRESS.fullmatch(text):
            raise ValueError
    if name == "doi" and text:
        if (match := DOI.search(text)) is None:
            raise ValueError
        text = match[0]
    return text


def _date(value: Any) -> str:
    if isinstance(value, dict):
        value = [_of(value, name) for name in ("year", "month", "day")]
    if isinstance(value, list):
        if not (parts := [str(part) for part in value if part]):
            raise ImpossibleDate
        value = ("-" if all(map(str.isdecimal, parts)) else " ").join(parts)
    if type(value) is float and value.is_integer():
        value = int(value)
    text = str(value) if type(value) is int else _text(value)
    return read_date(text) if text else ""


def _parts(name: str, value: Any) -> Iterator[Any]:
    """The texts of a list: of strings or objects, of an object that holds the list, or of one string."""
    if isinstance(value, dict):
        lists = [inner for inner in value.values() if isinstance(inner, list)]
        value = lists[0] if len(lists) == 1 else [value]
    if isinstance(value, str):
        value = (BETWEEN_NOTICES if name == "notices" else SEPARATED).split(value)
        names = value[0].rstrip(".").split(", ") if len(value) == 1 else []
        if name == "authors" and all(map(INITIALS.search, names)):  # "Doe J, Roe A." of Europe PMC
            value = names or value
        elif name == "keywords" and len(value) == 1:
            value = value[0].split(", ")
    for part in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(part, dict):
            surname = _of(part, *SURNAMES)
            part = (
                f"{surname} {_of(part, *GIVEN) or ''}" if surname and not _of(part, "fullname") else _of(part, *PARTS)
            )
        if name == "authors" and isinstance(part, str) and "|" in part:  # pubmed_parser's surname|forename|initials|id
            surname, *given = part.split("|")
            part = f"{surname} {given[1] if given[1:] else given[0]}"
        elif name in ("mesh", "types", "chemicals") and isinstance(part, str):
            part = UNIQUE_ID.sub("", part, count=1)
            part = part.partition("/")[0].replace("*", "") if name == "mesh" else part  # without qualifiers
        yield part


def _of(record: dict, *names: str) -> Any:
    """The first value of an object under these folded keys that is not empty, or None."""
    folded = {folded_key(key): value for key, value in record.items()}
    return next((folded[name] for name in names if not is_empty(folded.get(name))), None)


def _text(value: Any, longest: int = LONGEST) -> str:
    """A text with single spaces; a ValueError if it is not a string or longer than ``longest``."""
    if not isinstance(value, str) or len(value) > longest:
        raise ValueError
    return " ".join(value.encode(errors="replace").decode().split())
