"""The service over HTTP: what it adds to the library's whole query, and its answers at some rates and to a crowd."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from http import HTTPStatus
from urllib.parse import urlsplit

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.benchmark import http_clients
from rerank_plugin.benchmark.collection import Collection
from rerank_plugin.benchmark.http_clients import Answer
from rerank_plugin.benchmark.machine import MEGABYTE
from rerank_plugin.benchmark.measuring import Timings
from rerank_plugin.benchmark.rows import LIBRARY, OVER_HTTP, SERVICE, Measurement, latencies, measurements
from rerank_plugin.benchmark.scoring import Setup, query_by_query
from rerank_plugin.benchmark.suite import Suite
from rerank_plugin.ranking.searcher import Searcher

HITS = 10  # of an answer, as the service has it
WARMING = 100  # queries of each: Java compiles what it runs often, and a service has been running
MEMORY = "process_resident_memory_bytes"


def service_rows(url: str, suite: Suite, collection: Collection, setup: Setup) -> Iterator[Measurement]:
    """A row of the library, one of a single client, in turns with it, and one of each rate and crowd.

    The library reads the documents of the hits, too, as an answer of the service has them.

    Args:
        url: address of a service whose first index is that of the collection, and whose first reranker that of the
            suite, which has one.

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

        paths = [http_clients.search_path(index, query) for query in queries]
        cases = {LIBRARY: query_by_query(queries, by_library), OVER_HTTP: query_by_query(paths, by_http)}
        for call in range(WARMING):
            for case in cases.values():
                case(call)()
        timings = setup.meter.measure(cases)
        yield from measurements(SERVICE, timings, 1, lambda path: common)
    loops = [("rate", rate, partial(http_clients.open_loop, rate=rate, seed=suite.seed)) for rate in suite.rates]
    loops += [("clients", count, partial(http_clients.closed_loop, clients=count)) for count in suite.clients]
    for kind, size, loop in loops:
        before = _memory(url)
        of_seconds = partial(loop, seconds=suite.seconds)
        answers = asyncio.run(http_clients.answers(of_seconds, *_address(url), index, queries))
        yield Measurement(
            path=OVER_HTTP, stage=SERVICE, batch=1, **common, **{kind: size}, memory_before_mb=before,
            **_of_answers(answers, timings[LIBRARY], _memory(url), suite.seconds, url),
        )  # fmt: skip


def _of_answers(answers: list[Answer], library: Timings, memory: float, seconds: float, url: str) -> dict:
    """The columns of a load; latencies are of the requests that were answered with status 200."""
    statuses = Counter(answer.status for answer in answers)
    waited = {
        status: np.array([one.seconds for one in answers if one.status == status])
        for status in (HTTPStatus.OK, HTTPStatus.TOO_MANY_REQUESTS)
    }
    accepted, refused = waited.values()
    if not len(accepted):
        raise InputError(f"{url} answered none of {len(answers)} requests: {dict(statuses)}")
    return {
        **latencies(Timings(accepted, [], memory), library, 1),
        "queries_per_second": len(accepted) / seconds,
        "refused": len(refused) / len(answers),
        "refused_p99_ms": float(np.percentile(refused, 99)) * 1000 if len(refused) else None,
        "late": sum(one.late for one in answers) / len(answers),
        "errors": {str(status): count for status, count in statuses.items() if status not in waited},
    }


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 80


def _get(url: str, path: str) -> str:
    """What the service answers; an `InputError` if there is none."""
    with closing(http.client.HTTPConnection(*_address(url), timeout=60)) as connection:
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        except (OSError, http.client.HTTPException) as error:
            raise InputError(f"no service answers at {url}: {error}") from None


def _served(url: str, collection: Collection) -> str:
    """The name of the service's first index; an `InputError` if it has not as many documents as the collection."""
    try:
        first = json.loads(_get(url, "/v1/indexes"))["indexes"][0]
    except (ValueError, KeyError):
        raise InputError(f"{url} is no service of this package, or asks for a token") from None
    if first["documents"] != len(collection):
        raise InputError(f"{url} serves {first['documents']} documents first, and not the {len(collection)} here")
    return first["name"]


def _memory(url: str) -> float:
    """Resident memory of the service's process, in MB."""
    lines = _get(url, "/metrics").splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{MEMORY} ")) / MEGABYTE
