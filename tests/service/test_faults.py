"""Overload, deadlines, closed connections, slow and invalid requests, reloads and access, over real sockets."""

import asyncio
import shutil
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import numpy as np
import pytest

import rerank_plugin as rp
from rerank_plugin.service.served_index import ServedIndex
from rerank_plugin.service.settings import ServiceConfig
from tests.service.live import serving

SEARCH = "/v1/small/search"
TOKEN = {"Authorization": "Bearer geheim"}


class BlockingReranker:
    """A reranker that scores by length, and waits while ``open`` is not set."""

    name = "blocking"
    open, calls = Event(), []

    def __init__(self, index):
        self.open.set()

    def score(self, query, candidates):
        self.calls.append(query.text)
        self.open.wait(20)
        return candidates.lengths.astype(np.float32)


@contextmanager
def blocked_reranker():
    BlockingReranker.open.clear()
    try:
        yield BlockingReranker.calls
    finally:
        BlockingReranker.open.set()


@pytest.fixture(scope="module")
def folder(index_folder, tmp_path_factory):
    """A copy of the index, which tests may replace."""
    copy = tmp_path_factory.mktemp("faults") / "index"
    shutil.copytree(index_folder, copy)
    return copy


@pytest.fixture(scope="module")
def service(folder):
    """A service with a token, a short deadline and a short queue."""
    config = ServiceConfig(
        {"small": str(folder)}, {"blocking": f"{__name__}:BlockingReranker"}, token="geheim", deadline=1, queue=4,
        body_seconds=0.5, most_megabytes=1, origins=("https://example.org",),
    )  # fmt: skip
    with serving(config, headers=TOKEN) as client:
        yield client


def state(service):
    return service.app.state.service


def wait_until(condition):
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("the condition did not become true")


def test_after_the_deadline_answers_are_in_first_stage_order(service):
    first_stage = service.get(SEARCH, params={"query": "stroke cancer", "reranker": "none"}).json()
    ranked = service.get(SEARCH, params={"query": "stroke cancer"}).json()
    with blocked_reranker():
        late = service.get(SEARCH, params={"query": "stroke cancer"}).json()
        documents = service.post("/rerank", json={"query": "a", "documents": ["b", "c"]}).json()
        texts = service.post("/rerank", json={"query": "a", "texts": ["b", "c"]})
    assert ranked["reranked"] and not late["reranked"]
    assert late["candidates"] == first_stage["candidates"] != ranked["candidates"]
    assert not documents["reranked"] and documents["meta"]["warnings"]
    assert [result["index"] for result in documents["results"]] == [0, 1]
    assert texts.status_code == 503 and texts.headers["retry-after"] == "1"


def test_a_full_queue_refuses_at_once(service):
    with blocked_reranker(), ThreadPoolExecutor(12) as clients:
        futures = [clients.submit(service.get, SEARCH, params={"query": f"cancer {n}"}) for n in range(12)]
        answers = [future.result() for future in futures]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(refused) >= 8
    assert all(answer.headers["retry-after"] == "1" and answer.json()["error"] for answer in refused)
    assert all(answer.status_code in (200, 429) for answer in answers)
    assert service.get("/readyz").status_code == 200
    assert "rerank_late_total" in service.get("/metrics").text


def test_a_closed_connection_cancels_its_query(index_folder):
    config = ServiceConfig({"small": str(index_folder)}, {"blocking": f"{__name__}:BlockingReranker"}, deadline=600)
    with serving(config) as service, blocked_reranker() as calls:
        scheduler = state(service).scheduler
        calls.clear()
        for n in range(3):
            with socket.create_connection([service.base_url.host, service.base_url.port]) as client:
                client.sendall(f"GET {SEARCH}?query=gone{n}+cancer HTTP/1.1\r\nHost: a\r\n\r\n".encode())
                wait_until(lambda: calls and len(scheduler.waiting) >= n)
        wait_until(lambda: scheduler.admitted_queries == 0)
        BlockingReranker.open.set()
        wait_until(lambda: not scheduler.waiting)
        assert service.get(SEARCH, params={"query": "cancer"}).status_code == 200
        assert calls == ["gone0 cancer", "cancer"]


def test_slow_and_idle_clients_delay_no_other_client(service):
    addresses = [service.base_url.host, service.base_url.port]
    idle = [socket.create_connection(addresses) for _ in range(100)]
    idle[0].sendall(b"POST /rerank HTTP/1.1\r\nHost: a\r\nX-API-Key: geheim\r\nContent-Length: 100\r\n\r\n{")
    assert service.get(SEARCH, params={"query": "cancer"}).status_code == 200
    idle[0].settimeout(10)
    assert idle[0].recv(100).startswith(b"HTTP/1.1 408")
    for connection in idle:
        connection.close()


def test_large_bodies_are_refused(service):
    assert service.post("/rerank", content=b"x" * (1 << 21)).status_code == 413
    parts = service.post("/rerank", content=(b"x" * 100_000 for _ in range(20)))  # chunked, without a content length
    assert parts.status_code == 413 and parts.json()["error"]


def test_reading_stops_once_a_body_is_too_large(service):
    """After three parts of half a megabyte, where one megabyte is allowed."""
    read, sent = [], []

    async def receive():
        read.append("part")
        return {"type": "http.request", "body": b"x" * (1 << 19), "more_body": len(read) < 9}

    async def send(message):
        sent.append(message)

    headers = [(b"transfer-encoding", b"chunked"), (b"x-api-key", b"geheim")]
    asyncio.run(service.app({"type": "http", "method": "POST", "path": "/rerank", "headers": headers}, receive, send))
    assert sent[0]["status"] == 413 and len(read) == 3


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"[" * 50_000, b'{"query": "a", "documents": ["\\ud800"]}', b"null"]
)
def test_malformed_bodies_get_an_error(service, body):
    answer = service.post("/rerank", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 400, 422), answer.text
    assert answer.status_code == 200 or answer.json()["error"]


def test_an_internal_error_shows_no_traceback(service, monkeypatch):
    def broken(*_):
        raise RuntimeError("/a/path/of/the/machine")

    monkeypatch.setattr(state(service).collections.current.indexes["small"], "candidates", broken)
    answer = service.get(SEARCH, params={"query": "a"})
    assert answer.status_code == 500 and "machine" not in answer.text and answer.json()["error"]
    assert "connection" not in answer.headers and answer.headers["x-frame-options"] == "DENY"
    assert state(service).scheduler.admitted_queries == 0


def test_the_token_guards_all_but_the_pages(service):
    paths = service.get("/openapi.json").json()["paths"]
    without = {"Authorization": ""}
    for path, methods in paths.items():
        for method in methods:
            status = service.request(method, path, headers=without).status_code
            assert (status == 401) == (path not in ("/healthz", "/readyz")), path
    assert service.post("/mcp", headers=without).status_code == 401
    wrong = {"Authorization": "Bearer falsch"}
    assert service.get("/v1/indexes", headers=wrong).status_code == 401
    assert service.get("/v1/indexes", headers={**without, "X-API-Key": "geheim"}).status_code == 200
    assert service.get("/", headers=without).status_code == service.get("/docs/", headers=without).status_code == 200


def test_response_headers(service):
    for path in ("/", "/docs/", "/v1/indexes", "/nothing"):
        headers = service.get(path).headers
        assert "unsafe" not in headers["content-security-policy"] and headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers and "server" not in headers
    for origin, allowed in (("https://example.org", "https://example.org"), ("https://evil.org", None)):
        preflight = {"Origin": origin, "Access-Control-Request-Method": "GET", "Authorization": ""}
        answer = service.options(SEARCH, headers=preflight)
        assert answer.headers.get("access-control-allow-origin") == allowed


def test_the_pages_load_from_no_other_host(service):
    page = service.get("/docs/").text
    assert "http" not in page
    for path in ("/docs/start.js", "/docs/swagger/swagger-ui-bundle.js", "/docs/swagger/swagger-ui.css"):
        assert path in page and service.get(path).status_code == 200


def test_indexes_in_use_are_closed_after_their_use(service, monkeypatch):
    closed, collections = [], state(service).collections
    monkeypatch.setattr(ServedIndex, "close", lambda self: closed.append(self))
    with collections.in_use() as before:
        collections.reload()
        assert collections.current is not before and not closed
    assert closed == [*before.indexes.values()]


def test_a_reload_fails_no_request_and_serves_the_new_index(service, folder, tmp_path):
    before = state(service).collections.current
    rp.build_index([rp.Document("new", "A new document", "Cancer and stroke.")], tmp_path / "index")
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "index", folder)
    with blocked_reranker(), ThreadPoolExecutor(2) as clients:
        running = clients.submit(service.get, SEARCH, params={"query": "stroke"})
        wait_until(lambda: state(service).scheduler.waiting or BlockingReranker.calls[-1] == "stroke")
        BlockingReranker.open.set()
        assert service.post("/admin/reload").json() == {"status": "reloaded"}
        assert running.result().status_code == 200
    assert before.retired and not before.users
    answer = service.get(SEARCH, params={"query": "stroke"}).json()
    assert [hit["docid"] for hit in answer["candidates"]] == ["new"] and answer["reranked"]
    (folder / "index.json").unlink()
    failed = service.post("/admin/reload")
    assert failed.status_code == 503 and str(folder) not in failed.text
    assert service.get(SEARCH, params={"query": "stroke"}).json()["candidates"] == answer["candidates"]


def test_a_reload_serves_the_new_checkpoint(index_folder, tmp_path):
    folder = tmp_path / "model"
    config = ServiceConfig({"small": str(index_folder)}, {"mine": str(folder)}, token="geheim", deadline=60)
    rp.Reranker.load("delta").save_pretrained(folder)
    with serving(config, headers=TOKEN) as client:
        for name in ("delta", "ktrel"):
            rp.Reranker.load(name).save_pretrained(folder, overwrite=True)
            assert client.post("/admin/reload").status_code == 200
            with rp.Searcher(index_folder, reranker=name) as searcher:
                expected = [(hit.docid, hit.score) for hit in searcher.search("stroke cancer")]
            hits = client.get(SEARCH, params={"query": "stroke cancer"}).json()["candidates"]
            assert [(hit["docid"], hit["score"]) for hit in hits] == expected
            body = {"query": "stroke", "texts": ["a stroke", "b"], "raw_scores": True}
            texts = client.post("/rerank", json=body).json()
            assert texts[0]["score"] == rp.Reranker.load(name).rerank("stroke", ["a stroke", "b"])[0].score
