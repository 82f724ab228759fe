"""Metadata of documents, converted to the form of :mod:`rerank_plugin.base.filters`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from rerank_plugin.base.filters import FILTERS, LISTS, STORED_ONLY

NAMES = frozenset((*FILTERS.values(), *STORED_ONLY))
LONGEST = 1000  # characters of a text
DATE = re.compile(r"[0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?(?![0-9])")
PMID, DOI = re.compile("[1-9][0-9]{0,8}"), re.compile(r"10\.[0-9]{4,9}/\S+")
ADDRESS = re.compile(r"https?://[^\s/]\S*", re.IGNORECASE)
PUBMED = "https://pubmed.ncbi.nlm.nih.gov/{}/"


def metadata_of(record: Mapping[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
    """The metadata of a JSON object, None for none, and the names of its invalid entries.

    The object and its ``metadata``, as in BEIR, are searched. A text is accepted for a list of one text, and a ``year``
    for a ``date``; the time of day is dropped. A ``pmid`` or a ``doi`` wins over a ``url``: identifiers outlive
    addresses.
    """
    values = {name: record[name] for name in NAMES & record.keys()}
    if isinstance(inner := record.get("metadata"), dict):
        values |= {name: inner[name] for name in (NAMES | {"year"}) & inner.keys()}
    else:
        inner = {}
    if (address := _address(inner) or _address(record)) is not None:
        values["url"] = address
    if "date" not in values and (year := values.pop("year", record.get("year"))) is not None:
        values["date"] = year
    usable, unusable = {}, []
    for name in sorted(values):
        try:
            if values[name] is not None and (value := _value(name, values[name])) not in ("", []):
                usable[name] = value
        except ValueError:
            unusable.append(name)
    return usable or None, unusable


def pubmed_address(pmid: str) -> str | None:
    """The page of an article at PubMed; None for an invalid PMID."""
    return PUBMED.format(pmid) if PMID.fullmatch(pmid) else None


def _address(record: Mapping[str, Any]) -> str | None:
    """The address of a record's ``pmid`` or else its ``doi``; None without either."""
    if address := pubmed_address(str(record.get("pmid", ""))):
        return address
    doi = record.get("doi")
    match = DOI.search(doi) if isinstance(doi, str) else None
    return None if match is None else f"https://doi.org/{quote(match[0], errors='replace')}"


def _value(name: str, value: Any) -> Any:
    """The value in the form of its entry; a ValueError if it is invalid."""
    if name == "retracted":
        if not isinstance(value, bool):
            raise ValueError
        return value
    if name in LISTS:
        texts = map(_text, value if isinstance(value, (list, tuple)) else [value])
        return [text for text in texts if text]
    if name == "date" and (text := str(value) if type(value) is int else _text(value)):
        if (match := DATE.match(text)) is None:
            raise ValueError
        return match[0]
    text = _text(value)
    if name == "url" and text:
        text = text.replace(" ", "")  # some addresses of NFCorpus have spaces
        if not ADDRESS.fullmatch(text):
            raise ValueError
    return text


def _text(value: Any) -> str:
    """A text with single spaces; a ValueError if it is not a string or longer than `LONGEST`."""
    if not isinstance(value, str) or len(value) > LONGEST:
        raise ValueError
    return " ".join(value.encode(errors="replace").decode().split())
