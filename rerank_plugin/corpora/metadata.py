"""Metadata of documents, brought into the form of :mod:`rerank_plugin.files.filters`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rerank_plugin.files.filters import FILTERS, LISTS

NAMES = frozenset(FILTERS.values())
LONGEST = 1000  # characters of a text
DATE = re.compile(r"[0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?(?![0-9])")


def metadata_of(record: Mapping[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
    """The metadata of a JSON object, and the names of those that cannot be used.

    They are looked up in the object and in its ``metadata``, as BEIR has it. A text may stand for a list of one text,
    and a ``year`` for a ``date``; the time of day is cut off.
    """
    found = {name: record[name] for name in NAMES & record.keys()}
    if isinstance(inner := record.get("metadata"), dict):
        found |= {name: inner[name] for name in (NAMES | {"year"}) & inner.keys()}
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
    return _text(given)


def _text(given: Any) -> str:
    """A text with single spaces; a ValueError for what is none, or longer than `LONGEST`."""
    if not isinstance(given, str) or len(given) > LONGEST:
        raise ValueError
    return " ".join(given.encode(errors="replace").decode().split())
