"""Rows of results, as JSON for programs and as Markdown for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rerank_plugin.benchmark.measuring import Timings
from rerank_plugin.files.outputs import FileKind, beginning, replacing
from rerank_plugin.files.tables import padded_markdown

PLAIN, FAST = "plain", "fast"
LIBRARY, OVER_HTTP = "library", "HTTP"
SCORING, WHOLE, DENSE, TEXTS, SERVICE = "scoring", "whole query", "dense search", "texts", "service"


@dataclass(frozen=True)
class Measurement:
    """One measurement. Times are milliseconds of a call, which answers ``batch`` queries.

    Attributes:
        path: plain (the module) or fast. For the service: library (without HTTP) or HTTP.
        depth: requested candidates.
        candidates: mean number of candidates.
        queries_per_second: over all repetitions.
        ratio_to_plain: speed-up over the plain path, by medians; for the service, over the library.
        stage: the timed work: scoring (gather, features, model), whole query, dense search, texts without an index, or
            the service.
        stages: median milliseconds of the parts of a whole query.
        measured_queries: number of timed queries of a batch; the times are scaled to the whole batch.
        largest_difference: between the paths' scores, divided by the largest plain score.
        machine: the same in every row.
        rate: requests per second that the service received.
        clients: concurrent clients of the service.
        refused, late: shares of the requests with status 429, and of those past the deadline, in first-stage order.
        errors: numbers of other failed requests, by status or kind of error.
        memory_before_mb: memory of the service before the requests; ``peak_memory_mb`` is its memory after them.
    """

    reranker: str
    path: str
    device: str
    threads: int
    depth: int
    batch: int
    median_ms: float
    p95_ms: float
    p99_ms: float
    queries_per_second: float
    ratio_to_plain: float
    peak_memory_mb: float
    stage: str
    mean_ms: float
    repetitions: int
    collection: str
    documents: int
    candidates: float
    candidate_source: str
    machine: str
    stages: dict[str, float] | None = None
    measured_queries: int | None = None
    largest_difference: float | None = None
    precision: str | None = None
    rate: float | None = None
    clients: int | None = None
    refused: float | None = None
    refused_p99_ms: float | None = None
    late: float | None = None
    errors: dict[str, int] | None = None
    memory_before_mb: float | None = None

    def as_json(self) -> dict:
        """The known values, with numbers rounded to the precision of a clock."""
        return {key: _rounded(value) for key, value in asdict(self).items() if value is not None}


def measurements(
    stage: str, timings: Mapping[str, Timings], batch: int, columns: Callable[[str], Mapping[str, Any]]
) -> list[Measurement]:
    """A row per path, of calls that answer ``batch`` queries; the first path is the baseline of the ratios.

    Args:
        columns: gives the columns of a path that do not depend on the clock.
    """
    first = next(iter(timings.values()))
    return [
        Measurement(stage=stage, path=path, batch=batch, **columns(path), **latencies(timing, first, batch))
        for path, timing in timings.items()
    ]


def latencies(timings: Timings, baseline: Timings, batch: int) -> dict[str, Any]:
    """The columns of a row that depend on the clock: its own timings and those of the baseline path."""
    milliseconds = timings.seconds * 1000
    median, p95, p99 = np.percentile(milliseconds, [50, 95, 99])
    return {
        "median_ms": float(median),
        "p95_ms": float(p95),
        "p99_ms": float(p99),
        "mean_ms": float(milliseconds.mean()),
        "queries_per_second": batch * len(milliseconds) / float(timings.seconds.sum()),
        "ratio_to_plain": float(np.median(baseline.seconds) / np.median(timings.seconds)),
        "peak_memory_mb": timings.peak_memory_mb,
        "repetitions": len(milliseconds),
    }


ROWS = FileKind("a list of measured rows", lambda path: beginning(path).startswith(b'[\n{"reranker"'))
BENCH = (b"`rerank-plugin bench", b"`python -m rerank_plugin.bench")  # the second in tables of older versions
TABLE = FileKind("a table of bench", lambda path: beginning(path).startswith(BENCH))


def write_json(rows: list[Measurement], path: Path, overwrite: bool = False) -> None:
    """Write a JSON list with one row per line."""
    lines = ",\n".join(json.dumps(row.as_json(), ensure_ascii=False) for row in rows)
    with replacing(path, ROWS, overwrite) as file:
        file.write(f"[\n{lines}\n]\n".encode())


def _rounded(value):
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return value


HEADINGS = {
    SCORING: "Scoring alone (gather, features, model)",
    WHOLE: "The whole query (first stage, gather, features, model, sorting)",
    TEXTS: "Texts without an index (tokenizing, BM25, features, model, sorting; other texts in every call)",
    DENSE: "Dense search over all documents (encoding the query, inner products, the best of them)",
    SERVICE: "The service (documents of the hits included; library: without HTTP; clients on the same machine)",
}

_COLUMNS: dict[str, Callable[[Measurement], str]] = {
    "reranker": lambda row: row.reranker,
    "path": lambda row: row.path,
    "documents": lambda row: f"{row.documents:,}",
    "depth": lambda row: depth(row),
    "batch": lambda row: f"{row.batch}",
    "median ms": lambda row: number(row.median_ms),
    "p95 ms": lambda row: number(row.p95_ms),
    "p99 ms": lambda row: number(row.p99_ms),
    "queries/s": lambda row: number(row.queries_per_second),
    "times plain": lambda row: number(row.ratio_to_plain),
    "peak MB": lambda row: f"{row.peak_memory_mb:,.0f}",
    "repetitions": lambda row: f"{row.repetitions}",
    "difference": lambda row: "" if row.largest_difference is None else f"{row.largest_difference:.0e}",
    "share of the time": lambda row: shares(row.stages),
    "requests/s": lambda row: "" if row.rate is None else number(row.rate),
    "clients": lambda row: "" if row.clients is None else f"{row.clients}",
    "refused": lambda row: _share(row.refused),
    "refused p99 ms": lambda row: "" if row.refused_p99_ms is None else number(row.refused_p99_ms),
    "late": lambda row: _share(row.late),
    "errors": lambda row: ", ".join(f"{count} of {kind}" for kind, count in (row.errors or {}).items()),
    "MB before": lambda row: "" if row.memory_before_mb is None else f"{row.memory_before_mb:,.0f}",
}
_ONLY_OF = {  # columns that only some stages have
    "batch": (SCORING, WHOLE),
    "difference": (SCORING, DENSE),
    "share of the time": (WHOLE,),
    **dict.fromkeys(("requests/s", "clients", "refused", "refused p99 ms", "late", "errors", "MB before"), (SERVICE,)),
}


def markdown(rows: Sequence[Measurement], command: str) -> str:
    """A table per measured stage, below the command and the machine."""
    parts = [f"`{command}`", f"{rows[0].machine}.", _notes(rows)]
    for stage, heading in HEADINGS.items():
        of_stage = [row for row in rows if row.stage == stage]
        if of_stage:
            columns = {name: cell for name, cell in _COLUMNS.items() if stage in _ONLY_OF.get(name, (stage,))}
            cells = [[cell(row) for cell in columns.values()] for row in of_stage]
            parts += [f"### {heading}", padded_markdown([list(columns), *cells]).rstrip("\n")]
    return "\n\n".join(parts) + "\n"


def _notes(rows: Sequence[Measurement]) -> str:
    collections = ", ".join(dict.fromkeys(row.collection for row in rows))
    sources = ", ".join(dict.fromkeys(row.candidate_source for row in rows))
    notes = [
        f"Device {rows[0].device}, threads: {rows[0].threads}. Collections: {collections}. Candidates: {sources}.",
        "Times are those of a batch. 'peak MB' is the memory of the process: libraries, both paths, touched pages of "
        "the index, Java (on a GPU: the allocated memory).",
        "'times plain' compares medians with the plain path in the same process; 'difference' is the largest "
        "difference of the paths' scores, relative to the largest score.",
    ]
    if any(row.measured_queries for row in rows):
        notes.append("Slow paths were timed on a part of a batch's queries, and the times scaled to the whole batch.")
    return " ".join(notes)


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}%"


def depth(row: Measurement) -> str:
    """The depth, with the mean number of candidates if it differs."""
    return f"{row.depth:,}" if row.candidates == row.depth else f"{row.depth:,} ({row.candidates:,.0f} found)"


def shares(stages: dict[str, float] | None) -> str:
    """The share of each stage in the whole time: 'first stage 61%, model 30%'."""
    if not stages:
        return ""
    total = max(sum(stages.values()), 1e-12)
    return ", ".join(f"{name} {100 * part / total:.0f}%" for name, part in stages.items())


def number(value: float) -> str:
    """A number with about three significant digits, without an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"
