"""Addresses as clients and proxies spell them: paths, methods, names of the service, and pages of other origins."""

import asyncio
import json
from urllib.parse import urljoin

import httpx
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from rerank_plugin.base.errors import InputError
from rerank_plugin.service.config import ServiceConfig
from rerank_plugin.service.errors import RequestError
from rerank_plugin.service.protection import Names, canonical_path
from tests.service.live import serving

BODY = {"query": "statins", "documents": ["statins and cholesterol", "cats"]}
INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}},
}  # fmt: skip
MCP_HEADERS = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def behind_proxy(index_folder):
    """A service that a proxy makes public as search.example.org."""
    config = ServiceConfig(
        {"small": str(index_folder)}, {"titles": "bm25-title"}, public_names=("search.example.org",),
        origins=("https://app.example.com",),
    )  # fmt: skip
    with serving(config) as client:
        yield client


def url(service, path):
    return str(service.base_url).rstrip("/") + path


@pytest.mark.parametrize(
    "path, canonical",
    [
        ("/v1/rerank", "/v1/rerank"), ("//v1//rerank/", "/v1/rerank"), ("/rerank///", "/rerank"), ("/", "/"),
        ("//", "/"), ("/mcp/", "/mcp"), ("/docs/", "/docs/"), ("/docs", "/docs"),
        ("//docs//swagger/x.js", "/docs/swagger/x.js"),
        ("/v1/small/doc/10.1000//x/", "/v1/small/doc/10.1000//x/"), ("//v1//small//doc//7", "/v1/small/doc/7"),
        ("/v1/small/doc/", "/v1/small/doc"),
    ],
)  # fmt: skip
def test_paths_have_one_spelling(path, canonical):
    assert canonical_path(path) == canonical


def test_slashes_too_many_change_no_answer(service):
    for path in ("/v1/rerank/", "//v1/rerank", "/v1//rerank//", "//rerank"):
        answer = service.post(url(service, path), json=BODY)
        assert answer.status_code == 200 and answer.json()["results"][0]["index"] == 0, path
    for path in ("/v1/small/doc/7", "/v1/small/doc/7/", "//v1/small//doc/7", "/v1/small/doc//7"):
        assert service.get(url(service, path)).json()["docid"] == "7", path
    assert service.get(url(service, "//v1/indexes/")).json() == service.get("/v1/indexes").json()


def test_head_has_the_headers_of_get_and_no_body(service):
    for path in ("/", "/docs/", "/healthz", "/v1/indexes", "/v1/small/doc/7", "/openapi.json", "/info"):
        got, head = service.get(path), service.head(path)
        assert (head.status_code, head.content) == (200, b""), path
        assert head.headers["content-length"] == got.headers["content-length"]
        assert head.headers["content-type"] == got.headers["content-type"]
    assert service.head("/v1/small/doc/none").status_code == 404
    assert service.head("/rerank").status_code == 405


@pytest.mark.parametrize(
    "method, path, status",
    [
        ("POST", "/v1/nothing", 404), ("POST", "/nothing", 404), ("POST", "/", 404), ("DELETE", "/v1/x/y", 404),
        ("GET", "/nothing", 404), ("GET", "/rerank", 405), ("POST", "/v1/small/search", 405),
        ("PUT", "/v2/rerank", 405),
    ],
)  # fmt: skip
def test_what_is_not_there_is_named(service, method, path, status):
    answer = service.request(method, path, json={})
    assert answer.status_code == status
    body = answer.json()
    assert body["error"] == body["detail"] == body["message"] and path in body["error"]
    if status == 405:
        assert answer.headers["allow"]


def test_pages_below_a_path_of_a_proxy(service):
    """The page and that of the API name everything relatively, so that a proxy may serve them as /tools/search/."""
    assert service.get("/docs", follow_redirects=False).headers["location"] == "docs/"
    for page in ("/", "/docs/"):
        text = service.get(page).text
        addresses = [part.split('"')[0] for name in ("src=", "href=") for part in text.split(f'{name}"')[1:]]
        assert addresses
        for address in addresses:
            if not address.startswith("data:"):
                assert not address.startswith("/"), address
                assert service.get(urljoin(page, address)).status_code == 200
    assert '"openapi.json"' in service.get("/docs/start.js").text


def test_names_of_a_local_service(service):
    for host in ("localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080", "10.1.2.3", "api.localhost"):
        assert service.get("/v1/indexes", headers={"Host": host}).status_code == 200, host
    for path in ("/v1/indexes", "/metrics", "/"):
        refused = service.get(path, headers={"Host": "evil.example:8080"})
        assert refused.status_code == 421 and "public name" in refused.json()["error"]
    refused = service.post("/mcp", json=INITIALIZE, headers={**MCP_HEADERS, "Host": "evil.example"})
    assert refused.status_code == 421


def test_public_names_and_origins_hold_for_rest_and_mcp(behind_proxy):
    for host in ("search.example.org", "search.example.org:443", "localhost"):
        assert behind_proxy.get("/v1/indexes", headers={"Host": host}).status_code == 200
        for origin in (None, "https://search.example.org", "https://app.example.com", "http://localhost:3000"):
            headers = {**MCP_HEADERS, "Host": host, **({"Origin": origin} if origin else {})}
            answer = behind_proxy.post("/mcp", json=INITIALIZE, headers=headers)
            assert answer.status_code == 200 and "result" in answer.json(), (host, origin)
    assert behind_proxy.get("/v1/indexes", headers={"Host": "evil.example"}).status_code == 421
    for origin in ("https://evil.example", "null"):
        headers = {**MCP_HEADERS, "Host": "search.example.org", "Origin": origin}
        assert behind_proxy.post("/mcp", json=INITIALIZE, headers=headers).status_code == 403


def test_a_page_s_client_of_mcp_passes_the_preflight(behind_proxy):
    """Its requests have headers of the protocol."""
    preflight = {
        "Origin": "https://app.example.com", "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type,mcp-protocol-version,mcp-session-id,x-client-name",
    }  # fmt: skip
    answer = behind_proxy.options("/mcp", headers=preflight)
    assert answer.status_code == 200
    assert "mcp-protocol-version" in answer.headers["access-control-allow-headers"].lower()


def test_the_real_client_of_mcp_under_a_public_name(behind_proxy):
    async def session():
        headers = {"Host": "search.example.org", "Origin": "https://app.example.com"}
        async with httpx.AsyncClient(headers=headers, timeout=60) as http:
            transport = streamable_http_client(url(behind_proxy, "/mcp/"), http_client=http)
            async with Client(transport) as client:
                return await client.call_tool("list_indexes", {})

    assert not asyncio.run(session()).is_error


@pytest.mark.parametrize("host, names, checked", [("0.0.0.0", (), False), ("0.0.0.0", ("a",), True), ("::1", (), True)])
def test_where_names_are_checked(host, names, checked):
    allowed = Names(ServiceConfig({}, {}, host=host, public_names=names))
    if checked:
        with pytest.raises(RequestError, match="evil.example"):
            allowed.check("evil.example", None)
    else:
        allowed.check("evil.example", "https://other.example")
    Names(ServiceConfig({}, {}, host=host, public_names=(*names, "*"))).check("evil.example", None)
    allowed.check(None, None)


def test_a_public_name_is_no_address():
    for name in ("https://a.org", "a.org:80", "a b", ""):
        with pytest.raises(InputError, match="public name"):
            ServiceConfig(public_names=(name,))


def test_clients_of_tei_and_openai_are_told_what_there_is(service):
    """As Dify's asks TEI: the kind of the model, and its limits."""
    info = service.get("/info").json()
    assert [*info["model_type"]] == ["reranker"] and info["model_id"] == "delta"
    assert info["max_client_batch_size"] == 1000 and info["max_input_length"] == 5000
    assert service.get("/health").status_code == 200
    models = service.get("/v1/models").json()
    assert models["object"] == "list" and [model["id"] for model in models["data"]] == ["delta", "titles"]
    assert service.get("/v1/models/titles").json() == models["data"][1] and models["data"][1]["created"] > 10**9
    assert service.get("/v1/models/none").status_code == 404


def test_the_openapi_document_has_no_path_twice(service):
    document = service.get("/openapi.json").json()
    assert {"/info", "/health", "/v1/models", "/v1/models/{model}"} < set(document["paths"])
    assert "/docs" not in document["paths"] and json.dumps(document)
