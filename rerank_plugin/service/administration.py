"""``/metrics``, ``/healthz``, ``/readyz`` and ``/admin/reload``."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from rerank_plugin.service.errors import RequestError, error_responses
from rerank_plugin.service.state import get_service

router = APIRouter(tags=["operation"])


@router.get(
    "/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}, **error_responses(401)}
)
async def metrics(request: Request) -> Response:
    """Counters and histograms in Prometheus' text format."""
    return Response(generate_latest(get_service(request).metrics.registry), media_type=CONTENT_TYPE_LATEST)


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Status ok: the process is alive."""
    return {"status": "ok"}


@router.get("/readyz", responses=error_responses(503))
async def readyz(request: Request) -> dict[str, str]:
    """Status ready: the queue has room for a request."""
    if get_service(request).scheduler.full:
        raise RequestError(503, "the queue is full")
    return {"status": "ready"}


@router.post("/admin/reload", responses=error_responses(401, 403, 503))
async def reload_all(request: Request) -> dict[str, str]:
    """Reopen all indexes and rerankers and replace the open ones; only in a service with a token."""
    service = get_service(request)
    if not service.config.token:
        raise RequestError(403, "only a service with a token can be reloaded over HTTP; send it SIGHUP instead")
    if (error := await asyncio.wrap_future(service.reloads.ask())) is not None:
        raise RequestError(
            503, f"not reloaded, the old indexes and rerankers stay: {service.public_error(error).error}"
        )
    return {"status": "reloaded"}
