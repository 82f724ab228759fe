"""The limits of bodies, headers and connections, over real sockets: what one client sends keeps no other waiting."""

import asyncio
import gzip
import json
import random
import resource
import socket
import threading
import time
import tracemalloc
import zlib
from contextlib import ExitStack, contextmanager, suppress

import httpx
import pytest

from rerank_plugin.service import connections
from rerank_plugin.service.bodies import JsonBody
from rerank_plugin.service.config import ServiceConfig
from rerank_plugin.service.rerank_api import RerankRequest
from tests.service.live import serving

MEGABYTE = 1 << 20
HEAD = b"POST /rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
LARGE = b"GET /docs/swagger/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost\r\n\r\n"  # an answer of 1.5 MB
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
SENT = {"query": "a", "texts": ["b"]}


@pytest.fixture(scope="module")
def service(index_folder):
    config = ServiceConfig(
        {"small": str(index_folder)}, {"titles": "bm25-title"}, most_megabytes=3, most_unpacked_megabytes=2,
        most_held_megabytes=3, most_connections=12, header_seconds=0.5, body_seconds=5,
    )  # fmt: skip
    with serving(config) as client:
        yield client


def post(service, body, encoding="identity", path="/rerank"):
    return service.post(path, content=body, headers={**JSON, "Content-Encoding": encoding})


def chunked(body):
    return iter([body[: len(body) // 2], body[len(body) // 2 :]])


def padded(size):
    """A request in so many bytes, which hardly can be packed."""
    filler = random.Random(size).randbytes(size // 2).hex()
    start, end = json.dumps(SENT)[:-1] + ', "more": "', '"}'
    return (start + filler[: size - len(start) - len(end)].ljust(size - len(start) - len(end)) + end).encode()


@contextmanager
def connected(service, *sent):
    """A connection for each of the texts, which it has sent."""
    with ExitStack() as stack:
        opened = []
        for text in sent:
            connection = socket.create_connection([service.base_url.host, service.base_url.port], timeout=20)
            opened.append(stack.enter_context(connection))
            connection.sendall(text)
        yield opened


def read(connection):
    """What a connection receives until it is closed."""
    parts = []
    try:
        while part := connection.recv(100_000):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@pytest.mark.parametrize(
    "pack, encoding, limit",
    [
        (bytes, "identity", 3 * MEGABYTE),
        (chunked, "identity", 3 * MEGABYTE),
        (gzip.compress, "gzip", 2 * MEGABYTE),
        (gzip.compress, "X-GZip", 2 * MEGABYTE),
        (zlib.compress, "deflate", 2 * MEGABYTE),
        (lambda body: chunked(gzip.compress(body)), "gzip", 2 * MEGABYTE),
    ],
)
def test_a_body_may_have_so_many_bytes_and_not_one_more(service, pack, encoding, limit):
    for path in ("/rerank", "/mcp"):
        assert post(service, pack(padded(limit)), encoding, path).status_code == {"/rerank": 200, "/mcp": 400}[path]
        refused = post(service, pack(padded(limit + 1)), encoding, path)
        assert refused.status_code == 413 and f"larger than {limit >> 20} MB" in refused.json()["error"]


def test_a_body_that_is_announced_as_too_large_is_not_waited_for(service):
    with connected(service, HEAD + b"Content-Length: %d\r\n\r\n" % (3 * MEGABYTE + 1)) as (client,):
        assert read_head(client).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("encoding, pack", [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_bomb_is_not_unpacked(service, encoding, pack):
    """64 MB in 64 KB: no more than the limit is ever in memory; and 1.5 MB in 1.5 KB are too much for their size."""
    bomb = pack(bytes(64 * MEGABYTE))
    for path in ("/rerank", "/mcp"):
        tracemalloc.start()
        assert post(service, bomb, encoding, path).status_code == 413
        assert tracemalloc.get_traced_memory()[1] < 12 * MEGABYTE
        tracemalloc.stop()
        assert (
            post(service, pack(json.dumps(SENT).encode().ljust(MEGABYTE * 3 // 2)), encoding, path).status_code == 413
        )
    for unknown in ("br", "zstd", "gzip, gzip", "nothing"):
        refused = post(service, bomb, unknown)
        assert refused.status_code == 415 and "send gzip" in refused.json()["error"]


@pytest.mark.parametrize("items", [["1"] * 400_000, ['""'] * 400_000, ["[]"] * 200_000, ['{"":""}'] * 200_000])
def test_items_are_counted_before_they_are_read(service, items, monkeypatch):
    """Of a body of a megabyte with hundreds of thousands of items nothing is decoded."""
    monkeypatch.setattr(json, "loads", lambda *_: pytest.fail("decoded"))
    text = f"[{','.join(items)}]"
    call = {"name": "rerank", "arguments": {"query": "a", "documents": text}}
    bodies = [("/rerank", f'{{"query": "a", "{field}": {text}}}') for field in ("documents", "texts", "other")]
    fields = ",".join(f'"{number:012}": {items[0]}' for number in range(100_000))
    bodies.append(("/rerank", f'{{"query": "a", "documents": [{{"text": "b", {fields}}}]}}'))
    bodies.append(("/mcp", json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})))
    for path, body in bodies:
        answers = [
            post(service, body.encode(), path=path),
            post(service, zlib.compress(body.encode()), "deflate", path),
        ]
        assert {answer.status_code for answer in answers} == {413}


def test_validation_ends_at_the_first_error_in_a_thread(service, monkeypatch):
    with pytest.raises(ValueError) as invalid:
        RerankRequest.model_validate({"query": "a", "documents": [1] * 10_000})
    assert invalid.value.error_count() <= 2  # one for each type that an item may have
    threads, validate = set(), JsonBody._parsed
    monkeypatch.setattr(
        JsonBody, "_parsed", lambda *given: threads.add(threading.current_thread().name) or validate(*given)
    )
    assert post(service, json.dumps({"query": "a", "documents": [1] * 1001}).encode()).status_code == 413
    assert post(service, json.dumps({str(n): n for n in range(1001)}).encode()).status_code == 413
    assert len(threads) > 0 and all("AnyIO" in name for name in threads)


def test_the_largest_body_gives_way_where_all_are_too_much(service):
    body = b"Content-Length: 3000000\r\n\r\n"
    with connected(service, HEAD + body + b" " * 2_000_000, HEAD + body + b" " * 900_000) as (larger, smaller):
        bodies = next(m for m in walk(service.app) if hasattr(m, "bodies")).bodies
        wait_until(lambda: bodies.total >= 2_900_000)
        assert service.post("/rerank", json=SENT).status_code == 200  # too small to be refused
        smaller.sendall(b" " * 600_000)
        assert read_head(larger).startswith(b"HTTP/1.1 503")
        smaller.sendall(b" " * 1_500_000)
        assert read_head(smaller).startswith(b"HTTP/1.1 422")
    wait_until(lambda: not bodies.held and not bodies.total)


def walk(app):
    """The middleware of an application, from outside."""
    app = app.middleware_stack
    while app is not None:
        yield app
        app = getattr(app, "app", None)


def wait_until(condition):
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("the condition did not become true")


def read_head(connection):
    return connection.recv(1000)


@pytest.mark.parametrize(
    "sent",
    [
        GET + b"X-A: a\r\n" * connections.MOST_HEADERS + b"\r\n",
        GET + b"X-A: " + b"a" * connections.MOST_HEADER_BYTES + b"\r\n\r\n",
        GET + b"X-A: " + b"a" * 8 * MEGABYTE,  # without an end
        GET + (b"X-A: " + b"a" * 2000 + b"\r\n") * 100 + b"\r\n",
        b"GET /healthz?" + b"a" * connections.MOST_HEADER_BYTES + b" HTTP/1.1\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X-A: a\r\n" * 200 + b"\r\n",  # trailers
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-A: " + b"a" * 16 * MEGABYTE,
    ],
)
def test_headers_are_bounded_in_number_and_bytes(service, sent):
    with connected(service) as _, socket.create_connection([service.base_url.host, service.base_url.port]) as client:
        client.settimeout(20)
        try:
            client.sendall(sent)
        except OSError:
            return  # closed while it sends
        assert read(client)[:12] in (b"HTTP/1.1 431", b"")
    allowed = {f"X-{n}": "a" * 500 for n in range(connections.MOST_HEADERS - 10)}
    assert service.get("/healthz", headers=allowed).status_code == 200


def test_parameters_are_counted(service):
    answer = service.get("/v1/small/search?" + "&".join(f"x{n}=1" for n in range(5000)))
    assert answer.status_code == 400 and "more than 1000 parameters" in answer.json()["error"]
    assert service.get("/v1/small/search", params={"query": "a", "filter": ["year:2015"] * 101}).status_code == 400


def test_beyond_the_most_connections_one_that_waits_for_its_client_is_closed(index_folder):
    idle = [b"", GET + b"\r\n", GET + b"X-Slow: ", HEAD + b"Content-Length: 9\r\n\r\n{", LARGE * 8]
    config = ServiceConfig(
        {"small": str(index_folder)}, {"titles": "bm25-title"}, most_connections=12, header_seconds=60, body_seconds=60
    )
    with serving(config) as service:

        def is_served():
            with suppress(httpx.TransportError):
                return httpx.get(f"{service.base_url}/v1/small/search?query=cancer").status_code == 200

        for sent in idle:
            with connected(service, *[sent] * 40):
                wait_until(is_served)
                wait_until(lambda: len(service.server.server_state.connections) <= 12)


def test_an_answer_that_nobody_reads_is_given_up(service):
    """Of one request, and of several that were sent at once; a client that reads slowly gets all."""
    opened = next(m for m in walk(service.app) if hasattr(m, "bodies")).bodies.held
    with connected(service, LARGE * 8, LARGE * 8):
        wait_until(lambda: opened)
        wait_until(lambda: not opened)
    with connected(service, LARGE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")) as (slow,):
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 200_000)
        answer = read(slow)
    assert len(answer) > 1_000_000 and len(answer.partition(b"\r\n\r\n")[2]) == len(
        service.get("/docs/swagger/swagger-ui-bundle.js").content
    )


def test_requests_before_the_answer_to_the_first_are_few(service):
    with connected(service, (GET + b"\r\n") * 9) as (few,):
        few.settimeout(2)
        received = b""
        while received.count(b"HTTP/1.1 200") < 9:
            received += few.recv(10_000)
    with connected(service, (GET + b"\r\n") * 5000) as (many,):
        assert read(many).count(b"HTTP/1.1") < 12


def test_streams_of_mcp_are_refused(service):
    assert service.get("/mcp", headers={"Accept": "text/event-stream"}).status_code == 405
    assert service.delete("/mcp").headers["allow"] == "POST"
    listen = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {}}
    assert service.post("/mcp", json=listen, headers=JSON).status_code in (200, 400, 404)


def test_the_limit_of_open_files_is_raised():
    """Java would raise it, too, but a service on a cluster has none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections.OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, connections.OPEN_FILES)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted - 1, hard))
        connections.raise_open_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (wanted, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_failed_accept_is_logged_once(service, caplog):
    server = connections.server_of(service.app)
    loop = asyncio.new_event_loop()
    for _ in range(3000):
        context = {"message": "socket.accept() out of system resource", "exception": OSError(24, "Too many open files")}
        server._handle_exception(loop, context)
    assert [record.getMessage() for record in caplog.records] == [
        "a connection was not accepted: [Errno 24] Too many open files"
    ]
    server._handle_exception(loop, {"message": "something else"})
    loop.close()
    assert len(caplog.records) == 2
