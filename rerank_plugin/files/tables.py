"""Rows of cells as text, the first row being the header."""

from __future__ import annotations

from collections.abc import Sequence

Rows = Sequence[Sequence[str]]


def markdown(rows: Rows, texts: int = 1) -> str:
    """A Markdown table, the first ``texts`` columns to the left and the others, of numbers, to the right."""
    header, *body = ([cell.strip().replace("|", "\\|") for cell in row] for row in rows)
    rule = ["---"] * texts + ["---:"] * (len(header) - texts)
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
