"""The service over HTTP: its overhead over the library, and its answers by request rate and number of clients.

The clients are in this process, on the machine of the service. An open loop sends requests when they are due, whether
or not earlier ones were answered, as the public does; latency counts from the due time. A closed loop is a crowd of
clients that each send the next request after the last answer.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from http import HTTPStatus
from time import perf_counter
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.memory import MEGABYTE
from rerank_plugin.benchmark.collection import Collection
from rerank_plugin.benchmark.measuring import Timings
from rerank_plugin.benchmark.rows import LIBRARY, OVER_HTTP, SERVICE, Measurement, latencies, measurements
from rerank_plugin.benchmark.scoring import Setup, query_by_query
from rerank_plugin.benchmark.suite import Suite
from rerank_plugin.ranking.searcher import Searcher

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


async def collect_answers(
    loop: Callable[[Connections], Awaitable[list[Answer]]], host: str, port: int, index: str, queries: Sequence[str]
) -> list[Answer]:
    """The answers to a loop of requests."""
    with closing(Connections(host, port, index, queries)) as connections:
        return await loop(connections)


HITS = 10  # of an answer, the default of the service
WARM_UP = 100  # queries, after which Java has compiled its hot methods, as in a running service
MEMORY = "process_resident_memory_bytes"


def service_rows(url: str, suite: Suite, collection: Collection, setup: Setup) -> Iterator[Measurement]:
    """A row of the library and of a single client, which take turns, and a row for each rate and number of clients.

    The library reads the documents of the hits, too, since an answer of the service has them.

    Args:
        url: address of a service with the collection's index and the suite's only reranker first.

    Raises:
        InputError: the index or the reranker cannot be used, or no such service answers.
    """
    index, queries = _served(url, collection), [query.text for query in collection.queries]
    (reranker,), depth = suite.specs, suite.depths[0]
    common = {
        **setup.columns(collection, depth), "reranker": reranker, "candidates": float(depth),
        "candidate_source": "bm25 by Lucene",
    }  # fmt: skip
    searcher = Searcher(collection.index, reranker, depth=depth)
    with closing(searcher), closing(http.client.HTTPConnection(*_address(url))) as connection:

        def by_library(query: str) -> list:
            return [searcher.doc(hit.docid) for hit in searcher.search(query, HITS)]

        def by_http(path: str) -> int:
            connection.request("GET", path)
            return len(connection.getresponse().read())

        paths = [search_path(index, query) for query in queries]
        cases = {LIBRARY: query_by_query(queries, by_library), OVER_HTTP: query_by_query(paths, by_http)}
        for call in range(WARM_UP):
            for case in cases.values():
                case(call)()
        timings = setup.meter.measure(cases)
        yield from measurements(SERVICE, timings, 1, lambda path: common)
    loops = [("rate", rate, partial(open_loop, rate=rate, seed=suite.seed)) for rate in suite.rates]
    loops += [("clients", count, partial(closed_loop, clients=count)) for count in suite.clients]
    for kind, size, loop in loops:
        before = _memory(url)
        load: dict[str, Any] = {kind: size}
        timed_loop = partial(loop, seconds=suite.seconds)
        answers = asyncio.run(collect_answers(timed_loop, *_address(url), index, queries))
        yield Measurement(
            path=OVER_HTTP, stage=SERVICE, batch=1, **common, **load, memory_before_mb=before,
            **_load_columns(answers, timings[LIBRARY], _memory(url), suite.seconds, url),
        )  # fmt: skip


def _load_columns(answers: list[Answer], library: Timings, memory: float, seconds: float, url: str) -> dict[str, Any]:
    """The columns of a load; latencies are of the requests with status 200."""
    statuses = Counter(answer.status for answer in answers)
    latency = {
        status: np.array([answer.seconds for answer in answers if answer.status == status])
        for status in (HTTPStatus.OK, HTTPStatus.TOO_MANY_REQUESTS)
    }
    accepted, refused = latency.values()
    if not len(accepted):
        raise InputError(f"{url} answered none of {len(answers)} requests: {dict(statuses)}")
    return {
        **latencies(Timings(accepted, [], memory), library, 1),
        "queries_per_second": len(accepted) / seconds,
        "refused": len(refused) / len(answers),
        "refused_p99_ms": float(np.percentile(refused, 99)) * 1000 if len(refused) else None,
        "late": sum(answer.late for answer in answers) / len(answers),
        "errors": {str(status): count for status, count in statuses.items() if status not in latency},
    }


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 80


def _get(url: str, path: str) -> str:
    """The service's answer; an `InputError` if there is none."""
    with closing(http.client.HTTPConnection(*_address(url), timeout=60)) as connection:
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        except (OSError, http.client.HTTPException) as error:
            raise InputError(f"no service answers at {url}: {error}") from None


def _served(url: str, collection: Collection) -> str:
    """The name of the service's first index; an `InputError` unless it has as many documents as the collection."""
    try:
        first = json.loads(_get(url, "/v1/indexes"))["indexes"][0]
    except (ValueError, KeyError):
        raise InputError(f"{url} is not a service of this package, or needs a token") from None
    if first["documents"] != len(collection):
        raise InputError(f"{url}: the first index has {first['documents']} documents, and not {len(collection)}")
    return first["name"]


def _memory(url: str) -> float:
    """Resident memory of the service's process, in MB."""
    lines = _get(url, "/metrics").splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{MEMORY} ")) / MEGABYTE
