"""``/metrics``, ``/healthz``, ``/readyz``, ``/admin/update`` and ``/admin/reload``."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, ConfigDict, Field

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document
from rerank_plugin.encoding.updates import update_index
from rerank_plugin.files.outputs import OutputLockedError
from rerank_plugin.service.bodies import JsonBody
from rerank_plugin.service.errors import RequestError, error_responses
from rerank_plugin.service.state import get_service

router = APIRouter(tags=["operation"])
MOST_CHANGES = 100_000  # documents that one update adds or deletes


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


class NewDocument(BaseModel):
    """A document to add."""

    model_config = ConfigDict(extra="forbid")

    id: str
    title: str = ""
    abstract: str = ""
    metadata: dict[str, Any] = {}


class UpdateRequest(BaseModel):
    """An update of an index: documents are deleted, then added, then merged."""

    model_config = ConfigDict(extra="forbid")

    index: str | None = Field(default=None, description="An index of the service; the first if absent.")
    delete: list[str] = Field(default=[], max_length=MOST_CHANGES, fail_fast=True, description="Ids of documents.")
    add: list[NewDocument] = Field(
        default=[], max_length=MOST_CHANGES, fail_fast=True, description="A document replaces one with the same id."
    )
    merge: bool = Field(default=False, description="Remove deleted documents for good.")
    adapt: bool = Field(default=False, description="With merge: adapt the encoder anew, and encode all documents.")


BODY = JsonBody(UpdateRequest)


@router.post(
    "/admin/update",
    responses=error_responses(400, 401, 403, 404, 409, 413, 422, 503),
    openapi_extra=BODY.openapi,
)
async def update(request: Request, body: Annotated[UpdateRequest, BODY.parsed]) -> dict[str, int | str]:
    """Update an index, then reload; only in a service with a token. Searches go on with the old commit."""
    service = get_service(request)
    if not service.config.token:
        raise RequestError(403, "only a service with a token can be updated over HTTP")
    with service.collections.in_use() as snapshot:
        index = snapshot.index(body.index).index
    documents = [Document(new.id, new.title, new.abstract, new.metadata) for new in body.add]
    work = partial(update_index, index, delete=body.delete, add=documents, merge=body.merge, adapt=body.adapt)
    try:
        updated = await asyncio.to_thread(work)
    except InputError as error:
        raise RequestError(409 if isinstance(error, OutputLockedError) else 400, str(error)) from None
    number = len(updated)
    updated.close()
    return {"documents": number, **await reload_all(request)}
