"""Clients of the service for measurements, in this process, on the machine of the service.

An open loop sends requests when they are due, whether or not earlier ones were answered, as the public does; latency
counts from the due time. A closed loop is a crowd of clients that each send the next request after the last answer.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from time import perf_counter
from typing import NamedTuple
from urllib.parse import urlencode

import numpy as np

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
LATE = b'"reranked":false'
TIMEOUT = 30.0  # seconds after which a request counts as an error


class Answer(NamedTuple):
    """The end of a request."""

    status: int | str  # HTTP status, or kind of error
    late: bool  # whether the hits are in first-stage order
    seconds: float


def search_path(index: str, query: str) -> str:
    """The path of a request that searches an index by BM25, and by the service's first reranker."""
    return f"/v1/{index}/search?{urlencode({'query': query, 'first_stage': 'bm25'})}"


class Connections:
    """A pool of open connections to a service, which opens another if all are busy."""

    def __init__(self, host: str, port: int, index: str, queries: Sequence[str]):
        self.host, self.port = host, port
        self.paths = [search_path(index, query) for query in queries]
        self.free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, number: int, due: float) -> Answer:
        """Send query ``number``, modulo the number of queries, and read the answer; seconds count from ``due``."""
        path = self.paths[number % len(self.paths)]
        try:
            status, body = await asyncio.wait_for(self._exchange(path), TIMEOUT)
        except (OSError, EOFError, asyncio.TimeoutError) as error:
            return Answer(type(error).__name__, False, perf_counter() - due)
        return Answer(status, LATE in body, perf_counter() - due)

    async def _exchange(self, path: str) -> tuple[int, bytes]:
        while self.free and self.free[-1][0].at_eof():  # servers close idle connections after some seconds
            self.free.pop()[1].close()
        reader, writer = self.free.pop() if self.free else await asyncio.open_connection(self.host, self.port)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = LENGTH.search(head)
            if length is None:
                raise ConnectionError("the service sent no Content-Length")
            body = await reader.readexactly(int(length.group(1)))
        except BaseException:
            writer.close()
            raise
        self.free.append((reader, writer))
        return int(head.split(None, 2)[1]), body

    def close(self) -> None:
        for _, writer in self.free:
            writer.close()


async def open_loop(connections: Connections, rate: float, seconds: float, seed: int) -> list[Answer]:
    """Send requests at random times, on average ``rate`` per second (a Poisson process)."""
    waits = np.random.default_rng(seed).exponential(1 / rate, max(1, round(rate * seconds)))
    started, requests = perf_counter(), []
    for number, due in enumerate(started + np.cumsum(waits)):
        if (wait := due - perf_counter()) > 0:
            await asyncio.sleep(wait)
        requests.append(asyncio.ensure_future(connections.ask(number, due)))
    return list(await asyncio.gather(*requests))


async def closed_loop(connections: Connections, clients: int, seconds: float) -> list[Answer]:
    """Run concurrent ``clients`` that each send the next request after the last answer."""
    end, received = perf_counter() + seconds, list[Answer]()

    async def client(number: int) -> None:
        while (now := perf_counter()) < end:
            received.append(await connections.ask(number, now))
            number += clients

    await asyncio.gather(*(client(number) for number in range(clients)))
    return received


async def answers(
    loop: Callable[[Connections], Awaitable[list[Answer]]], host: str, port: int, index: str, queries: Sequence[str]
) -> list[Answer]:
    """The answers to a loop of requests."""
    with closing(Connections(host, port, index, queries)) as connections:
        return await loop(connections)
