"""Metrics for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from rerank_plugin.service.answers import Timings
from rerank_plugin.service.scheduling import Scheduler

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class Metrics:
    """The counters, gauges and histograms of a service."""

    def __init__(self, scheduler: Scheduler):
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory, CPU time, open files
        self.stages = Histogram(
            "rerank_stage_seconds", "Time of a stage of a query", ["stage"], registry=self.registry, buckets=SECONDS
        )
        self.times = Histogram(
            "rerank_request_seconds", "Time from a request to the end of its answer, by path", ["path"],
            registry=self.registry, buckets=SECONDS,
        )  # fmt: skip
        self.requests = Counter("rerank_requests", "Answers by status", ["status"], registry=self.registry)
        self.late = Counter(
            "rerank_late", "Searches answered in first-stage order after the deadline", registry=self.registry
        )
        self.partial = Counter(
            "rerank_partial", "Searches answered without the documents of shards that did not", registry=self.registry
        )
        self.reloads = Counter("rerank_reloads", "Reloads", ["result"], registry=self.registry)
        admitted = Gauge("rerank_requests_inside", "Admitted queries, running or waiting", registry=self.registry)
        admitted.set_function(lambda: scheduler.admitted_queries)
        waiting = Gauge("rerank_waiting_scores", "Queries waiting to be scored", registry=self.registry)
        waiting.set_function(lambda: len(scheduler.waiting))

    def observe(self, timings: Timings) -> None:
        """Record the stage times of a query."""
        for name, milliseconds in timings:
            self.stages.labels(name.removesuffix("_ms")).observe(milliseconds / 1000)
