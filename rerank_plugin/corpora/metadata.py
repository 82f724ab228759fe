"""Metadata of documents, brought into the form of :mod:`rerank_plugin.base.filters`."""

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
    """The metadata of a JSON object, and the names of those that cannot be used.

    They are looked up in the object and in its ``metadata``, as BEIR has it. A text may stand for a list of one text,
    and a ``year`` for a ``date``; the time of day is cut off. A ``pmid`` or a ``doi`` comes before a ``url``, as they
    stay when addresses change.
    """
    found = {name: record[name] for name in NAMES & record.keys()}
    if isinstance(inner := record.get("metadata"), dict):
        found |= {name: inner[name] for name in (NAMES | {"year"}) & inner.keys()}
    else:
        inner = {}
    if (address := _address(inner) or _address(record)) is not None:
        found["url"] = address
    if "date" not in found and (year := found.pop("year", record.get("year"))) is not None:
        found["date"] = year
    usable, unusable = {}, []
    for name in sorted(found):
        try:
            if found[name] is not None and (value := _value(name, found[name])) not in ("", []):
                usable[name] = value
        except ValueError:
            unusable.append(name)
    return usable or None, unusable


def pubmed_address(pmid: str) -> str | None:
    """The page of an article at PubMed; None for what is no PMID."""
    return PUBMED.format(pmid) if PMID.fullmatch(pmid) else None


def _address(record: Mapping[str, Any]) -> str | None:
    """The address that the ``pmid`` or the ``doi`` of a record stands for; None where it has neither."""
    if address := pubmed_address(str(record.get("pmid", ""))):
        return address
    doi = record.get("doi")
    found = DOI.search(doi) if isinstance(doi, str) else None
    return None if found is None else f"https://doi.org/{quote(found[0], errors='replace')}"


def _value(name: str, given: Any) -> Any:
    """The value in its form; a ValueError where it has none."""
    if name == "retracted":
        if not isinstance(given, bool):
            raise ValueError
        return given
    if name in LISTS:
        texts = map(_text, given if isinstance(given, (list, tuple)) else [given])
        return [text for text in texts if text]
    if name == "date" and (text := str(given) if type(given) is int else _text(given)):
        if (found := DATE.match(text)) is None:
            raise ValueError
        return found[0]
    text = _text(given)
    if name == "url" and text:
        text = text.replace(" ", "")  # which no address has, but some of NFCorpus
        if not ADDRESS.fullmatch(text):
            raise ValueError
    return text


def _text(given: Any) -> str:
    """A text with single spaces; a ValueError for what is none, or longer than `LONGEST`."""
    if not isinstance(given, str) or len(given) > LONGEST:
        raise ValueError
    return " ".join(given.encode(errors="replace").decode().split())
