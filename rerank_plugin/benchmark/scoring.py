"""Scoring alone: from the rows of candidates, gather words, compute features and score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rerank_plugin import rerankers
from rerank_plugin.benchmark.collection import Collection
from rerank_plugin.benchmark.measured_rerankers import MeasuredReranker
from rerank_plugin.benchmark.measuring import Case, Meter
from rerank_plugin.benchmark.rows import FAST, PLAIN, SCORING, Measurement, measurements

T = TypeVar("T")


@dataclass(frozen=True)
class Setup:
    """The clock and machine of all rows of a run."""

    meter: Meter
    device: str
    threads: int
    machine: str
    precision: str = "float32"

    def columns(self, collection: Collection, depth: int) -> dict[str, Any]:
        """The common columns of all rows of a collection and depth."""
        return {
            "device": self.device,
            "threads": self.threads,
            "depth": depth,
            "collection": collection.name,
            "documents": len(collection),
            "candidate_source": collection.source,
            "machine": self.machine,
        }


def scoring_rows(
    subject: MeasuredReranker, collection: Collection, depth: int, batch: int, setup: Setup
) -> list[Measurement]:
    """A row per path, for calls that each score ``depth`` candidates of ``batch`` queries."""
    counts = dict.fromkeys(subject.paths, batch)  # timed queries
    if batch > 1 and setup.device == "cpu":  # the time of a query does not depend on the batch on a CPU
        single = scoring_case(subject.paths[PLAIN], collection, depth, 1)
        counts[PLAIN] = repeats_in_time(single, batch, setup.meter)
    cases = {path: scoring_case(reranker, collection, depth, counts[path]) for path, reranker in subject.paths.items()}
    measured = setup.meter.measure(cases)
    timings = {path: measured[path].scaled(batch / counts[path]) for path in cases}
    return measurements(
        SCORING,
        timings,
        batch,
        lambda path: {
            "measured_queries": counts[path] if counts[path] != batch else None,
            **columns(subject, path, collection, depth, setup),
        },
    )


def columns(subject: MeasuredReranker, path: str, collection: Collection, depth: int, setup: Setup) -> dict[str, Any]:
    """The columns of a reranker's row that do not depend on the clock."""
    return {
        **setup.columns(collection, depth),
        "reranker": subject.name,
        "candidates": collection.mean_candidates(depth),
        "largest_difference": subject.largest_difference,
        "precision": setup.precision if path == FAST else "float32",
    }


def scoring_case(reranker: rerankers.CandidateScorer, collection: Collection, depth: int, batch: int) -> Case:
    """Score the next ``batch`` queries in each call."""

    def prepare(call: int):
        numbers = query_numbers(call, batch, len(collection.queries))
        queries = [collection.queries[number] for number in numbers]
        candidates = [collection.candidates(number, depth) for number in numbers]
        if batch == 1:
            return lambda: len(reranker.score(queries[0], candidates[0]))
        return lambda: len(rerankers.score_many(reranker, queries, candidates))

    return prepare


def query_by_query(queries: Sequence[T], work: Callable[[T], object]) -> Case:
    """Work on the next query in each call."""

    def prepare(call: int):
        query = queries[call % len(queries)]
        return lambda: work(query)

    return prepare


def query_numbers(call: int, batch: int, queries: int) -> list[int]:
    """The numbers of a call's queries: the next ones in each call; negative calls take them from the end."""
    return [(call * batch + place) % queries for place in range(batch)]


def repeats_in_time(case: Case, at_most: int, meter: Meter) -> int:
    """How many times the work of a case fits into the time limit, from 1 to ``at_most``."""
    return max(1, min(at_most, int(meter.seconds / (meter.fewest * meter.estimate(case)))))
