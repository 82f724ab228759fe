"""Rows of results: what is written as JSON and the report and the plots read."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from rerank_plugin.benchmark.measuring import Timings
from rerank_plugin.files.outputs import FileKind, beginning, replacing

PLAIN, FAST = "plain", "fast"
SCORING, WHOLE, CROSS_ENCODER, DENSE = "scoring", "whole query", "cross-encoder", "dense search"


@dataclass(frozen=True)
class Measurement:
    """One measurement. Times in milliseconds are those of a call, which answers ``batch`` queries.

    Attributes:
        path: plain (the module as it is written down) or fast. Of cross-encoders: float32 through transformers is
            plain, int8 through ONNX Runtime fast.
        depth: candidates asked for. candidates: those that there were, on average.
        queries_per_second: of all repetitions together.
        ratio_to_plain: how many times faster than the plain path, by the medians.
        stage: what was timed: scoring (gather, features, model), whole query, cross-encoder, or dense search.
        stages: of a whole query, the median milliseconds of its parts.
        measured_queries: of a batch, the queries that were timed; the times are those of the whole batch.
        measured_documents: of the candidates, those that were timed; the times are those of all candidates.
        document_batch: candidates that a cross-encoder scores at once.
        largest_difference: between the paths' scores, divided by the largest plain score.
        machine: the same in every row.
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
    measured_documents: int | None = None
    document_batch: int | None = None
    largest_difference: float | None = None
    precision: str | None = None

    def as_json(self) -> dict:
        """Keys and values of what is known, numbers rounded to what a clock can tell."""
        return {key: _rounded(value) for key, value in asdict(self).items() if value is not None}


def latencies(timings: Timings, plain: Timings, batch: int) -> dict[str, float]:
    """The columns of a row that follow from the repetitions' times."""
    milliseconds = timings.seconds * 1000
    median, p95, p99 = np.percentile(milliseconds, [50, 95, 99])
    return {
        "median_ms": float(median),
        "p95_ms": float(p95),
        "p99_ms": float(p99),
        "mean_ms": float(milliseconds.mean()),
        "queries_per_second": batch * len(milliseconds) / float(timings.seconds.sum()),
        "ratio_to_plain": float(np.median(plain.seconds) / np.median(timings.seconds)),
        "peak_memory_mb": timings.peak_memory_mb,
        "repetitions": len(milliseconds),
    }


ROWS = FileKind("a list of measured rows", lambda path: beginning(path).startswith(b'[\n{"reranker"'))
TABLE = FileKind(
    "a table that this command wrote", lambda path: beginning(path).startswith(b"`python -m rerank_plugin.bench")
)


def write_json(rows: list[Measurement], path: Path, overwrite: bool = False) -> None:
    """A JSON list with one row a line."""
    lines = ",\n".join(json.dumps(row.as_json(), ensure_ascii=False) for row in rows)
    with replacing(path, ROWS, overwrite) as file:
        file.write(f"[\n{lines}\n]\n".encode())


def _rounded(value):
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return value
