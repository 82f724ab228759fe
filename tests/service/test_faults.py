"""Overload, deadlines, closed connections, slow and invalid requests, reloads and access, over real sockets."""

import asyncio
import gzip
import json
import re
import shutil
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import numpy as np
import pytest

import rerank_plugin as rp
from rerank_plugin.base.stopping import Stopped
from rerank_plugin.indexes.commits import next_commit
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.text_index import TextIndex
from rerank_plugin.indexes.updating import delete
from rerank_plugin.rerankers import Scorer
from rerank_plugin.service.config import ServiceConfig
from rerank_plugin.service.served_index import ServedIndex
from tests.service.live import serving

SEARCH = "/v1/small/search"
JSON = {"Content-Type": "application/json"}
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


class LoadingReranker(Scorer):
    """A reranker whose first explanation waits until ``loaded`` is set."""

    name = "loading"
    begun, loaded = Event(), Event()

    def __init__(self, index):
        pass

    def score(self, query, candidates):
        return candidates.lengths.astype(np.float32)

    def load_attribution(self):
        self.begun.set()
        self.loaded.wait(20)


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
        {"small": str(folder)},
        {name: f"{__name__}:{name.title()}Reranker" for name in ("blocking", "loading")},
        token="geheim", deadline=1, queue=4, body_seconds=0.5, most_megabytes=1, origins=("https://example.org",),
    )  # fmt: skip
    with serving(config, headers=TOKEN) as client:
        yield client


def state(service):
    return service.app.state.service


def wait_until(condition):
    for _ in range(6000):
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
        with ThreadPoolExecutor(20) as agents:  # all wait, and none is refused
            asked = [agents.submit(service.get, SEARCH, params={"query": f"cancer {n}"}) for n in range(20)]
            wait_until(lambda: scheduler.admitted_queries == 20)
            BlockingReranker.open.set()
            assert all(answer.result().json()["reranked"] for answer in asked)
        BlockingReranker.open.clear()
        calls.clear()
        for n in range(3):
            with socket.create_connection([service.base_url.host, service.base_url.port]) as client:
                client.sendall(f"GET {SEARCH}?query=gone{n}+cancer HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                wait_until(lambda: calls and len(scheduler.waiting) >= n)
        wait_until(lambda: scheduler.admitted_queries == 0)
        BlockingReranker.open.set()
        wait_until(lambda: not scheduler.waiting)
        assert service.get(SEARCH, params={"query": "cancer"}).status_code == 200
        assert calls == ["gone0 cancer", "cancer"]


def test_searches_do_not_wait_for_what_the_first_explanation_loads(service):
    searched = {"query": "cancer", "reranker": "loading"}
    docid = service.get(SEARCH, params=searched).json()["candidates"][0]["docid"]
    with ThreadPoolExecutor(1) as client:
        explanation = client.submit(service.get, "/v1/small/explain", params=searched | {"docid": docid})
        assert LoadingReranker.begun.wait(20)
        assert service.get(SEARCH, params=searched).json()["reranked"] and not explanation.done()
        LoadingReranker.loaded.set()
        assert explanation.result().json()["rank"] == 1


def test_slow_and_idle_clients_delay_no_other_client(service):
    addresses = [service.base_url.host, service.base_url.port]
    idle = [socket.create_connection(addresses) for _ in range(100)]
    idle[0].sendall(b"POST /rerank HTTP/1.1\r\nHost: localhost\r\nX-API-Key: geheim\r\nContent-Length: 100\r\n\r\n{")
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


@pytest.mark.parametrize(
    "path, body",
    [
        ("export", {"docids": ["\ud800"]}),
        ("screening", {"search": {"query": ["a"]}, "decided": ["\ud800"]}),
        *(
            ("screening", {"search": {"query": ["a"], **search}})
            for search in (
                {"reranker": "\ud800"}, {"first_stage": "\ud800"}, {"filter": ["type:\ud800"]},
                {"filter": ["\ud800:a"]}, {"reranker": f"titles@{'9' * 5000}"}, {"filter": ["type:\0"]},
                {"filter": ["type:" + "a" * 5000]},
            )
        ),
    ],
)  # fmt: skip
def test_texts_that_no_index_can_have_are_refused(service, path, body):
    answer = service.post(f"/v1/small/{path}", content=json.dumps(body), headers=JSON)
    assert answer.status_code in (400, 422) and answer.json()["error"], answer.text


def test_an_unknown_field_of_values_is_refused(service):
    answer = service.get("/v1/small/values", params={"field": "x"})
    assert answer.status_code == 400 and "has the field 'x'; usable filters" in answer.json()["error"]


def test_gzip_bodies_are_unpacked_within_the_limit(service):
    body = json.dumps({"query": "a", "texts": ["a text", "b"]}).encode()

    def post(content, encoding="gzip"):
        headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
        return service.post("/rerank", content=content, headers=headers)

    assert post(gzip.compress(body)).json() == service.post("/rerank", content=body, headers=JSON).json()
    assert len(post(gzip.compress(body)).json()) == 2
    bomb = post(gzip.compress(b"x" * (1 << 24)))
    assert bomb.status_code == 413 and "larger than 1 MB" in bomb.json()["error"]
    for content, encoding, status in (
        (body, "gzip", 400), (gzip.compress(body)[:-9], "gzip", 400), (b"", "gzip", 400), (body, "br", 415),
        (body, "identity", 200),
    ):  # fmt: skip
        assert post(content, encoding).status_code == status, (content, encoding)


def test_one_long_word_is_refused_before_it_is_tokenized(index_folder):
    """15 MB of "1.1.1." are one word between spaces, and millions for the tokenizer."""
    with serving(ServiceConfig({"small": str(index_folder)}, {"delta": "delta"}, deadline=60)) as service:
        for text in ("1." * 7_500_000, "a-" * 40_000, "x" * 200_000, "1 " * 5001):
            for body in ({"documents": [text]}, {"texts": ["b", text]}, {"documents": [{"title": text, "text": "b"}]}):
                started = time.thread_time()
                answer = service.post("/rerank", json={"query": "a", **body})
                assert answer.status_code == 413 and "shorten it" in answer.json()["error"]
                assert time.thread_time() - started < 5
            assert service.get(SEARCH, params={"query": text[:60_000]}).status_code in (200, 400)
            assert service.get(
                SEARCH, params={"query": "migraine", "filter": f"journal:{text[:60_000]}"}
            ).status_code in (200, 400)
            for cut in ({"texts": [text, "b"], "truncate": True}, {"documents": [text, "b"], "truncation": True}):
                assert service.post("/rerank", json={"query": "a", **cut}).status_code == 200
        all_of_them = service.post("/rerank", json={"query": "a", "documents": ["a" * 90_000] * 60})
        assert all_of_them.status_code == 413 and "5,400,000 characters" in all_of_them.json()["error"]
        answer = service.post("/rerank", json={"query": "a", "documents": ["a " * 9000], "max_tokens_per_doc": 100})
        assert answer.json()["usage"]["total_tokens"] == 100
        assert not state(service).scheduler.admitted_queries


def test_work_of_a_client_that_has_gone_stops_between_steps(index_folder, monkeypatch):
    """The tokenizer of new words is asked for a step at a time: what nobody waits for any more ends there."""
    began, gone, asked, ended = Event(), Event(), TextIndex._add_pieces, []

    def held(self, new):
        began.set()
        gone.wait(60)
        try:
            asked(self, new)
        except Stopped:
            ended.append("stopped")
            raise
        ended.append("done")

    with serving(ServiceConfig({"small": str(index_folder)}, {"delta": "delta"}, deadline=60)) as service:
        monkeypatch.setattr(TextIndex, "_add_pieces", held)
        body = json.dumps({"query": "a", "documents": ["a word of nobody: xqvyz"]})
        with socket.create_connection([service.base_url.host, service.base_url.port]) as connection:
            head = "POST /rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            assert began.wait(60)
        wait_until(lambda: not state(service).scheduler.admitted_queries)
        gone.set()
        wait_until(lambda: not state(service).scheduler.running)
        assert ended == ["stopped"]
        monkeypatch.setattr(TextIndex, "_add_pieces", asked)
        later = service.post("/rerank", json={"query": "migraine", "documents": ["stroke", "migraine"]}).json()
        assert later["reranked"] and later["results"][0]["index"] == 1


def test_parallel_clients_of_a_rag_pipeline_are_all_served(index_folder):
    texts = [
        f"Passage {n}: aspirin lowers the risk of stroke in patients with migraine, trial {n}." for n in range(100)
    ]
    body = {"query": "aspirin and stroke", "documents": texts, "top_n": 5}
    with serving(ServiceConfig({"small": str(index_folder)}, {"delta": "delta"}, deadline=60)) as service:
        with ThreadPoolExecutor(32) as clients:
            answers = list(clients.map(lambda _: service.post("/v2/rerank", json=body), range(64)))
        assert {answer.status_code for answer in answers} == {200}
        assert all(answer.json()["reranked"] for answer in answers)
        assert len({str(answer.json()["results"]) for answer in answers}) == 1


def test_large_requests_fill_the_queue(service):
    """A request of texts costs what its characters cost."""
    body = {"query": "a", "texts": ["a text of some words " * 10] * 900}
    with blocked_reranker(), ThreadPoolExecutor(8) as clients:
        short = [clients.submit(service.post, "/rerank", json={"query": "a", "texts": ["b"]}) for _ in range(6)]
        wait_until(lambda: state(service).scheduler.admitted_queries > 0.5)
        large = [clients.submit(service.post, "/rerank", json=body) for _ in range(2)]
        assert 429 not in {answer.result().status_code for answer in (*short, *large)}
        assert state(service).scheduler.admitted_queries == 0


def test_connections_without_complete_headers_are_bounded_in_time_and_number(index_folder):
    config = ServiceConfig(
        {"small": str(index_folder)}, {"titles": "bm25-title"}, header_seconds=0.4, most_unfinished=3
    )  # fmt: skip
    with serving(config) as service:
        addresses = [service.base_url.host, service.base_url.port]
        opened = []
        for _ in range(5):
            connection = socket.create_connection(addresses)
            connection.settimeout(10)
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
            opened.append(connection)
            time.sleep(0.02)
        started = time.monotonic()
        for connection in opened:
            assert connection.recv(100).startswith(b"HTTP/1.1 408") and connection.recv(100) == b""
            connection.close()
        assert time.monotonic() - started < 8
        assert service.get("/healthz").status_code == 200
        with socket.create_connection(addresses) as kept:  # a second request, whose headers do not come
            kept.settimeout(10)
            kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while not answer.endswith(b"}"):  # headers and body may come one by one
                answer += kept.recv(10_000)
            assert answer.startswith(b"HTTP/1.1 200")
            kept.sendall(b"GET /he")
            assert kept.recv(100).startswith(b"HTTP/1.1 408") and kept.recv(100) == b""


def test_reloads_that_are_asked_for_together_are_one(service, monkeypatch):
    started, go, calls = Event(), Event(), []

    def reload():
        calls.append(1)
        started.set()
        go.wait(20)

    monkeypatch.setattr(state(service).collections, "reload", reload)
    asked = [state(service).reloads.ask()]
    assert started.wait(10)
    asked += [state(service).reloads.ask() for _ in range(9)]
    go.set()
    assert [future.result(10) for future in asked] == [None] * 10 and len(calls) == 2


def test_the_end_of_the_service_gives_up_a_reload(index_folder, monkeypatch):
    config = ServiceConfig({"small": str(index_folder)}, {"titles": "bm25-title", "texts": "bm25-text"})
    inside, loaded, load = Event(), [], ServedIndex._warm
    with serving(config) as service:
        reloads = state(service).reloads

        def slow(self):
            loaded.append(self)
            inside.set()
            wait_until(lambda: reloads.abandoned)
            load(self)

        monkeypatch.setattr(ServedIndex, "_warm", slow)
        asked = [reloads.ask() for _ in range(3)]
        assert inside.wait(10)
    assert len(loaded) == 1 and all(isinstance(future.result(0), rp.InputError) for future in asked[:1])


def test_an_internal_error_shows_no_traceback(service, monkeypatch):
    def broken(*_):
        raise RuntimeError("/a/path/of/the/machine")

    monkeypatch.setattr(state(service).collections.current.indexes["small"], "pipeline", broken)
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
            assert (status == 401) == (path not in ("/health", "/healthz", "/readyz")), path
    assert service.post("/mcp", headers=without).status_code == 401
    for path in ("//v1/indexes", "/v1//indexes", "/v1/indexes/", "//metrics", "/info/"):
        refused = service.get(f"{service.base_url}".rstrip("/") + path, headers=without)
        assert refused.status_code == 401 and refused.headers["www-authenticate"].startswith("Bearer"), path
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
    for path in ("start.js", "swagger/swagger-ui-bundle.js", "swagger/swagger-ui.css"):
        assert f'"{path}"' in page and service.get(f"/docs/{path}").status_code == 200


def test_indexes_in_use_are_closed_after_their_use(service, monkeypatch):
    closed, collections = [], state(service).collections
    monkeypatch.setattr(ServedIndex, "close", lambda self: closed.append(self))
    with collections.in_use() as before:
        collections.reload()
        assert collections.current is not before and not closed
    assert closed == [*before.indexes.values()]


def test_an_index_that_cannot_be_opened_stops_no_other(index_folder, tmp_path):
    old = shutil.copytree(index_folder, tmp_path / "old") / "index.json"
    old.write_text(re.sub('"format_version": [0-9]+', '"format_version": 1', old.read_text()))
    indexes = {"small": str(index_folder), "old": str(old.parent)}
    config = ServiceConfig(indexes, {"bm25-title": "bm25-title"}, token="geheim")
    with serving(config, headers=TOKEN) as service:
        assert service.get(SEARCH, params={"query": "stroke"}).status_code == 200
        refused = service.get("/v1/old/search", params={"query": "stroke"})
        assert (
            refused.status_code == 503
            and "build it again" in refused.json()["error"]
            and str(tmp_path) not in refused.text
        )
        listed = service.get("/v1/indexes").json()
        assert listed["refused"] == {"old": refused.json()["error"]} and len(listed["indexes"]) == 1
        shutil.copytree(index_folder, old.parent, dirs_exist_ok=True)
        assert service.post("/admin/reload").status_code == 200
        assert service.get("/v1/old/search", params={"query": "stroke"}).status_code == 200


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


def test_an_update_is_searchable_when_it_is_answered(index_folder, tmp_path):
    """Running searches use the old commit; a request that fails changes nothing; commits of others are seen."""
    folder = shutil.copytree(index_folder, tmp_path / "index")
    config = ServiceConfig(
        {"small": str(folder)}, {"blocking": f"{__name__}:BlockingReranker"}, token="geheim", deadline=60, watch=0.05
    )
    new = {"id": "new", "title": "A new document", "abstract": "Quokka.", "metadata": {"journal": "J"}}
    with serving(config, headers=TOKEN) as service:

        def update(**body):
            return service.post("/admin/update", json=body)

        with blocked_reranker(), ThreadPoolExecutor(2) as clients:
            running = clients.submit(service.get, SEARCH, params={"query": "stroke"})
            wait_until(lambda: BlockingReranker.calls[-1] == "stroke")
            answer = clients.submit(update, add=[new], delete=["MED-1"])
            wait_until(lambda: Index(folder).description["number"] == 3)
            BlockingReranker.open.set()
            assert answer.result().json() == {"documents": 40, "status": "reloaded"}
            assert running.result().status_code == 200
        found = service.get(SEARCH, params={"query": "quokka statins"}).json()["candidates"]
        ids = {hit["docid"] for hit in found}
        assert {"new", "MED-10"} <= ids and "MED-1" not in ids
        assert update(delete=["nobody"]).status_code == 400 and update(index="none", merge=True).status_code == 404
        assert update(add=[{"title": "without an id"}]).status_code == 422
        with next_commit(folder):
            assert update(merge=True).status_code == 409
        assert Index(folder).description["number"] == 3
        assert update(merge=True).json() == {"documents": 40, "status": "reloaded"}
        assert service.post("/admin/update", json={}, headers={"Authorization": ""}).status_code == 401
        delete(folder, ["new"])
        wait_until(lambda: service.get("/v1/indexes").json()["indexes"][0]["documents"] == 39)


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


def test_a_service_without_a_reranker_keeps_the_first_stage_order(index_folder):
    with serving(ServiceConfig({"small": str(index_folder)}, deadline=60)) as client:
        answer = client.get("/v1/small/search", params={"query": "heart attack"}).json()
        assert (answer["reranker"], answer["reranked"]) == ("none", False) and answer["candidates"]
        hit = answer["candidates"][0]["docid"]
        assert client.get("/v1/small/explain", params={"query": "heart attack", "docid": hit}).status_code == 200
        assert client.get("/v1/indexes").json()["reranker"] == client.get("/info").json()["model_id"] == "none"
        assert client.get("/v1/models").json()["data"] == []
        for path, body in {"/v1/rerank": {"documents": ["a"]}, "/rerank": {"texts": ["a"]}}.items():
            refused = client.post(path, json={"query": "a", **body})
            assert refused.status_code == 404 and "this service has no model" in refused.text
