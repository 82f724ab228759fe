"""Tables of cells, the first row being the header, and reports made of them: text, Markdown, CSV and JSON."""

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
    """Rows of texts; the first ``texts`` columns are to the left, the others, of numbers, to the right."""

    rows: Rows
    texts: int = 1


class Report(NamedTuple):
    """What a command says."""

    parts: Sequence[Table | str]  # tables and paragraphs, each of which ends with a newline
    values: Any = None  # the same for programs, of what JSON knows
    records: Rows = ()  # rows with full digits, for CSV

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
    """A Markdown table, the first ``texts`` columns to the left and the others, of numbers, to the right."""
    header, *body = ([cell.strip().replace("|", "\\|") for cell in row] for row in rows)
    rule = ["---"] * texts + ["---:"] * (len(header) - texts)
    return "".join(f"| {' | '.join(row)} |\n" for row in [header, rule, *body])


def padded_markdown(rows: Rows) -> str:
    """A Markdown table whose columns, all to the left, also line up as plain text."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    header, *body = ([cell.ljust(width) for cell, width in zip(row, widths)] for row in rows)
    rule = ["-" * width for width in widths]
    return "".join(f"| {' | '.join(row)} |\n" for row in [header, rule, *body])


def aligned(rows: Rows, texts: int = 1) -> str:
    """Columns under one another for a terminal, the first ``texts`` to the left."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "".join(
        "  ".join(
            cell.ljust(width) if at < texts else cell.rjust(width) for at, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        + "\n"
        for row in rows
    )


def known(value: float) -> float | None:
    """A number for JSON, which knows neither NaN nor infinity: None instead."""
    return value if math.isfinite(value) else None
