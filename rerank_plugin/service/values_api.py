"""``/v1/{index}/values`` and ``count``: values of filters and their numbers of documents; what matches a query."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from rerank_plugin.base import records
from rerank_plugin.base.filters import Filter
from rerank_plugin.base.strategy import OR, Group, Term
from rerank_plugin.service.answers import IndexAnswer
from rerank_plugin.service.errors import error_responses, field_errors
from rerank_plugin.service.highlighting import STOP_WORDS, WORD
from rerank_plugin.service.parameters import MOST_FILTERS, QueryLines, QueryString, QuerySyntax
from rerank_plugin.service.scheduling import SMALLEST_COST
from rerank_plugin.service.served_index import ServedIndex
from rerank_plugin.service.state import Service, get_service

router = APIRouter(prefix="/v1", tags=["search"])
MOST_WORDS = 200  # of a query of plain words that is counted


class CountParameters(QuerySyntax):
    """The documents to count."""

    model_config = ConfigDict(extra="forbid")

    query: QueryLines = Field(
        default="", description="Count only documents that match it; of plain words, that have any of them."
    )
    filter: list[str] = Field(
        default=[], max_length=MOST_FILTERS, description="Count only documents that match these filters."
    )

    def within(self, service: Service, index: ServedIndex) -> Filter | None:
        """The documents to count as a filter; None for all."""
        service.check_text(self.query, "query")
        with field_errors("filter"):
            filters = Filter.parse(self.filter) if self.filter else None
        if not self.query.strip():
            return filters
        text = self.text(self.query)
        reading = index.read(records.Query(text, text, filters), self)
        if reading.matches is not None:
            return reading.query.filter
        words = {word.lower(): Term(word) for word in WORD.findall(text) if word.lower() not in STOP_WORDS}
        return replace(filters or Filter(()), strategy=Group(OR, tuple(words.values())[:MOST_WORDS]))


class ValuesParameters(CountParameters):
    """The parameters of a list of values."""

    field: str = Field(description="A filter of the index, such as type.")
    begins: QueryString = Field(default="", max_length=200, description="The beginning of the values: smi.")
    limit: int = Field(default=20, ge=1, le=100)


class CountAnswer(IndexAnswer):
    """The number of documents that match a query and filters."""

    documents: int


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

        def listed() -> list[Value]:
            within = parameters.within(service, served)
            with field_errors("field"):
                counted = served.values.values(parameters.field, parameters.begins, within, parameters.limit)
            return [Value(value=value, documents=documents) for value, documents in counted]

        found = await service.scheduler.in_thread(listed)
        return ValuesAnswer(index=served.name, field=parameters.field, values=found)


@router.get("/{index}/count", responses=error_responses(400, 401, 404, 429, 503))
async def count(request: Request, index: str, parameters: Annotated[CountParameters, Query()]) -> CountAnswer:
    """The exact number of documents that match a query and filters; of plain words, that have any of them."""
    service = get_service(request)
    with service.scheduler.admitted(SMALLEST_COST), service.collections.in_use() as snapshot:
        served = snapshot.index(index)

        def counted() -> int:
            within = parameters.within(service, served)
            return len(served.index) if within is None else int(served.index.matches(within).total)

        return CountAnswer(index=served.name, documents=await service.scheduler.in_thread(counted))
