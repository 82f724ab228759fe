"""What a request may be refused for, and how it is said: one JSON object, with one sentence and the field at fault."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from rerank_plugin.base.errors import InputError


class ErrorAnswer(BaseModel):
    """The body of every answer that is an error."""

    error: str = Field(description="One sentence that says what was wrong, and what to do.")
    field: str | None = Field(None, description="The parameter or the field of the body at fault, if it is one.")
    error_type: str = Field(description="The name of the status, as Text Embeddings Inference has it.")


class RequestError(Exception):
    """A request that is refused, with the status and the field at fault."""

    def __init__(self, status: int, error: str, field: str | None = None, retry_after: int | None = None):
        super().__init__(error)
        self.status, self.error, self.field, self.retry_after = status, error, field, retry_after

    def answer(self) -> JSONResponse:
        kind = HTTPStatus(self.status).phrase.lower().replace(" ", "_")
        body = ErrorAnswer(error=" ".join(self.error.split()), field=self.field, error_type=kind)
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return JSONResponse(body.model_dump(), self.status, headers)


class OverloadedError(RequestError):
    """The queue is full."""

    def __init__(self) -> None:
        super().__init__(429, "the service has more requests than it can answer: try again in a second", None, 1)


@contextmanager
def naming(field: str, status: int = 400) -> Iterator[None]:
    """Turns an `InputError` in the block into a `RequestError` about a field."""
    try:
        yield
    except InputError as error:
        raise RequestError(status, str(error), field) from None


def documented(*statuses: int) -> dict[int | str, dict]:
    """The answers of a route with these error statuses, for its OpenAPI document."""
    return {status: {"model": ErrorAnswer, "description": HTTPStatus(status).phrase} for status in statuses}
