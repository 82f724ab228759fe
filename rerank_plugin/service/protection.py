"""Middleware: names of the service, paths and token, limits of bodies, closed connections, response headers, times."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
from ipaddress import ip_address
from time import perf_counter
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rerank_plugin.service.bodies import Bodies
from rerank_plugin.service.config import ServiceConfig
from rerank_plugin.service.errors import OverloadedError, RequestError
from rerank_plugin.service.state import Service

DOCUMENT = re.compile(r"(/+v1/+[^/]+/+doc/+)(.*)", re.DOTALL)  # what follows is a document id, with slashes of its own


def canonical_path(path: str) -> str:
    """The path with single slashes and without one at its end, except in document ids and in folders of pages."""
    start, docid = found.groups() if (found := DOCUMENT.fullmatch(path)) else (path, "")
    start = re.sub("/+", "/", start)
    if docid or start.startswith("/docs"):
        return start + docid
    return start.rstrip("/") or "/"


class Names:
    """The names under which clients may reach the service: a page of another name, which resolves to this machine
    (DNS rebinding), must not read its answers.

    Names are checked if the service listens on a loopback address, or has public names. Addresses of IP and
    ``localhost`` are always allowed: no page of another site has them as its own name.
    """

    def __init__(self, config: ServiceConfig):
        self.public = {name.lower().rstrip(".") for name in config.public_names}
        self.own = _name(config.host)
        self.origins = {*config.origins}
        self.checked = "*" not in self.public and bool(self.public or _is_loopback(self.own))

    def check(self, host: str | None, origin: str | None) -> None:
        """Refuse the request if the service may not be called by its ``Host``, or by pages of its ``Origin``.

        Args:
            host: the header; None, as HTTP/1.0 may leave it, is no page's.
            origin: the header, for requests that pages of other origins must not send; else None.
        """
        if not self.checked:
            return
        if host is not None and not self._is_allowed(_name(host)):
            raise RequestError(
                421, f"the service does not answer to the name '{host}': give it to the service as a public name"
            )
        if origin is None or origin in self.origins or "*" in self.origins:
            return
        address = urlsplit(origin)
        name = _name(address.netloc)
        if address.netloc != host and name not in self.public and not _is_loopback(name):
            raise RequestError(
                403, f"pages of {origin} may not call the service: give it to the service as an allowed origin"
            )

    def _is_allowed(self, name: str) -> bool:
        return name == self.own or name in self.public or _is_loopback(name) or _is_ip(name)


def _name(address: str) -> str:
    """The name in ``NAME:PORT``, without the brackets of IPv6."""
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::\d*)?", address)
    name = bracketed[1] if bracketed else address if address.count(":") > 1 else address.partition(":")[0]
    return name.lower().rstrip(".")


def _is_ip(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return name == "localhost" or name.endswith(".localhost") or (_is_ip(name) and ip_address(name).is_loopback)


log = logging.getLogger(__name__)
# Paths that need the token: all but the pages, the OpenAPI document, /health, /healthz and /readyz.
GUARDED = ("/v1/", "/v2/", "/rerank", "/infinity/", "/mcp", "/admin/", "/metrics", "/info")
QUEUED = ("/v1/", "/v2/", "/rerank", "/infinity/")  # paths refused at once when the queue is full
MOST_PARAMETERS = 1000  # of an address: each unknown one would be an error of its own
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
        self.bodies, self.names = Bodies(self.config), Names(self.config)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        is_head, started, arrived = scope["method"] == "HEAD", False, perf_counter()
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
            if scope.get("query_string", b"").count(b"&") >= MOST_PARAMETERS:
                raise RequestError(400, f"the address has more than {MOST_PARAMETERS} parameters: send fewer")
            with self.bodies.holding() as held:
                body = await self.bodies.read(scope, receive, held)
                if self.service.scheduler.full and scope["path"].startswith(QUEUED):
                    raise OverloadedError  # cheaper here than in the route
                if body is not None:
                    scope, body = self.bodies.unpacked(scope, body)
                    await self._call_route(scope, body, receive, send_response)
        except RequestError as error:
            await error.response()(scope, receive, send_response)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if started:
                raise  # the server closes the connection
            failure = RequestError(500, "the service failed on this request; see its log")
            await failure.response()(scope, receive, send_response)
        finally:
            if (route := scope.get("route")) is not None:  # none answered: any path is one of the client's
                self.service.metrics.times.labels(route.path).observe(perf_counter() - arrived)

    def _check_token(self, scope: Scope) -> None:
        """A `RequestError` if the service has a token and the request does not send it."""
        if not self.config.token or not scope["path"].startswith(GUARDED):
            return
        headers = Headers(scope=scope)
        scheme, _, value = headers.get("authorization", "").partition(" ")
        tokens = (value.strip() if scheme.lower() == "bearer" else "", headers.get("x-api-key", ""))
        if not any(hmac.compare_digest(token.encode(), self.config.token.encode()) for token in tokens):
            raise RequestError(401, "send the token as 'Authorization: Bearer TOKEN' or 'X-API-Key: TOKEN'")

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
