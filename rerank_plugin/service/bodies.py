"""The bodies of requests: time, size and sum are bounded before they are read, the number of items before validation.

A body is validated in a thread, and validation ends at the first error: millions of wrong items cost as much as one.
"""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from rerank_plugin.service.config import ServiceConfig
from rerank_plugin.service.errors import RequestError, describe_invalid

ENCODINGS = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}  # for zlib
RATIO = 100  # of the unpacked to the sent size, at most; texts have some 3 to 20
SMALL = 1 << 20  # bytes that any compressed body may have when unpacked, whatever its ratio
NEVER_REFUSED = 1 << 16  # bytes of a body that is not refused for the sum of all
HALF = re.compile(rb"\\u[dD][89a-fA-F]")  # as JSON escapes half a character, which may be one of a pair
HALVES = re.compile("[\ud800-\udfff]")  # halves that are not of a pair
MOST_FIELDS = 1000  # of a body that is an object: each unknown one would be an error of its own
SEPARATORS = (b",", b":", b"[", b"{")  # a JSON text has at most as many keys and values, and one more
FEW_SEPARATORS = 100_000  # allowed to any body
SEPARATED = 24  # bytes for each further separator: documents have one in 40 to 160


@dataclass(eq=False)
class HeldBody:
    """The body of a request, from its arrival until its answer; it counts towards ``most_held_megabytes``.

    Attributes:
        size: bytes that have arrived.
        arriving: the pending read, if any.
        is_refused: whether it was refused to make room for others.
    """

    size: int = 0
    arriving: asyncio.Future[bytes | None] | None = None
    is_refused: bool = False


class Bodies:
    """Reads the bodies of all requests of a service."""

    def __init__(self, config: ServiceConfig):
        self.config, self.max_bytes = config, config.most_megabytes << 20
        self.max_unpacked = min(config.most_unpacked_megabytes << 20, self.max_bytes)
        self.held: set[HeldBody] = set()
        self.total = 0  # bytes of all held bodies

    @contextmanager
    def holding(self) -> Iterator[HeldBody]:
        """Counts the body that `read` reads, for the block."""
        body = HeldBody()
        self.held.add(body)
        try:
            yield body
        finally:
            self.held.remove(body)
            self.total -= body.size

    async def read(self, scope: Scope, receive: Receive, held: HeldBody) -> bytes | None:
        """The body of a request as it was sent; None if the client has disconnected.

        Raises:
            RequestError: it is too large or too slow, or the largest when the bodies of all requests are too much.
        """
        headers = Headers(scope=scope)
        length = headers.get("content-length", "0")
        if length == "0" and "transfer-encoding" not in headers:
            return b""
        if length.isdigit() and int(length) > self.max_bytes:
            raise self._too_large(self.max_bytes)
        held.arriving = asyncio.ensure_future(self._arrived(receive, held))
        try:
            return await asyncio.wait_for(held.arriving, self.config.body_seconds)
        except asyncio.TimeoutError:
            raise RequestError(408, f"the body did not arrive within {self.config.body_seconds:g} seconds") from None
        except asyncio.CancelledError:
            if not held.is_refused:
                raise
            raise RequestError(
                503, "the service has no room for a body of this size now: try again in a second", retry_after=1
            ) from None
        finally:
            held.arriving = None

    async def _arrived(self, receive: Receive, held: HeldBody) -> bytes | None:
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += (part := message.get("body", b""))
            held.size += len(part)
            self.total += len(part)
            if held.size > self.max_bytes:
                raise self._too_large(self.max_bytes)
            if not message.get("more_body", False):
                return bytes(body)
            self._make_room()

    def _make_room(self) -> None:
        """Refuse the largest of the arriving bodies while all bodies are too large together."""
        while self.total > self.config.most_held_megabytes << 20:
            largest = max((body for body in self.held if body.arriving is not None), key=lambda body: body.size)
            if largest.size <= NEVER_REFUSED:
                return  # the others are worked on, and soon answered
            assert largest.arriving is not None
            self.total -= largest.size
            largest.is_refused, largest.size = True, 0
            largest.arriving.cancel()

    def unpacked(self, scope: Scope, body: bytes) -> tuple[Scope, bytes]:
        """The request with its body unpacked; a `RequestError` if it cannot be, or has too many bytes or values."""
        packing = ",".join(Headers(scope=scope).getlist("content-encoding")).strip().lower()
        if packing not in ("", "identity"):
            body = self._unpacked(body, packing)
            replaced = (b"content-encoding", b"content-length", b"transfer-encoding")
            kept = [(name, value) for name, value in scope["headers"] if name not in replaced]
            scope = {**scope, "headers": [*kept, (b"content-length", str(len(body)).encode())]}
        separators = sum(body.count(separator) for separator in SEPARATORS)
        if separators > max(FEW_SEPARATORS, len(body) // SEPARATED):
            raise RequestError(413, f"the body has {separators:,} commas, colons and brackets, too many for its size")
        return scope, body

    def _unpacked(self, body: bytes, packing: str) -> bytes:
        if packing not in ENCODINGS:
            known = ", ".join(ENCODINGS)
            raise RequestError(415, f"the body has the content encoding '{packing}': send {known}, or none")
        limit = min(self.max_unpacked, max(SMALL, RATIO * len(body)))
        unpacker = zlib.decompressobj(ENCODINGS[packing])
        try:
            unpacked = unpacker.decompress(body, limit + 1)
        except zlib.error:
            raise RequestError(400, f"the body is no {packing} data, as its content encoding says") from None
        if len(unpacked) > limit:
            raise self._too_large(limit, " when unpacked")
        if not unpacker.eof or unpacker.unused_data:
            raise RequestError(400, f"the body is incomplete {packing} data, or has more data behind them")
        return unpacked

    def _too_large(self, limit: int, when: str = "") -> RequestError:
        return RequestError(413, f"the body is larger than {limit / (1 << 20):g} MB{when}: send less in a request")


class JsonBody:
    """The JSON body of a route: one of some forms, validated in a thread.

    Args:
        forms: the forms; with several, ``choose`` gives the one of a decoded body.
        most: the setting that bounds the items of each list of the body; empty for none.
    """

    def __init__(self, *forms: type[BaseModel], choose: Callable[[Any], type[BaseModel]] | None = None, most: str = ""):
        self.forms, self.choose, self.most = forms, choose or (lambda body: forms[0]), most

    @property
    def openapi(self) -> dict[str, Any]:
        """What the route's OpenAPI document says about the body; its ``$defs`` are to be moved to the components."""
        template = "#/components/schemas/{model}"
        _, description = models_json_schema([(form, "validation") for form in self.forms], ref_template=template)
        references = [{"$ref": template.format(model=form.__name__)} for form in self.forms]
        schema = {**(references[0] if len(references) == 1 else {"anyOf": references}), **description}
        return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}

    @property
    def parsed(self) -> Any:
        """The dependency that gives the validated body."""

        async def parsed(request: Request) -> BaseModel:
            config: ServiceConfig = request.app.state.service.config
            return await run_in_threadpool(self._parsed, request, await request.body(), config)

        return Depends(parsed)

    def _parsed(self, request: Request, body: bytes, config: ServiceConfig) -> BaseModel:
        if "json" not in request.headers.get("content-type", ""):
            hint = "expected JSON, with the header Content-Type: application/json"
            raise RequestError(422, f"body: {hint}", "body")
        try:
            decoded = json.loads(body.decode("utf-8-sig"))
            has_half = HALF.search(body) and HALVES.search(json.dumps(decoded, ensure_ascii=False))
        except RecursionError:
            raise RequestError(422, "body: is nested too deeply", "body") from None
        except ValueError as error:  # of JSON, of UTF-8, or of a number with thousands of digits
            raise RequestError(422, f"body: is no JSON in UTF-8 ({error})", "body") from None
        if isinstance(decoded, dict) and len(decoded) > MOST_FIELDS:
            raise RequestError(413, f"the body has {len(decoded)} fields, but may have at most {MOST_FIELDS}", "body")
        if self.most and isinstance(decoded, dict):
            limit = getattr(config, self.most)
            for field, items in decoded.items():
                if isinstance(items, list) and len(items) > limit:
                    raise RequestError(
                        413, f"{field} has {len(items)} items, but a request may have at most {limit}", field
                    )
        try:
            valid = self.choose(decoded).model_validate(decoded)
        except ValidationError as error:
            field, reason = describe_invalid(error.errors(include_url=False, include_context=False)[0])
            raise RequestError(422, f"{field or 'body'}: {reason}", field or "body") from None
        if has_half:
            raise RequestError(422, "body: has half a character (a lone surrogate): remove it", "body")
        return valid
