"""What is measured, for Prometheus, and whether the service is alive and ready."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from rerank_plugin.service.answers import Timings
from rerank_plugin.service.errors import RequestError, documented
from rerank_plugin.service.scheduling import Scheduler
from rerank_plugin.service.state import service_of

router = APIRouter(tags=["operation"])
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class Metrics:
    """The counters of one service."""

    def __init__(self, scheduler: Scheduler):
        self.registry = CollectorRegistry()
        self.stages = Histogram(
            "rerank_stage_seconds", "Time of a stage of a query", ["stage"], registry=self.registry, buckets=SECONDS
        )
        self.requests = Counter("rerank_requests", "Answers by status", ["status"], registry=self.registry)
        self.late = Counter(
            "rerank_late", "Searches that the deadline left in first-stage order", registry=self.registry
        )
        self.reloads = Counter("rerank_reloads", "Reloads", ["result"], registry=self.registry)
        inside = Gauge("rerank_requests_inside", "Requests that are worked on or wait", registry=self.registry)
        inside.set_function(lambda: scheduler.inside)
        waiting = Gauge("rerank_waiting_scores", "Queries that wait to be scored", registry=self.registry)
        waiting.set_function(lambda: len(scheduler.waiting))

    def observe(self, timings: Timings) -> None:
        """Count the stages of a query."""
        for name, milliseconds in timings:
            self.stages.labels(name.removesuffix("_ms")).observe(milliseconds / 1000)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}, **documented(401)})
async def metrics(request: Request) -> Response:
    """Counters and histograms in Prometheus' text format."""
    return Response(generate_latest(service_of(request).metrics.registry), media_type=CONTENT_TYPE_LATEST)


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Whether the process answers."""
    return {"status": "ok"}


@router.get("/readyz", responses=documented(503))
async def readyz(request: Request) -> dict[str, str]:
    """Whether a request would be let in: the queue is not full."""
    if service_of(request).scheduler.full:
        raise RequestError(503, "the queue is full")
    return {"status": "ready"}
