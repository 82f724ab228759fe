"""Overload, deadlines, clients that leave, slow and wrong requests, reloads and access, over real sockets."""

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


class Held:
    """A reranker that scores by length, and waits while ``open`` is not set."""

    name = "held"
    open, calls = Event(), []

    def __init__(self, index):
        self.open.set()

    def score(self, query, candidates):
        self.calls.append(query.text)
        self.open.wait(20)
        return candidates.lengths.astype(np.float32)


@contextmanager
def held():
    Held.open.clear()
    try:
        yield Held.calls
    finally:
        Held.open.set()


@pytest.fixture(scope="module")
def folder(index_folder, tmp_path_factory):
    """A copy of the index, which may be replaced."""
    copy = tmp_path_factory.mktemp("faults") / "index"
    shutil.copytree(index_folder, copy)
    return copy


@pytest.fixture(scope="module")
def service(folder):
    """A service with a token, a short deadline and a short queue."""
    config = ServiceConfig(
        {"small": str(folder)}, {"held": f"{__name__}:Held"}, token="geheim", deadline=1, queue=4, body_seconds=0.5,
        most_megabytes=1, origins=("https://example.org",),
    )  # fmt: skip
    with serving(config, headers=TOKEN) as client:
        yield client


def state(service):
    return service.app.state.service


def wait_until(true):
    for _ in range(500):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def test_after_the_deadline_the_first_stage_s_order_is_returned(service):
    plain = service.get(SEARCH, params={"query": "stroke cancer", "reranker": "none"}).json()
    ranked = service.get(SEARCH, params={"query": "stroke cancer"}).json()
    with held():
        late = service.get(SEARCH, params={"query": "stroke cancer"}).json()
        sent = service.post("/rerank", json={"query": "a", "documents": ["b", "c"]}).json()
        texts = service.post("/rerank", json={"query": "a", "texts": ["b", "c"]})
    assert ranked["reranked"] and not late["reranked"]
    assert late["candidates"] == plain["candidates"] != ranked["candidates"]
    assert not sent["reranked"] and [one["index"] for one in sent["results"]] == [0, 1] and sent["meta"]["warnings"]
    assert texts.status_code == 503 and texts.headers["retry-after"] == "1"


def test_more_than_the_queue_holds_are_refused_at_once(service):
    with held(), ThreadPoolExecutor(12) as clients:
        asked = [clients.submit(service.get, SEARCH, params={"query": f"cancer {at}"}) for at in range(12)]
        answers = [one.result() for one in asked]
    refused = [one for one in answers if one.status_code == 429]
    assert len(refused) >= 8 and all(one.headers["retry-after"] == "1" and one.json()["error"] for one in refused)
    assert all(one.status_code in (200, 429) for one in answers)
    assert service.get("/readyz").status_code == 200
    assert "rerank_late_total" in service.get("/metrics").text


def test_a_client_that_leaves_costs_nothing_more(index_folder):
    config = ServiceConfig({"small": str(index_folder)}, {"held": f"{__name__}:Held"}, deadline=600)
    with serving(config) as service, held() as calls:
        scheduler = state(service).scheduler
        calls.clear()
        for at in range(3):
            with socket.create_connection([service.base_url.host, service.base_url.port]) as client:
                client.sendall(f"GET {SEARCH}?query=gone{at}+cancer HTTP/1.1\r\nHost: a\r\n\r\n".encode())
                wait_until(lambda: calls and len(scheduler.waiting) >= at)
        wait_until(lambda: scheduler.inside == 0)
        Held.open.set()
        wait_until(lambda: not scheduler.waiting)
        assert service.get(SEARCH, params={"query": "cancer"}).status_code == 200
        assert calls == ["gone0 cancer", "cancer"]


def test_slow_and_idle_clients_hold_nobody_up(service):
    addresses = [service.base_url.host, service.base_url.port]
    idle = [socket.create_connection(addresses) for _ in range(100)]
    idle[0].sendall(b"POST /rerank HTTP/1.1\r\nHost: a\r\nX-API-Key: geheim\r\nContent-Length: 100\r\n\r\n{")
    assert service.get(SEARCH, params={"query": "cancer"}).status_code == 200
    idle[0].settimeout(10)
    assert idle[0].recv(100).startswith(b"HTTP/1.1 408")
    for one in idle:
        one.close()


def test_large_bodies_are_refused(service):
    assert service.post("/rerank", content=b"x" * (1 << 21)).status_code == 413
    parts = service.post("/rerank", content=(b"x" * 100_000 for _ in range(20)))  # chunked: of no told length
    assert parts.status_code == 413 and parts.json()["error"]


def test_of_a_body_that_is_too_large_no_more_is_read_than_shows_it(service):
    """Three parts of half a megabyte, where one may come."""
    read, said = [], []

    async def receive():
        read.append("part")
        return {"type": "http.request", "body": b"x" * (1 << 19), "more_body": len(read) < 9}

    async def send(message):
        said.append(message)

    headers = [(b"transfer-encoding", b"chunked"), (b"x-api-key", b"geheim")]
    asyncio.run(service.app({"type": "http", "method": "POST", "path": "/rerank", "headers": headers}, receive, send))
    assert said[0]["status"] == 413 and len(read) == 3


@pytest.mark.parametrize(
    "sent", [b"", b"{", b"\xff", b"[" * 50_000, b'{"query": "a", "documents": ["\\ud800"]}', b"null"]
)
def test_broken_bodies_get_one_clear_error(service, sent):
    answer = service.post("/rerank", content=sent, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 400, 422), answer.text
    assert answer.status_code == 200 or answer.json()["error"]


def test_a_failure_inside_shows_no_traceback(service, monkeypatch):
    def broken(*_):
        raise RuntimeError("/a/path/of/the/machine")

    monkeypatch.setattr(state(service).collections.now.indexes["small"], "candidates", broken)
    answer = service.get(SEARCH, params={"query": "a"})
    assert answer.status_code == 500 and "machine" not in answer.text and answer.json()["error"]
    assert "connection" not in answer.headers and answer.headers["x-frame-options"] == "DENY"
    assert state(service).scheduler.inside == 0


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


def test_headers_of_answers(service):
    for path in ("/", "/docs/", "/v1/indexes", "/nothing"):
        headers = service.get(path).headers
        assert "unsafe" not in headers["content-security-policy"] and headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers and "server" not in headers
    for origin, allowed in (("https://example.org", "https://example.org"), ("https://evil.org", None)):
        preflight = {"Origin": origin, "Access-Control-Request-Method": "GET", "Authorization": ""}
        answer = service.options(SEARCH, headers=preflight)
        assert answer.headers.get("access-control-allow-origin") == allowed


def test_the_pages_ask_no_other_host(service):
    page = service.get("/docs/").text
    assert "http" not in page
    for place in ("/docs/start.js", "/docs/swagger/swagger-ui-bundle.js", "/docs/swagger/swagger-ui.css"):
        assert place in page + "/docs/start.js" and service.get(place).status_code == 200


def test_what_is_in_use_is_closed_after_its_use(service, monkeypatch):
    closed, collections = [], state(service).collections
    monkeypatch.setattr(ServedIndex, "close", lambda self: closed.append(self))
    with collections.used() as before:
        collections.reload()
        assert collections.now is not before and not closed
    assert closed == [*before.indexes.values()]


def test_a_reload_drops_nothing_and_serves_the_new_index(service, folder, tmp_path):
    before = state(service).collections.now
    rp.build_index([rp.Document("new", "A new document", "Cancer and stroke.")], tmp_path / "index")
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "index", folder)
    with held(), ThreadPoolExecutor(2) as clients:
        running = clients.submit(service.get, SEARCH, params={"query": "stroke"})
        wait_until(lambda: state(service).scheduler.waiting or Held.calls[-1] == "stroke")
        Held.open.set()
        assert service.post("/admin/reload").json() == {"status": "reloaded"}
        assert running.result().status_code == 200
    assert before.retired and not before.users
    found = service.get(SEARCH, params={"query": "stroke"}).json()
    assert [one["docid"] for one in found["candidates"]] == ["new"] and found["reranked"]
    (folder / "index.json").unlink()
    failed = service.post("/admin/reload")
    assert failed.status_code == 503 and str(folder) not in failed.text
    assert service.get(SEARCH, params={"query": "stroke"}).json()["candidates"] == found["candidates"]


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
            found = client.get(SEARCH, params={"query": "stroke cancer"}).json()["candidates"]
            assert [(one["docid"], one["score"]) for one in found] == expected
            asked = {"query": "stroke", "texts": ["a stroke", "b"], "raw_scores": True}
            texts = client.post("/rerank", json=asked).json()
            assert texts[0]["score"] == rp.Reranker.load(name).rerank("stroke", ["a stroke", "b"])[0].score
