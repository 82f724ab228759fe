"""``/v1/{index}/click``: what was clicked on, for the click log; only in a service that keeps one."""

from __future__ import annotations

import logging

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, field_validator

from rerank_plugin.base.errors import InputError
from rerank_plugin.service.click_log import Click
from rerank_plugin.service.errors import RequestError, documented
from rerank_plugin.service.state import service_of

log = logging.getLogger(__name__)
router = APIRouter(prefix="/v1", tags=["search"])


class ClickRequest(BaseModel):
    """A click on a document of a ranked list."""

    model_config = ConfigDict(extra="forbid", strict=True)

    query: str
    shown: list[str] = Field(min_length=1, description="Ids of the documents that were shown, from the top down.")
    clicked: str = Field(description="One of them.")
    position: int = Field(ge=1, le=1_000_000, description="Rank of the clicked one, from 1 on over all pages.")
    session: str = Field(
        min_length=1, max_length=128, description="The same for all clicks of one visit; it is logged as a salted hash."
    )
    dwell: float | None = Field(None, ge=0, le=86_400, description="Seconds that the document was open, if known.")

    @field_validator("query", "shown", "clicked", "session")
    @classmethod
    def _is_text(cls, value: str | list[str]) -> str | list[str]:
        "".join(value).encode()  # JSON can have halves of surrogate pairs, which no file can
        return value


@router.post("/{index}/click", status_code=204, responses=documented(400, 401, 404, 408, 413, 422, 429, 503))
def click(request: Request, index: str, body: ClickRequest) -> Response:
    """Log a click, and what was shown with it. Send it once: at the click, or when the document is closed."""
    service = service_of(request)
    service.check_words(body.query, "query", 422)
    query, shown = " ".join(body.query.split()), tuple(body.shown)
    if not query:
        raise RequestError(422, "the query is empty: send the text that was searched for", "query")
    if len(shown) > (most := service.config.most_depth):
        raise RequestError(422, f"{len(shown)} documents were shown, at most {most} can be ranked", "shown")
    if len({*shown}) < len(shown):
        raise RequestError(422, "a document was shown twice: send each id once", "shown")
    if body.clicked not in shown:
        raise RequestError(422, f"'{body.clicked}' is none of the documents that were shown", "clicked")
    if body.position <= shown.index(body.clicked):
        raise RequestError(422, f"position {body.position} is above the place of '{body.clicked}'", "position")
    with service.collections.used() as served:
        served.index(index).rows(shown, "shown")
    try:
        service.clicks.append(Click(index, query, shown, body.clicked, body.position, body.session, body.dwell))
    except (OSError, InputError) as error:
        log.error("a click was not logged: %s", error)
        raise RequestError(503, "the click was not logged; the log of the service says why") from None
    return Response(status_code=204)
