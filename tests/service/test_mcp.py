"""The tools, used by the real client of the Model Context Protocol: over HTTP, and over stdio with the command."""

import asyncio
import sys

import pytest
from mcp import Client, StdioServerParameters

from tests.processes import environment

TOOLS = ["explain", "get_document", "list_indexes", "rerank", "search"]


async def call(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def use(client):
    """All tools, and their errors."""
    assert sorted(tool.name for tool in (await client.list_tools()).tools) == TOOLS
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
    for tool, arguments, message in (
        ("search", {"query": "a", "index": "none"}, "no index 'none'"),
        ("search", {"query": "a", "hits": 0}, "hits"),
        ("get_document", {"docid": "none"}, "no document 'none'"),
        ("rerank", {"query": "a", "documents": []}, "documents is empty"),
    ):
        result = await client.call_tool(tool, arguments)
        assert result.is_error and message in result.content[0].text


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
