"""``/admin/reload``, and what a SIGHUP does: open indexes and rerankers anew without dropping a request."""

from __future__ import annotations

import asyncio
import logging

from fastapi import APIRouter, Request

from rerank_plugin.files.errors import InputError
from rerank_plugin.service.errors import RequestError, documented
from rerank_plugin.service.state import Service, service_of

log = logging.getLogger(__name__)
router = APIRouter(tags=["operation"])


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
