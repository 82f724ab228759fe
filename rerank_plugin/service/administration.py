"""``/metrics``, ``/healthz``, ``/readyz``, and the reload that a SIGHUP or ``/admin/reload`` asks for."""

from __future__ import annotations

import asyncio
import logging

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from rerank_plugin.base.errors import InputError
from rerank_plugin.service.errors import RequestError, documented
from rerank_plugin.service.state import Service, service_of

log = logging.getLogger(__name__)
router = APIRouter(tags=["operation"])


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


@router.post("/admin/reload", responses=documented(401, 403, 503))
async def reload_all(request: Request) -> dict[str, str]:
    """Open indexes and rerankers anew and replace them whole; only in a service with a token."""
    service = service_of(request)
    if not service.config.token:
        raise RequestError(403, "only a service with a token can be reloaded over HTTP; send it SIGHUP")
    if (fault := await asyncio.to_thread(reload, service)) is not None:
        raise RequestError(503, f"what was served before stays: {service.refusal(fault).error}")
    return {"status": "reloaded"}


def reload(service: Service) -> InputError | None:
    """Replace what is served; where it cannot be opened, all stays, and the log and the result tell why."""
    try:
        service.collections.reload()
    except InputError as error:
        log.error("not reloaded, what was served before stays: %s", error)
        service.metrics.reloads.labels("failed").inc()
        return error
    log.warning("reloaded")
    service.metrics.reloads.labels("done").inc()
    return None
