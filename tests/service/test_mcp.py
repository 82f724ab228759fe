"""The tools, used by the real client of the Model Context Protocol: over HTTP, and over stdio with the command."""

import asyncio
import json
import sys

import pytest
from mcp import Client, StdioServerParameters

import rerank_plugin as rp
from rerank_plugin.service.config import ServiceConfig
from tests.processes import environment
from tests.service.live import serving

TOOLS = ["explain", "get_document", "list_indexes", "list_values", "rerank", "search", "similar"]


async def call(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def use(client):
    """All tools, and their errors."""
    tools = (await client.list_tools()).tools
    assert sorted(tool.name for tool in tools) == TOOLS and all(tool.title and tool.description for tool in tools)
    assert all(tool.annotations.read_only_hint and tool.annotations.title == tool.title for tool in tools)
    assert not any(tool.input_schema["additionalProperties"] for tool in tools)
    (index,) = (await call(client, "list_indexes"))["indexes"]
    hits = (await call(client, "search", query="aspirin heart attack", hits=3, index=index["name"]))["candidates"]
    best = hits[0]["docid"]
    assert len(hits) == 3
    document = await call(client, "get_document", docid=best)
    assert document["doc"] == hits[0]["doc"]
    ranked = await call(client, "rerank", query="aspirin", documents=["cats", "aspirin for the heart"], top_n=1)
    assert [result["index"] for result in ranked["results"]] == [1]
    reason = await call(client, "explain", query="aspirin heart attack", docid=best)
    assert reason["rank"] == 1 and reason["sentence"] and reason["score"] == pytest.approx(hits[0]["score"], abs=1e-4)
    strategy = {"query": "aspirin[ti] OR heart[ti]", "rank_by": "aspirin heart attack"}
    first, second = [await call(client, "search", **strategy, hits=1, offset=offset) for offset in (0, 1)]
    assert first["read_as"] == strategy["query"] and first["matches"] == first["total"] > 1
    assert [hit["rank"] for hit in first["candidates"] + second["candidates"]] == [1, 2]
    for tool, arguments, message in (
        ("search", {"query": "aspirin AND"}, "at character 9: nothing follows AND"),
        ("search", {"query": "a", "index": "none"}, "no index 'none'"),
        ("search", {"query": "a", "hits": 0}, "hits: Input should be greater than or equal to 1"),
        ("get_document", {"docid": "none"}, "no document 'none'"),
        ("similar", {"docid": "none"}, "no document 'none'"),
        ("rerank", {"query": "a", "documents": []}, "documents is empty"),
        ("rerank", {"query": "a", "documents": ["b", None]}, "documents.1: is null"),
        ("rerank", {"query": "a", "documents": [1] * 2000}, "documents.0: Input should be a valid string"),
        ("rerank", {"query": "a", "documents": ["b"] * 1001}, "a request may have at most 1000"),
        ("rerank", {"documents": ["b"]}, "query: Field required"),
        ("search", {"query": "a\0b"}, "the control character U+0000"),
        ("search", {"query": "a", "hits": "many"}, "hits: Input should be a valid integer"),
        ("search", {"query": "a", "top_k": 3}, "search has no argument 'top_k': it takes query, index, hits"),
        ("list_indexes", {"a\nb": 1}, "takes no arguments"),
        ("search", {"query": "a", "filter": [f"year:{n}" for n in range(101)]}, "at most 100 items"),
    ):
        result = await client.call_tool(tool, arguments)
        assert result.is_error and message in result.content[0].text and "\n" not in result.content[0].text


async def use_loosely(client):
    """Arguments as language models write them, and answers that are short."""
    for docid in (7, "7"):
        assert (await call(client, "get_document", docid=docid))["docid"] == "7"
    reason = await call(client, "explain", query="aspirin", docid=7)
    assert reason["docid"] == "7"
    whole = await call(client, "get_document", docid="MED-1")
    shown = await call(client, "search", query="statins", hits=1, fields="title, id", max_doc_length=3)
    assert [*shown["candidates"][0]["doc"]] == ["title", "id"]
    cut = await call(client, "search", query="statins", hits=1, fields="*", max_doc_length=3)
    assert len(cut["candidates"][0]["doc"]["abstract"]) == 3 and whole["doc"]["abstract"].startswith("Statins lower")
    ranked = await call(client, "rerank", query="aspirin", documents=[{"text": "cats"}, {"title": "aspirin"}])
    assert [result["index"] for result in ranked["results"]] == [1, 0]
    result = await client.call_tool("search", {"query": "cancer", "hits": 10})
    text = result.content[0].text
    assert json.loads(text) == result.structured_content
    read = sum(
        len(hit["doc"].get(name) or "") for hit in json.loads(text)["candidates"] for name in ("title", "abstract")
    )
    assert len(text) < read + 150 * len(json.loads(text)["candidates"]) + 300


def test_arguments_of_language_models(service):
    async def session():
        async with Client(f"{service.base_url}/mcp".replace("//mcp", "/mcp")) as client:
            await use_loosely(client)

    asyncio.run(session())


def test_long_documents_are_cut(tmp_path):
    """Ten hits of long abstracts and of many fields."""
    metadata = {"date": "2016-05", "journal": "Headache", "mesh": ["Migraine"] * 30, "authors": ["Name A"] * 30}
    text = "Migraine in women. " * 100
    rp.build_index([rp.Document(str(n), f"Migraine {n}", text, metadata) for n in range(20)], tmp_path / "index")

    async def session(address):
        async with Client(address) as client:
            found = await client.call_tool("search", {"query": "migraine"})
            for years, count in (("year:2016", 10), (["year:2015-2016"], 10), ("year:2015", 0)):
                filtered = await call(client, "search", query="migraine", filter=years)
                assert len(filtered["candidates"]) == count
            listed = await call(client, "list_values", field="journal", begins="head", filter="year:2016")
            assert listed["values"] == [{"value": "Headache", "documents": 20}]
            assert (await call(client, "search", filter="year:2016", hits=1))["matches"] == 20
            assert (await call(client, "search", query="migrane"))["did_you_mean"] == "migraine"
            whole = await client.call_tool("get_document", {"docid": "3"})
            return found.content[0].text, whole.structured_content

    with serving(ServiceConfig({"long": str(tmp_path / "index")}, {"titles": "bm25-title"})) as client:
        found, whole = asyncio.run(session(f"{client.base_url}/mcp".replace("//mcp", "/mcp")))
    assert len(json.loads(found)["candidates"]) == 10 and len(found) < 10 * (300 + 250)
    assert whole["doc"]["abstract"].strip() == text.strip() and len(whole["doc"]["mesh"]) == 30


def test_over_http(service):
    async def session():
        async with Client(f"{service.base_url}/mcp".replace("//mcp", "/mcp")) as client:
            await use(client)

    asyncio.run(session())


def test_over_stdio(index_folder):
    arguments = ["-m", "rerank_plugin.serve", "--mcp", "--index", str(index_folder), "--reranker", "delta"]

    async def session():
        server = StdioServerParameters(command=sys.executable, args=arguments, env=environment())
        async with Client(server) as client:
            await use(client)

    asyncio.run(session())
