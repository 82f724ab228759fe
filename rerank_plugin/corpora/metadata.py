"""Metadata of documents, brought into the form of :mod:`rerank_plugin.files.filters`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rerank_plugin.files.filters import FILTERS, LISTS

NAMES = frozenset(FILTERS.values())
LONGEST = 1000  # characters of a text
DATE = re.compile(r"\d{4}(-\d\d(-\d\d)?)?(?!\d)")


def metadata_of(record: Mapping[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
    """The metadata of a JSON object, and the names of those that cannot be used.

    They are looked up in the object and in its ``metadata``, as BEIR has it. A text stands for a list of one text, a
    ``year`` for a ``date``, and of a date with more than a day the day is kept.
    """
    found = {name: record[name] for name in NAMES & record.keys()}
    if isinstance(inner := record.get("metadata"), dict):
        found |= {name: inner[name] for name in (NAMES | {"year"}) & inner.keys()}
    if "date" not in found and (year := found.pop("year", record.get("year"))) is not None:
        found["date"] = year
    usable, unusable = {}, []
    for name in sorted(found):
        if found[name] not in (None, "", []):
            try:
                usable[name] = _value(name, found[name])
            except ValueError:
                unusable.append(name)
    return usable or None, unusable


def _value(name: str, given: Any) -> Any:
    """The value in its form; a ValueError where it has none."""
    if name == "retracted":
        if not isinstance(given, bool):
            raise ValueError
        return given
    if name in LISTS:
        return [text_value(one) for one in (given if isinstance(given, (list, tuple)) else [given])]
    if name == "date":
        found = DATE.match(str(given) if type(given) is int else text_value(given))
        if found is None:
            raise ValueError
        return found[0]
    return text_value(given)


def text_value(given: Any) -> str:
    """A text with single spaces; a ValueError for what is none, or longer than `LONGEST`."""
    if not isinstance(given, str) or len(given) > LONGEST:
        raise ValueError
    return " ".join(given.encode(errors="replace").decode().split())
