"""``/v1/{index}/click``: takes clicks for the click log; only in a service with a click log."""

from __future__ import annotations

import logging
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, field_validator

from rerank_plugin.base.errors import InputError
from rerank_plugin.service.bodies import JsonBody
from rerank_plugin.service.click_log import Click, ClickTooLargeError
from rerank_plugin.service.errors import RequestError, error_responses
from rerank_plugin.service.parameters import QueryString
from rerank_plugin.service.state import get_service

log = logging.getLogger(__name__)
MAX_QUERY = 5000  # characters of a query in a log
router = APIRouter(prefix="/v1", tags=["search"])


class ClickRequest(BaseModel):
    """A click on a document of a ranked list."""

    model_config = ConfigDict(extra="forbid", strict=True)

    query: QueryString = Field(max_length=MAX_QUERY)
    shown: list[str] = Field(min_length=1, fail_fast=True, description="Ids of the shown documents, from the top down.")
    clicked: str = Field(description="Id of the clicked document.")
    position: int = Field(ge=1, le=1_000_000, description="Rank of the clicked document, from 1 on over all pages.")
    session: str = Field(
        min_length=1, max_length=128, description="Id shared by the clicks of one visit; logged as a salted hash."
    )
    dwell: float | None = Field(
        default=None, ge=0, le=86_400, description="Seconds that the document was open, if known."
    )

    @field_validator("shown", "clicked", "session")
    @classmethod
    def _encodable(cls, value: str | list[str]) -> str | list[str]:
        "".join(value).encode()  # JSON can hold lone surrogates, which UTF-8 cannot encode
        return value


BODY = JsonBody(ClickRequest)


@router.post(
    "/{index}/click",
    status_code=204,
    responses=error_responses(400, 401, 404, 408, 413, 422, 429, 503),
    openapi_extra=BODY.openapi,
)
def click(request: Request, index: str, body: Annotated[ClickRequest, BODY.parsed]) -> Response:
    """Log a click and the list it was on. Send it once: at the click, or when the document is closed."""
    service = get_service(request)
    assert service.click_log is not None  # else the service does not have this route
    service.check_text(body.query, "query", 422)
    query, shown = " ".join(body.query.split()), tuple(body.shown)
    if not query:
        raise RequestError(422, "the query is empty: send the text of the search", "query")
    if len(shown) > (limit := service.config.most_depth):
        raise RequestError(422, f"{len(shown)} documents shown, but a ranking has at most {limit}", "shown")
    if len({*shown}) < len(shown):
        raise RequestError(422, "a document is shown twice: send each id once", "shown")
    if body.clicked not in shown:
        raise RequestError(422, f"'{body.clicked}' is not among the shown documents", "clicked")
    if body.position <= shown.index(body.clicked):
        raise RequestError(422, f"position {body.position} is above the place of '{body.clicked}'", "position")
    with service.collections.in_use() as snapshot:
        snapshot.index(index).rows(shown, "shown")
    try:
        service.click_log.append(Click(index, query, shown, body.clicked, body.position, body.session, body.dwell))
    except ClickTooLargeError:
        raise RequestError(
            413, "the query and the ids of the shown documents are too long to be logged", "shown"
        ) from None
    except (OSError, InputError) as error:
        log.error("a click was not logged: %s", error)
        raise RequestError(503, "the click was not logged; see the log of the service") from None
    return Response(status_code=204)
