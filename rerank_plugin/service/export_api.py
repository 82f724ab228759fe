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
from rerank_plugin.service.errors import error_responses
from rerank_plugin.service.served_index import ServedIndex
from rerank_plugin.service.state import get_service

router = APIRouter(prefix="/v1", tags=["search"])
MOST_EXPORTED = 50_000
AT_ONCE = 200  # documents that a thread reads before others have their turn


class ExportRequest(BaseModel):
    """The documents to export, and the format of the file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    docids: list[str] = Field(
        min_length=1,
        max_length=MOST_EXPORTED,
        fail_fast=True,
        description="Ids, in the order of the file.",
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
    """Documents by their ids as RIS, MEDLINE text (nbib), BibTeX, CSV or JSON."""
    service = get_service(request)
    write, media_type = EXPORTS[body.format]
    with service.collections.in_use() as snapshot:
        snapshot.index(index).rows(body.docids, "docids")  # an unknown id is refused before the file begins

    async def texts() -> AsyncIterator[str]:
        with service.collections.in_use() as snapshot:  # a reload meanwhile does not close it
            served = snapshot.index(index)
            records = write(_documents(served, served.rows(body.docids, "docids").tolist()))
            while text := await service.scheduler.in_thread(lambda: "".join(islice(records, AT_ONCE))):
                yield text

    name = f"{index}.{'bib' if body.format == 'bibtex' else body.format}".encode("ascii", "replace").decode()
    disposition = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(texts(), media_type=media_type, headers=disposition)


def _documents(index: ServedIndex, rows: list[int]) -> Iterator[Document]:
    for row in rows:
        forward = index.index.forward
        yield index.documents.as_indexed(row) or Document(forward.ids[row], forward.titles[row], "")
