"""``/v1/{index}/screening``: the undecided documents of a search, ranked by those that were included."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from rerank_plugin.base.errors import InputError
from rerank_plugin.ranking.pipeline import Ranking
from rerank_plugin.service.answers import SearchAnswer
from rerank_plugin.service.bodies import JsonBody
from rerank_plugin.service.errors import RequestError, error_responses
from rerank_plugin.service.parameters import SearchParameters
from rerank_plugin.service.search_api import Search, answer, searches
from rerank_plugin.service.served_index import ServedIndex
from rerank_plugin.service.state import get_service

router = APIRouter(prefix="/v1", tags=["search"])
MOST_DECIDED = 100_000


class ScreeningRequest(BaseModel):
    """A search, and the decisions on its documents so far."""

    model_config = ConfigDict(extra="forbid")

    search: SearchParameters
    included: list[str] = Field(
        default=[], max_length=MOST_DECIDED, fail_fast=True,
        description="Ids of included documents: the others are ranked by their mean cosine to these.",
    )  # fmt: skip
    decided: list[str] = Field(
        default=[], max_length=MOST_DECIDED, fail_fast=True, description="Ids of all decided documents, to leave out."
    )


BODY = JsonBody(ScreeningRequest)


@router.post(
    "/{index}/screening",
    responses=error_responses(400, 401, 404, 408, 413, 422, 429, 503),
    openapi_extra=BODY.openapi,
)
async def screening(request: Request, index: str, body: Annotated[ScreeningRequest, BODY.parsed]) -> SearchAnswer:
    """The undecided documents of a search: in its order, or by their mean similarity to the included documents."""
    service = get_service(request)
    if len(body.search.query) != 1:
        raise RequestError(422, f"{len(body.search.query)} queries: screen the documents of one", "search.query")
    with service.scheduler.admitted(), service.collections.in_use() as snapshot:
        served = snapshot.index(index)
        included, decided = served.known_rows(body.included), served.known_rows(body.decided)

        def undecided(search: Search, ranking: Ranking) -> Ranking:
            order = ranking.order[~np.isin(ranking.candidates.rows[ranking.order], decided)]
            if not len(included):
                return ranking._replace(order=order)
            try:
                return _by_likeness(served, ranking._replace(order=order), included)
            except InputError as error:  # without encodings
                search.extra_notes = [f"not ranked by what was included: {error}"]
                return ranking._replace(order=order)

        (search,) = searches(service, served, body.search, undecided)
        return await answer(service, search)


def _by_likeness(index: ServedIndex, ranking: Ranking, included: np.ndarray) -> Ranking:
    """The ranking by decreasing mean cosine to the included rows; equal ones keep their order."""
    cosines = index.searcher.likeness(ranking.candidates.rows[ranking.order], included)
    scores = ranking.scores.astype(np.float32)
    scores[ranking.order] = cosines
    return ranking._replace(scores=scores, order=ranking.order[np.argsort(-cosines, kind="stable")])
