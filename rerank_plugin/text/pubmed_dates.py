"""Dates of PubMed's language in the form of metadata: ``2015/03/02``, ``present``, ``last 5 years``."""

from __future__ import annotations

import re
from datetime import date

from rerank_plugin.text.pubmed_tokens import Token, fault

_DATE = re.compile(r"(\d{4})(?:[/-](\d{1,2})(?:[/-](\d{1,2}))?)?", re.ASCII)
_LAST = re.compile(r"(?:published )?last (\d{1,4}) (day|week|month|year)s?", re.IGNORECASE)
_DAYS = {"day": 1, "week": 7, "month": 30.44, "year": 365.25}
_NO_END = "3000"  # PubMed's last year


def last_dates(text: str) -> list[str] | None:
    """The first and the last date of ``last 5 years``, as PubMed counts them: up to now, and what is announced."""
    if (match := _LAST.fullmatch(text)) is None:
        return None
    first = date.today().toordinal() - round(int(match[1]) * _DAYS[match[2].lower()])
    return [date.fromordinal(max(1, first)).isoformat(), _NO_END]


def read_date(text: str, token: Token) -> str:
    """A date of PubMed, ``2015/03/02`` or ``present``, in the form of metadata."""
    match = _DATE.fullmatch(_NO_END if text.lower() == "present" else text)
    try:
        if match is None:
            raise ValueError(text)
        date(int(match[1]), int(match[2] or 1), int(match[3] or 1))  # 2025/02/30 is none
    except ValueError:
        raise fault(token, f"'{text:.40}' is no date", "write it as 2015, 2015/03 or 2015/03/02") from None
    return "-".join(part.zfill(2) for part in match.groups() if part)
