"""Tables, whose first row is the header, and reports of tables: text, Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

Rows = Sequence[Sequence[Any]]
FORMATS = ("table", "markdown", "csv", "json")  # of a report


class Table(NamedTuple):
    """Rows of strings; the first ``texts`` columns are left-aligned, the others (numbers) right-aligned."""

    rows: Rows
    texts: int = 1


class Report(NamedTuple):
    """The results of a command, for every output format."""

    parts: Sequence[Table | str]  # tables and paragraphs, each ending with a newline
    values: Any = None  # JSON values
    records: Rows = ()  # rows of unrounded numbers, for CSV

    def text(self, format: str) -> str:
        """The report in one of `FORMATS`; a ``table`` is aligned for a terminal."""
        if format == "json":
            return json.dumps(self.values, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        if format == "csv":
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(self.records)
            return text.getvalue()
        draw = {"table": aligned, "markdown": markdown}[format]
        return "\n".join(part if isinstance(part, str) else draw(*part) for part in self.parts)


def markdown(rows: Rows, texts: int = 1) -> str:
    """A Markdown table; the first ``texts`` columns are left-aligned, the others (numbers) right-aligned."""
    header, *body = ([cell.strip().replace("|", "\\|") for cell in row] for row in rows)
    rule = ["---"] * texts + ["---:"] * (len(header) - texts)
    return "".join(f"| {' | '.join(row)} |\n" for row in [header, rule, *body])


def padded_markdown(rows: Rows) -> str:
    """A Markdown table whose columns, all left-aligned, also line up as plain text."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    header, *body = ([cell.ljust(width) for cell, width in zip(row, widths)] for row in rows)
    rule = ["-" * width for width in widths]
    return "".join(f"| {' | '.join(row)} |\n" for row in [header, rule, *body])


def aligned(rows: Rows, texts: int = 1) -> str:
    """A table for a terminal; the first ``texts`` columns are left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "".join(
        "  ".join(
            cell.ljust(width) if column < texts else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        + "\n"
        for row in rows
    )


def finite_or_none(value: float) -> float | None:
    """A number for JSON: None for NaN and infinity, which JSON lacks."""
    return value if math.isfinite(value) else None
