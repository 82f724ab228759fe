"""``/v1/{index}/values``: the values of a filter, with the numbers of documents that have them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from rerank_plugin.base.filters import Filter
from rerank_plugin.service.answers import IndexAnswer
from rerank_plugin.service.errors import error_responses, field_errors
from rerank_plugin.service.parameters import MOST_FILTERS, QueryString
from rerank_plugin.service.scheduling import SMALLEST_COST
from rerank_plugin.service.state import get_service

router = APIRouter(prefix="/v1", tags=["search"])


class ValuesParameters(BaseModel):
    """The parameters of a list of values."""

    model_config = ConfigDict(extra="forbid")

    field: str = Field(description="A filter of the index, such as type.")
    begins: QueryString = Field(default="", max_length=200, description="The beginning of the values: smi.")
    filter: list[str] = Field(
        default=[], max_length=MOST_FILTERS, description="Count only documents that match these filters."
    )
    limit: int = Field(default=20, ge=1, le=100)


class Value(BaseModel):
    """A value, as documents have it."""

    value: str
    documents: int = Field(description="The number of documents that have it.")


class ValuesAnswer(IndexAnswer):
    """The commonest values of a filter, the commonest first; years in their order, the latest first."""

    field: str
    values: list[Value]


@router.get("/{index}/values", responses=error_responses(400, 401, 404, 429, 503))
async def values(request: Request, index: str, parameters: Annotated[ValuesParameters, Query()]) -> ValuesAnswer:
    """The values by which searches can be filtered, with the numbers of documents that have them."""
    service = get_service(request)
    with service.scheduler.admitted(SMALLEST_COST), service.collections.in_use() as snapshot:
        served = snapshot.index(index)
        with field_errors("filter"):
            within = Filter.parse(parameters.filter) if parameters.filter else None

        def listed() -> list[Value]:
            with field_errors("field"):
                counted = served.values.values(parameters.field, parameters.begins, within, parameters.limit)
            return [Value(value=value, documents=documents) for value, documents in counted]

        found = await service.scheduler.in_thread(listed)
        return ValuesAnswer(index=served.name, field=parameters.field, values=found)
