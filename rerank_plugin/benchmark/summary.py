"""The results as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rerank_plugin.benchmark.rows import CROSS_ENCODER, DENSE, SCORING, WHOLE, Measurement

HEADINGS = {
    SCORING: "Scoring alone (gather, features, model)",
    WHOLE: "The whole query (first stage, gather, features, model, sorting)",
    DENSE: "Dense search over all documents (encoding the query, inner products, the best of them)",
    CROSS_ENCODER: "Cross-encoders (model alone; plain: float32 through transformers, fast: int8 through ONNX Runtime)",
}

Column = tuple[str, Callable[[Measurement], str]]

_WHAT: list[Column] = [
    ("reranker", lambda row: row.reranker),
    ("path", lambda row: row.path),
    ("documents", lambda row: f"{row.documents:,}"),
    ("depth", lambda row: depth(row)),
]
_TIMES: list[Column] = [
    ("median ms", lambda row: number(row.median_ms)),
    ("p95 ms", lambda row: number(row.p95_ms)),
    ("p99 ms", lambda row: number(row.p99_ms)),
    ("queries/s", lambda row: number(row.queries_per_second)),
    ("times plain", lambda row: number(row.ratio_to_plain)),
    ("peak MB", lambda row: f"{row.peak_memory_mb:,.0f}"),
    ("repetitions", lambda row: f"{row.repetitions}"),
]
_DIFFERENCE: Column = (
    "difference",
    lambda row: "" if row.largest_difference is None else f"{row.largest_difference:.0e}",
)
_BATCH: Column = ("batch", lambda row: f"{row.batch}")
_STAGES: Column = ("share of the time", lambda row: shares(row.stages))
_AT_ONCE: Column = ("documents at once", lambda row: f"{row.document_batch}")
_TIMED: Column = ("timed", lambda row: f"{row.measured_documents or row.depth} of {row.depth}")

COLUMNS = {
    SCORING: [*_WHAT, _BATCH, *_TIMES, _DIFFERENCE],
    WHOLE: [*_WHAT, _BATCH, *_TIMES, _STAGES],
    DENSE: [*_WHAT, *_TIMES, _DIFFERENCE],
    CROSS_ENCODER: [*_WHAT, _AT_ONCE, _TIMED, *_TIMES],
}


def markdown(rows: Sequence[Measurement], command: str) -> str:
    """A table for each stage that was measured, under the command and the machine."""
    parts = [f"`{command}`", f"{rows[0].machine}.", _notes(rows)]
    for stage, heading in HEADINGS.items():
        of_stage = [row for row in rows if row.stage == stage]
        if of_stage:
            parts += [f"### {heading}", table(COLUMNS[stage], of_stage)]
    return "\n\n".join(parts) + "\n"


def _notes(rows: Sequence[Measurement]) -> str:
    collections = ", ".join(dict.fromkeys(row.collection for row in rows))
    sources = ", ".join(dict.fromkeys(row.candidate_source for row in rows))
    notes = [
        f"Device {rows[0].device}, threads: {rows[0].threads}. Collections: {collections}. Candidates: {sources}.",
        "Times are those of a batch. 'peak MB' is all that the process held: libraries, both paths, touched pages of "
        "the index, Java (on a GPU: what was allocated there).",
        "'times plain' compares medians with the plain path in the same process; 'difference' is the largest one "
        "between the paths' scores, relative to the largest score.",
    ]
    if any(row.measured_queries for row in rows):
        notes.append("Slow paths were timed on a part of a batch's queries, and the times brought to the whole batch.")
    if any(row.measured_documents for row in rows):
        notes.append("Cross-encoders were timed on a part of the candidates, and the times brought to all of them.")
    return " ".join(notes)


def table(columns: Sequence[Column], rows: Iterable[Measurement]) -> str:
    """A Markdown table whose columns also line up as plain text."""
    cells = [[name for name, _ in columns]] + [[show(row) for _, show in columns] for row in rows]
    widths = [max(len(line[place]) for line in cells) for place in range(len(columns))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in cells]
    return "\n".join([lines[0], "| " + " | ".join("-" * width for width in widths) + " |", *lines[1:]])


def depth(row: Measurement) -> str:
    """The depth, and how many candidates there were on average where it was not reached."""
    return f"{row.depth:,}" if row.candidates == row.depth else f"{row.depth:,} ({row.candidates:,.0f} found)"


def shares(stages: dict[str, float] | None) -> str:
    """What each stage takes of the whole: 'first stage 61%, model 30%'."""
    if not stages:
        return ""
    total = max(sum(stages.values()), 1e-12)
    return ", ".join(f"{name} {100 * part / total:.0f}%" for name, part in stages.items())


def number(value: float) -> str:
    """A number with about three significant digits, without an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"
