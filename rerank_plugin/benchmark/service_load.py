"""The service over HTTP: what it adds to the library's whole query, and its answers at some rates and to a crowd."""

from __future__ import annotations

import http.client
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from urllib.parse import urlencode, urlsplit

import numpy as np

from rerank_plugin.benchmark import http_clients
from rerank_plugin.benchmark.collection import Collection
from rerank_plugin.benchmark.http_clients import Answer
from rerank_plugin.benchmark.machine import MEGABYTE
from rerank_plugin.benchmark.measuring import Case, Timings
from rerank_plugin.benchmark.rows import LIBRARY, OVER_HTTP, SERVICE, Measurement, latencies
from rerank_plugin.benchmark.scoring import Setup, query_numbers
from rerank_plugin.files.errors import InputError
from rerank_plugin.ranking.searcher import Searcher

HITS = 10  # of an answer, as the service has it
WARMING = 100  # queries of each: Java compiles what it runs often, and a service has been running
MEMORY = "process_resident_memory_bytes"


@dataclass(frozen=True)
class Load:
    """What the service is asked.

    Attributes:
        url: address of a service whose first index is that of the collection, and whose first reranker this one.
        rates: requests a second, at random times whatever the answers.
        clients: crowds, in which each client sends its next request when the last is answered.
        seconds: of each rate and crowd.
    """

    url: str
    reranker: str
    depth: int
    rates: Sequence[float]
    clients: Sequence[int]
    seconds: float
    seed: int

    @property
    def address(self) -> tuple[str, int]:
        found = urlsplit(self.url)
        return found.hostname or "", found.port or 80


def service_rows(load: Load, collection: Collection, setup: Setup) -> Iterator[Measurement]:
    """A row of the library, one of a single client, in turns with it, and one of each rate and crowd.

    The library reads the documents of the hits, too, as an answer of the service has them.

    Raises:
        InputError: the index or the reranker cannot be used, or no such service answers.
    """
    index, queries = _served(load, collection), [query.text for query in collection.queries]
    common = {
        **setup.columns(collection, load.depth), "stage": SERVICE, "reranker": load.reranker, "batch": 1,
        "candidates": float(load.depth), "candidate_source": "bm25 by Lucene",
    }  # fmt: skip
    searcher = Searcher(collection.index, load.reranker, depth=load.depth)
    with closing(searcher), closing(http.client.HTTPConnection(*load.address)) as connection:
        cases = {LIBRARY: _by_library(searcher, queries), OVER_HTTP: _by_http(connection, index, queries)}
        for call in range(WARMING):
            for case in cases.values():
                case(call)()
        timings = setup.meter.measure(cases)
        for path, found in timings.items():
            yield Measurement(path=path, **common, **latencies(found, timings[LIBRARY], 1))
    loops = [("rate", rate, partial(http_clients.open_loop, rate=rate, seed=load.seed)) for rate in load.rates]
    loops += [("clients", count, partial(http_clients.closed_loop, clients=count)) for count in load.clients]
    for kind, size, loop in loops:
        before = _memory(load)
        answers = http_clients.run(partial(loop, seconds=load.seconds), *load.address, index, queries)
        memory = _memory(load)
        yield Measurement(
            path=OVER_HTTP, **common, **{kind: size}, memory_before_mb=before,
            **_of_answers(answers, timings[LIBRARY], memory, load),
        )  # fmt: skip


def _of_answers(answers: list[Answer], library: Timings, memory: float, load: Load) -> dict:
    """The columns of a load; latencies are of the requests that were answered with status 200."""
    statuses = Counter(answer.status for answer in answers)
    seconds = {
        status: np.array([one.seconds for one in answers if one.status == status])
        for status in (HTTPStatus.OK, HTTPStatus.TOO_MANY_REQUESTS)
    }
    accepted, refused = seconds.values()
    if not len(accepted):
        raise InputError(f"{load.url} answered none of {len(answers)} requests: {dict(statuses)}")
    return {
        **latencies(Timings(accepted, [], memory), library, 1),
        "queries_per_second": len(accepted) / load.seconds,
        "refused": len(refused) / len(answers),
        "refused_p99_ms": float(np.percentile(refused, 99)) * 1000 if len(refused) else None,
        "late": sum(one.late for one in answers) / len(answers),
        "errors": {str(status): count for status, count in statuses.items() if status not in seconds},
    }


def _by_library(searcher: Searcher, queries: Sequence[str]) -> Case:
    def prepare(call: int):
        query = queries[query_numbers(call, 1, len(queries))[0]]
        return lambda: [searcher.doc(hit.docid) for hit in searcher.search(query, HITS)]

    return prepare


def _by_http(connection: http.client.HTTPConnection, index: str, queries: Sequence[str]) -> Case:
    def prepare(call: int):
        query = queries[query_numbers(call, 1, len(queries))[0]]
        path = f"/v1/{index}/search?{urlencode({'query': query})}"

        def ask() -> int:
            connection.request("GET", path)
            return len(connection.getresponse().read())

        return ask

    return prepare


def _get(load: Load, path: str) -> str:
    """
    Raises:
        InputError: there is no service that answers.
    """
    with closing(http.client.HTTPConnection(*load.address, timeout=60)) as connection:
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        except (OSError, http.client.HTTPException) as error:
            raise InputError(f"no service answers at {load.url}: {error}") from None


def _served(load: Load, collection: Collection) -> str:
    """The name of the service's first index.

    Raises:
        InputError: it has another number of documents than the collection.
    """
    try:
        first = json.loads(_get(load, "/v1/indexes"))["indexes"][0]
    except (ValueError, KeyError):
        raise InputError(f"{load.url} is no service of this package, or asks for a token") from None
    if first["documents"] != len(collection):
        raise InputError(f"{load.url} serves {first['documents']} documents first, and not the {len(collection)} here")
    return first["name"]


def _memory(load: Load) -> float:
    """Resident memory of the service's process, in MB."""
    lines = _get(load, "/metrics").splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{MEMORY} ")) / MEGABYTE
