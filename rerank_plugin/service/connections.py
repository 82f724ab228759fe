"""The server of the application: connections whose headers do not arrive are closed.

uvicorn waits for the headers of a request without a limit; a proxy before the service need not be there.
"""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from rerank_plugin.service.settings import ServiceConfig
from rerank_plugin.service.state import Service

TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def server_of(app: FastAPI) -> uvicorn.Server:
    """A server that runs the application."""
    service: Service = app.state.service
    protocol = _bounded_protocol(service.config)
    return _Server(uvicorn.Config(app, http=protocol, log_config=None, access_log=False, server_header=False), service)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, service: Service):
        super().__init__(config)
        self.service = service

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Give up a reload at once: a request may wait for it, and the server for the request."""
        self.service.reloads.abandon()
        super().handle_exit(sig, frame)


def _bounded_protocol(config: ServiceConfig) -> type[asyncio.Protocol]:
    """uvicorn's protocol, which closes connections whose headers are late, and the oldest of too many."""
    waiting: dict[Any, asyncio.TimerHandle] = {}  # connections without complete headers, the oldest first

    class BoundedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is None or self.cycle.response_complete:
                self._wait()
            else:
                self._arrived()

        def connection_lost(self, exc: Exception | None) -> None:
            self._arrived()
            super().connection_lost(exc)

        def _wait(self) -> None:
            if self in waiting or self.transport.is_closing():
                return
            if len(waiting) >= config.most_unfinished:
                next(iter(waiting))._close()
            waiting[self] = self.loop.call_later(config.header_seconds, self._close)

        def _arrived(self) -> None:
            if (timer := waiting.pop(self, None)) is not None:
                timer.cancel()

        def _close(self) -> None:
            self._arrived()
            self.transport.write(TIMEOUT)
            self.transport.close()

    return BoundedProtocol
