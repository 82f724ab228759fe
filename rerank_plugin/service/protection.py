"""What stands before the routes: the token, the size and time of bodies, clients that have gone, headers of answers."""

from __future__ import annotations

import asyncio
import hmac
import logging

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rerank_plugin.service.errors import OverloadedError, RequestError
from rerank_plugin.service.state import Service

log = logging.getLogger(__name__)
# What needs the token: all but the pages and what the OpenAPI document says, and whether the service is ready.
GUARDED = ("/v1/", "/v2/", "/rerank", "/mcp", "/admin/", "/metrics")
WORKING = ("/v1/", "/v2/", "/rerank")
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Protection:
    """Reads the whole body of a request before its route is called, so that a slow client holds nothing but memory.

    The route is cancelled when the client closes the connection.
    """

    def __init__(self, app: ASGIApp, service: Service):
        self.app, self.service, self.config = app, service, service.config
        self.most = self.config.most_megabytes << 20

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                self.service.metrics.requests.labels(message["status"]).inc()
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            self._check_token(scope)
            body = await self._body(scope, receive)
            if self.service.scheduler.full and scope["path"].startswith(WORKING):
                raise OverloadedError  # sooner, and for less, than the route would
            if body is not None:
                await self._answered(scope, body, receive, sending)
        except RequestError as error:
            await error.answer()(scope, receive, sending)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if begun:
                raise  # the server closes the connection
            failed = RequestError(500, "the service failed at this request; its log says why")
            await failed.answer()(scope, receive, sending)

    def _check_token(self, scope: Scope) -> None:
        """A `RequestError` if there is a token, and the request does not have it."""
        if not self.config.token or not scope["path"].startswith(GUARDED):
            return
        headers = Headers(scope=scope)
        bearer, _, given = headers.get("authorization", "").partition(" ")
        sent = (given.strip() if bearer.lower() == "bearer" else "", headers.get("x-api-key", ""))
        if not any(hmac.compare_digest(one.encode(), self.config.token.encode()) for one in sent):
            raise RequestError(401, "send the token as 'Authorization: Bearer TOKEN' or 'X-API-Key: TOKEN'")

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """The body, or None if the client has gone; a `RequestError` if it is too large, or takes too long."""
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
        """A body of which ``size`` bytes are announced, as `_body`."""
        parts, more = [], True
        while more and size <= self.most:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            size, more = sum(map(len, parts)), message.get("more_body", False)
        if size > self.most:
            raise RequestError(413, f"the body is larger than {self.config.most_megabytes} MB")
        return b"".join(parts)

    async def _answered(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Call the application with the body; cancel it when the client has gone."""
        whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        answering, gone = asyncio.current_task(), False

        async def given() -> Message:
            return whole.pop() if whole else await asyncio.Future()

        async def watch() -> None:
            nonlocal gone
            while (await receive())["type"] != "http.disconnect":
                pass
            gone = True
            answering.cancel()

        watching = asyncio.ensure_future(watch())
        try:
            await self.app(scope, given, send)
        except asyncio.CancelledError:
            if not gone:
                raise
        finally:
            watching.cancel()
