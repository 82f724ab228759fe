"""Errors of requests: each is answered by one JSON object with a sentence and the field at fault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from rerank_plugin.base.errors import InputError, SystemFailure, UnavailableError
from rerank_plugin.base.stopping import LateError


class ErrorAnswer(BaseModel):
    """The body of every error response."""

    error: str = Field(description="One sentence: the problem and what to do.")
    detail: str = Field(description="The same, where clients of Jina, vLLM and Voyage look for it.")
    message: str = Field(description="The same, where clients of Cohere look for it.")
    field: str | None = Field(default=None, description="The parameter or body field at fault, if there is one.")
    error_type: str = Field(description="The name of the status, as in Text Embeddings Inference.")


class RequestError(Exception):
    """A refused request, with the status and the field at fault."""

    def __init__(self, status: int, error: str, field: str | None = None, retry_after: int | None = None):
        super().__init__(error)
        self.status, self.error, self.field, self.retry_after = status, error, field, retry_after

    def response(self) -> JSONResponse:
        error_type = HTTPStatus(self.status).phrase.lower().replace(" ", "_")
        error = " ".join(self.error.split())
        body = ErrorAnswer(error=error, detail=error, message=error, field=self.field, error_type=error_type)
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        if self.status == 401:
            headers["WWW-Authenticate"] = 'Bearer realm="rerank_plugin"'
        return JSONResponse(body.model_dump(), self.status, headers)


class OverloadedError(RequestError):
    """The queue is full."""

    def __init__(self) -> None:
        super().__init__(429, "the service has more requests than it can answer: try again in a second", None, 1)


def describe_invalid(error: Mapping[str, Any]) -> tuple[str, str]:
    """The field of a validation error of pydantic, empty if it is the whole, and the reason in one line."""
    path = [*map(str, error["loc"])]
    # The field's path ends at the number of a list item: the name of the item's type follows.
    end = next((place for place, part in enumerate(path, 1) if part.isdigit()), len(path))
    is_item = bool(path) and path[end - 1].isdigit()
    reason = "is null: leave it out, or send a value" if is_item and error["input"] is None else error["msg"]
    return ".".join(path[:end]), " ".join(reason.split())


@contextmanager
def field_errors(field: str, status: int = 400) -> Iterator[None]:
    """Turns an `InputError` in the block into a `RequestError` that names this field; not that of late work."""
    try:
        yield
    except LateError:
        raise
    except InputError as error:
        raise refusal(error, status, field) from None


def refusal(error: InputError, status: int = 400, field: str | None = None) -> RequestError:
    """The refusal of a request for an error, with 503 instead of a status where the request is not at fault."""
    if isinstance(error, (UnavailableError, SystemFailure)):
        return RequestError(503, str(error), retry_after=1)
    if isinstance(error, LateError):
        return RequestError(503, str(error))
    return RequestError(status, str(error), field)


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The error responses of a route with these statuses, for its OpenAPI document."""
    return {status: {"model": ErrorAnswer, "description": HTTPStatus(status).phrase} for status in statuses}
