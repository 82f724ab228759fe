"""The server of the application, whose connections are bounded: their number, their headers, and the time they wait.

uvicorn waits for the headers of a request, and for a client to read its answer, without a limit; a proxy before the
service need not be there.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from rerank_plugin.service.config import ServiceConfig
from rerank_plugin.service.state import Service

log = logging.getLogger(__name__)
TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
MOST_HEADERS = 128  # of a request, trailers included
MOST_HEADER_BYTES = 128 << 10  # of a request's address and headers
MOST_PIPELINED = 8  # requests that wait for the one before on the same connection
OPEN_FILES = 1 << 16  # limit to raise to, where more is allowed
ACCEPTED = 64  # connections at a time, before the first of them is looked at
WAITING = 2048  # connections that the system keeps until they are accepted
SPARE_FILES = 4 * ACCEPTED  # not for connections, beside twice those open at the start: a reload opens all again
LOG_SECONDS = 60.0  # between two lines about connections that could not be accepted


def raise_open_files() -> None:
    """Raise the process's limit of open files as far as it is allowed, and needed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def connection_limit(wanted: int) -> int:
    """The number of connections that the process's limit of open files allows, at most ``wanted``."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return wanted
    allowed = max(1, limit - 2 * len(os.listdir("/dev/fd")) - SPARE_FILES)
    if allowed < wanted:
        log.warning(
            "at most %d connections instead of %d, as this process may open %d files only: raise its limit (ulimit -n)",
            allowed, wanted, limit,
        )  # fmt: skip
    return min(allowed, wanted)


def server_of(app: FastAPI) -> uvicorn.Server:
    """A server that runs the application."""
    service: Service = app.state.service
    protocol = _bounded_protocol(service.config, connection_limit(service.config.most_connections))
    config = uvicorn.Config(
        app, http=protocol, ws="none", backlog=ACCEPTED, log_config=None, log_level="error", access_log=False,
        server_header=False,
    )  # fmt: skip
    return _Server(config, service)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, service: Service):
        super().__init__(config)
        self.service, self.accept_logged = service, -LOG_SECONDS

    async def startup(self, sockets: list[Any] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(self._handle_exception)
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(WAITING)  # asyncio accepts as many at a time as may wait: make more wait

    def _handle_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Logs what the event loop reports; it reports a failed accept thousands of times, until a file is closed."""
        if "accept" not in context.get("message", ""):
            loop.default_exception_handler(context)
        elif (now := time.monotonic()) - self.accept_logged >= LOG_SECONDS:
            self.accept_logged = now
            log.error("a connection was not accepted: %s", context.get("exception"))

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Give up a reload at once: a request may wait for it, and the server for the request."""
        self.service.reloads.abandon()
        super().handle_exit(sig, frame)


def _bounded_protocol(config: ServiceConfig, most: int) -> type[asyncio.Protocol]:
    """uvicorn's protocol, which closes connections that are late, too many, or send too much before a body.

    Args:
        most: number of connections, beyond which the longest silent one without a complete request is closed.
    """
    waiting: dict[Any, asyncio.TimerHandle] = {}  # connections without complete headers, the oldest first
    connected: dict[Any, None] = {}  # all, the longest silent first

    def evictable() -> Iterator[Any]:
        """Connections that wait for their clients: for headers first, then for a body, then to read an answer."""
        yield from (connection for connection in connected if connection.is_idle)
        yield from (connection for connection in connected if connection.cycle.more_body)
        yield from (connection for connection in connected if connection.flow.write_paused)

    class BoundedProtocol(HttpToolsProtocol):
        part = ""  # of a request, which the parser reads: headers, body, or none
        received = 0  # bytes since the read in which the request began
        header_bytes = 0
        unread: asyncio.TimerHandle | None = None

        @property
        def is_idle(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        # Connections.

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.cycles: deque[RequestResponseCycle] = deque()  # unanswered requests
            if len(connected) >= most:
                evicted = next(evictable(), self)
                evicted._close(BUSY)
                connected.pop(evicted, None)
                if evicted.transport.get_write_buffer_size():
                    evicted.transport.abort()  # its client does not read
                if evicted is self:
                    return
            connected[self] = None
            self._wait()

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            if connected.pop(self, True) is None:
                connected[self] = None
            self.received += len(data)
            super().data_received(data)
            if self.is_idle:
                self._wait()
            else:
                self._arrived()
            if self._is_too_large():
                self._close(TOO_LARGE)

        def _is_too_large(self) -> bool:
            """Whether the parser keeps too many bytes: of headers, or of trailers, after the chunks of a body."""
            if self.part == "headers":
                return self.received > MOST_HEADER_BYTES
            is_large = self.received > 2 * (config.most_megabytes << 20) + MOST_HEADER_BYTES  # sizes of chunks included
            return is_large and self.part == "body" and any(name == b"transfer-encoding" for name, _ in self.headers)

        def connection_lost(self, exc: Exception | None) -> None:
            self._arrived()
            connected.pop(self, None)
            for cycle in self.cycles:  # uvicorn tells the last one only, and the one before would go on to write
                cycle.disconnected = True
                cycle.message_event.set()
            super().connection_lost(exc)

        def on_response_complete(self) -> None:
            self.cycles.popleft()
            super().on_response_complete()
            if self.transport.is_closing():
                self._watch_unread()

        def timeout_keep_alive_handler(self) -> None:
            super().timeout_keep_alive_handler()
            self._watch_unread()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._watch_unread()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._watch_unread()

        # Parts of a request, as the parser finds them. What they raise ends in `send_400_response`.

        def on_message_begin(self) -> None:
            self.part, self.received, self.header_bytes = "headers", 0, 0
            super().on_message_begin()

        def on_url(self, url: bytes) -> None:
            self._count(len(url))
            super().on_url(url)

        def on_header(self, name: bytes, value: bytes) -> None:
            self._count(len(name) + len(value))
            super().on_header(name, value)

        def _count(self, size: int) -> None:
            self.header_bytes += size
            if self.header_bytes > MOST_HEADER_BYTES or len(self.headers) >= MOST_HEADERS:
                raise ValueError("too many headers, or too long ones")

        def on_headers_complete(self) -> None:
            if len(self.pipeline) >= MOST_PIPELINED:
                raise ValueError("too many requests before the answer to the first")
            self.part = "body"
            super().on_headers_complete()
            self.cycles.append(self.cycle)

        def on_message_complete(self) -> None:
            self.part = ""
            super().on_message_complete()

        def send_400_response(self, msg: str) -> None:
            if self.header_bytes > MOST_HEADER_BYTES or len(self.headers or ()) >= MOST_HEADERS:
                self._close(TOO_LARGE)
            else:
                super().send_400_response(msg)

        # Time.

        def _wait(self) -> None:
            if self in waiting or self.transport.is_closing():
                return
            if len(waiting) >= config.most_unfinished:
                next(iter(waiting))._close(TIMEOUT)
            waiting[self] = self.loop.call_later(config.header_seconds, self._close, TIMEOUT)

        def _arrived(self) -> bool:
            """Stop waiting for headers; whether this was waited for."""
            if (timer := waiting.pop(self, None)) is None:
                return False
            timer.cancel()
            return True

        def _close(self, answer: bytes) -> None:
            """Close the connection, with an answer to a request, or the beginning of one, that has none."""
            is_unanswered = self._arrived() or self.cycle is None or not self.cycle.response_started
            if is_unanswered and not self.transport.is_closing():
                self.transport.write(answer)
            self.transport.close()
            self._watch_unread()

        def _watch_unread(self) -> None:
            """Abort the connection once its client has read nothing of what is left to send for some seconds."""
            if self.unread is not None:
                self.unread.cancel()
            left = self.transport.get_write_buffer_size()
            self.unread = self.loop.call_later(config.header_seconds, self._abort_unread, left) if left else None

        def _abort_unread(self, left: int) -> None:
            if self.transport.get_write_buffer_size() >= left:
                self.transport.abort()
            else:
                self._watch_unread()

    return BoundedProtocol
