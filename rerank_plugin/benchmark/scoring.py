"""Scoring alone: candidates are there as rows; what is timed gathers their words, makes features and scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rerank_plugin import rerankers
from rerank_plugin.benchmark.collection import Collection
from rerank_plugin.benchmark.measuring import Case, Meter
from rerank_plugin.benchmark.rows import FAST, PLAIN, SCORING, Measurement, measurements
from rerank_plugin.benchmark.subjects import Subject

T = TypeVar("T")


@dataclass(frozen=True)
class Setup:
    """What all rows of a run have in common."""

    meter: Meter
    device: str
    threads: int
    machine: str
    precision: str = "float32"

    def columns(self, collection: Collection, depth: int) -> dict:
        """The columns that all rows of a collection and depth share."""
        return {
            "device": self.device,
            "threads": self.threads,
            "depth": depth,
            "collection": collection.name,
            "documents": len(collection),
            "candidate_source": collection.source,
            "machine": self.machine,
        }


def scoring_rows(subject: Subject, collection: Collection, depth: int, batch: int, setup: Setup) -> list[Measurement]:
    """One row a path, for calls that each score ``depth`` candidates of ``batch`` queries."""
    parts = dict.fromkeys(subject.paths, batch)
    if batch > 1 and setup.device == "cpu":  # there the time of a query does not depend on the batch
        one = scoring_case(subject.paths[PLAIN], collection, depth, 1)
        parts[PLAIN] = affordable(one, batch, setup.meter)
    cases = {path: scoring_case(reranker, collection, depth, parts[path]) for path, reranker in subject.paths.items()}
    measured = setup.meter.measure(cases)
    timings = {path: measured[path].scaled(batch / parts[path]) for path in cases}
    return measurements(
        SCORING,
        timings,
        batch,
        lambda path: {
            "measured_queries": parts[path] if parts[path] != batch else None,
            **columns(subject, path, collection, depth, setup),
        },
    )


def columns(subject: Subject, path: str, collection: Collection, depth: int, setup: Setup) -> dict:
    """The columns of a reranker's row that do not depend on the clock."""
    return {
        **setup.columns(collection, depth),
        "reranker": subject.name,
        "candidates": collection.mean_candidates(depth),
        "largest_difference": subject.largest_difference,
        "precision": setup.precision if path == FAST else "float32",
    }


def scoring_case(reranker: rerankers.CandidateScorer, collection: Collection, depth: int, batch: int) -> Case:
    """Scores ``batch`` queries in one call: others in every call, until all have had their turn."""

    def prepare(call: int):
        numbers = query_numbers(call, batch, len(collection.queries))
        queries = [collection.queries[number] for number in numbers]
        candidates = [collection.candidates(number, depth) for number in numbers]
        if batch == 1:
            return lambda: len(reranker.score(queries[0], candidates[0]))
        return lambda: len(rerankers.score_many(reranker, queries, candidates))

    return prepare


def query_by_query(queries: Sequence[T], work: Callable[[T], object]) -> Case:
    """Works on one query a call, on the next one each time."""

    def prepare(call: int):
        query = queries[call % len(queries)]
        return lambda: work(query)

    return prepare


def query_numbers(call: int, batch: int, queries: int) -> list[int]:
    """Which queries a call takes: the next ones each time; numbers below 0 take them from the end."""
    return [(call * batch + place) % queries for place in range(batch)]


def affordable(one: Case, most: int, meter: Meter) -> int:
    """How many times the work of a case fits into the time limit, from 1 to ``most``."""
    return max(1, min(most, int(meter.seconds / (meter.fewest * meter.estimate(one)))))
