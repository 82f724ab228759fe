"""``/v1/{index}/export``: documents as a file for reference managers, spreadsheets and programs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from rerank_plugin.base.records import Document
from rerank_plugin.corpora.exports import EXPORTS
from rerank_plugin.service.bodies import JsonBody
from rerank_plugin.service.errors import RequestError, error_responses
from rerank_plugin.service.parameters import SearchParameters
from rerank_plugin.service.search_api import finished, searches
from rerank_plugin.service.served_index import ServedIndex
from rerank_plugin.service.state import Service, get_service

router = APIRouter(prefix="/v1", tags=["search"])
MOST_EXPORTED = 50_000
AT_ONCE = 200  # documents that a thread reads before others have their turn


class ExportRequest(BaseModel):
    """The documents to export, and the format of the file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    docids: list[str] | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_EXPORTED,
        fail_fast=True,
        description="Ids, in the order of the file.",
    )
    search: SearchParameters | None = Field(
        default=None, description="In place of ids: a search, of which all ranked documents are exported."
    )
    format: Literal["ris", "nbib", "bibtex", "csv", "json"] = "ris"


BODY = JsonBody(ExportRequest)


@router.post(
    "/{index}/export",
    response_class=StreamingResponse,
    responses=error_responses(400, 401, 404, 408, 413, 422, 429, 503),
    openapi_extra=BODY.openapi,
)
async def export(request: Request, index: str, body: Annotated[ExportRequest, BODY.parsed]) -> StreamingResponse:
    """Documents by their ids, or all of a search, as RIS, MEDLINE text (nbib), BibTeX, CSV or JSON."""
    service = get_service(request)
    write, media_type = EXPORTS[body.format]
    if (body.docids is None) == (body.search is None):
        raise RequestError(422, "export either docids or a search: give one of them", "docids")
    with service.collections.in_use() as snapshot:  # an error is answered before the file begins
        served = snapshot.index(index)
        docids = body.docids or await _found(service, served, body.search or SearchParameters(query=[]))
        served.rows(docids, "docids")

    async def texts() -> AsyncIterator[str]:
        with service.collections.in_use() as snapshot:  # a reload meanwhile does not close it
            served = snapshot.index(index)
            records = write(_documents(served, served.rows(docids, "docids").tolist()))
            while text := await service.scheduler.once_in_thread(lambda: "".join(islice(records, AT_ONCE))):
                yield text

    name = f"{index}.{'bib' if body.format == 'bibtex' else body.format}".encode("ascii", "replace").decode()
    disposition = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(texts(), media_type=media_type, headers=disposition)


async def _found(service: Service, index: ServedIndex, parameters: SearchParameters) -> list[str]:
    """The ids of all ranked documents of a search."""
    if len(parameters.query) != 1:
        raise RequestError(422, f"{len(parameters.query)} queries: export the documents of one", "search.query")
    with service.scheduler.admitted():
        (search,) = searches(service, index, parameters)
        docids: list[str] = await finished(
            service, search, lambda scored: search.ranked(scored).require_complete().doc_ids
        )
    if not 0 < len(docids) <= MOST_EXPORTED:
        found = f"{len(docids):,} documents" if docids else "no document"
        raise RequestError(422, f"the search finds {found}: an export has 1 to {MOST_EXPORTED:,}", "search")
    return docids


def _documents(index: ServedIndex, rows: list[int]) -> Iterator[Document]:
    for row in rows:
        forward = index.index.forward
        yield index.documents.as_indexed(row) or Document(forward.ids[row], forward.titles[row], "")
