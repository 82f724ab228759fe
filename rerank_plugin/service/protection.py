"""Middleware: names and token, size and time limits of bodies, closed connections, response headers."""

from __future__ import annotations

import asyncio
import hmac
import logging
import zlib

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rerank_plugin.service.addresses import Names, canonical_path
from rerank_plugin.service.errors import OverloadedError, RequestError
from rerank_plugin.service.state import Service

log = logging.getLogger(__name__)
# Paths that need the token: all but the pages, the OpenAPI document, /health, /healthz and /readyz.
GUARDED = ("/v1/", "/v2/", "/rerank", "/mcp", "/admin/", "/metrics", "/info")
QUEUED = ("/v1/", "/v2/", "/rerank")  # paths refused at once when the queue is full
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Protection:
    """Reads the complete body of a request before it calls the route, so that a slow client occupies only memory.

    The route is cancelled when the client closes the connection. It sees paths in one spelling, bodies unpacked, and
    GET for HEAD, whose answer has no body.
    """

    def __init__(self, app: ASGIApp, service: Service):
        self.app, self.service, self.config = app, service, service.config
        self.max_bytes, self.names = self.config.most_megabytes << 20, Names(self.config)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        is_head, started = scope["method"] == "HEAD", False
        scope = {**scope, "path": canonical_path(scope["path"]), "method": "GET" if is_head else scope["method"]}

        async def send_response(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                self.service.metrics.requests.labels(message["status"]).inc()
                MutableHeaders(scope=message).update(HEADERS)
            elif is_head and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        try:
            headers = Headers(scope=scope)
            self.names.check(headers.get("host"), headers.get("origin") if scope["path"] == "/mcp" else None)
            self._check_token(scope)
            body = await self._body(scope, receive)
            if self.service.scheduler.full and scope["path"].startswith(QUEUED):
                raise OverloadedError  # cheaper here than in the route
            if body is not None and (packing := headers.get("content-encoding", "identity").lower()) != "identity":
                scope, body = self._unpacked(scope, body, packing)
            if body is not None:
                await self._call_route(scope, body, receive, send_response)
        except RequestError as error:
            await error.response()(scope, receive, send_response)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if started:
                raise  # the server closes the connection
            failure = RequestError(500, "the service failed on this request; see its log")
            await failure.response()(scope, receive, send_response)

    def _check_token(self, scope: Scope) -> None:
        """A `RequestError` if the service has a token and the request does not send it."""
        if not self.config.token or not scope["path"].startswith(GUARDED):
            return
        headers = Headers(scope=scope)
        scheme, _, value = headers.get("authorization", "").partition(" ")
        tokens = (value.strip() if scheme.lower() == "bearer" else "", headers.get("x-api-key", ""))
        if not any(hmac.compare_digest(token.encode(), self.config.token.encode()) for token in tokens):
            raise RequestError(401, "send the token as 'Authorization: Bearer TOKEN' or 'X-API-Key: TOKEN'")

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """The body, or None if the client has disconnected; a `RequestError` if it is too large or too slow."""
        headers = Headers(scope=scope)
        length = headers.get("content-length", "0")
        if length == "0" and "transfer-encoding" not in headers:
            return b""
        seconds = self.config.body_seconds
        try:
            return await asyncio.wait_for(self._read(int(length) if length.isdigit() else 0, receive), seconds)
        except asyncio.TimeoutError:
            raise RequestError(408, f"the body did not arrive within {seconds:g} seconds") from None

    async def _read(self, size: int, receive: Receive) -> bytes | None:
        """The body, whose announced size is ``size`` bytes; results and errors as for `_body`."""
        parts: list[bytes] = []
        more = True
        while more and size <= self.max_bytes:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            size, more = sum(map(len, parts)), message.get("more_body", False)
        if size > self.max_bytes:
            raise self._too_large()
        return b"".join(parts)

    def _unpacked(self, scope: Scope, body: bytes, packing: str) -> tuple[Scope, bytes]:
        """The request with its body unpacked; a `RequestError` if that is damaged, too large, or not by gzip."""
        if packing not in ("gzip", "x-gzip"):
            raise RequestError(415, f"the body has the content encoding '{packing}': send gzip, or none")
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            unpacked = unpacker.decompress(body, self.max_bytes + 1)
        except zlib.error:
            raise RequestError(400, "the body is no gzip data, as its content encoding says") from None
        if len(unpacked) > self.max_bytes:
            raise self._too_large()
        if not unpacker.eof or unpacker.unused_data:
            raise RequestError(400, "the body is incomplete gzip data, or has more data behind them")
        replaced = (b"content-encoding", b"content-length")
        kept = [(name, value) for name, value in scope["headers"] if name not in replaced]
        return {**scope, "headers": [*kept, (b"content-length", str(len(unpacked)).encode())]}, unpacked

    def _too_large(self) -> RequestError:
        return RequestError(413, f"the body is larger than {self.config.most_megabytes} MB: send less in a request")

    async def _call_route(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Call the application with the body; cancel it when the client disconnects."""
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        task, disconnected = asyncio.current_task(), False
        assert task is not None

        async def receive_body() -> Message:
            return messages.pop() if messages else await asyncio.Future()

        async def watch_connection() -> None:
            nonlocal disconnected
            while (await receive())["type"] != "http.disconnect":
                pass
            disconnected = True
            task.cancel()

        watcher = asyncio.ensure_future(watch_connection())
        try:
            await self.app(scope, receive_body, send)
        except asyncio.CancelledError:
            if not disconnected:
                raise
        finally:
            watcher.cancel()
