"""Tools for language models: the Model Context Protocol over stdio, or over HTTP at ``/mcp``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from rerank_plugin import __version__
from rerank_plugin.base.errors import InputError
from rerank_plugin.service import explain_api, rerank_api, search_api
from rerank_plugin.service.answers import DocumentAnswer, IndexesAnswer, SearchAnswer
from rerank_plugin.service.collections import Snapshot
from rerank_plugin.service.errors import RequestError
from rerank_plugin.service.explain_api import ExplainAnswer, ExplainParameters
from rerank_plugin.service.parameters import DocumentForm, SearchParameters
from rerank_plugin.service.rerank_api import RerankAnswer, RerankRequest
from rerank_plugin.service.state import Service

INSTRUCTIONS = "Search collections of titles and abstracts with neural re-ranking. Call list_indexes first."


def mcp_server(service: Service) -> MCPServer:
    """An MCP server whose tools use the collections of a service."""
    server = MCPServer("rerank_plugin", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING")

    @contextmanager
    def admitted() -> Iterator[Snapshot]:
        """The open collections, for an admitted call; errors of requests become errors of the tool."""
        try:
            with service.scheduler.admitted(), service.collections.in_use() as snapshot:
                yield snapshot
        except (RequestError, InputError, ValueError) as error:
            request_error = error if isinstance(error, RequestError) else InputError(str(error))
            raise ToolError(service.public_error(request_error).error) from None

    @server.tool()
    async def list_indexes() -> IndexesAnswer:
        """The indexes with their first stages, rerankers and fields to filter by."""
        with admitted() as snapshot:
            return search_api.describe_indexes(service, snapshot)

    @server.tool()
    async def search(
        query: str,
        index: str | None = None,
        hits: int = 10,
        filter: list[str] | None = None,
        reranker: str | None = None,
        first_stage: str | None = None,
    ) -> SearchAnswer:
        """Search an index (by default the first) with plain words. Filters are like year:2015-2020 or type:Review."""
        with admitted() as snapshot:
            parameters = SearchParameters(
                query=[query], hits=hits, filter=filter or [], reranker=reranker, first_stage=first_stage
            )
            return (await search_api.search(service, snapshot.index(index), parameters))[0]

    @server.tool()
    async def get_document(docid: str, index: str | None = None) -> DocumentAnswer:
        """A document by its id."""
        with admitted() as snapshot:
            return await search_api.get_document(service, snapshot.index(index), docid, DocumentForm())

    @server.tool()
    async def rerank(
        query: str, documents: list[str], top_n: int | None = None, model: str | None = None
    ) -> RerankAnswer:
        """Re-rank texts by relevance to a query. The texts need not be in an index."""
        with admitted() as snapshot:
            request = RerankRequest(query=query, documents=[*documents], top_n=top_n)
            return await rerank_api.rerank_documents(service, snapshot.text_reranker(model), request)

    @server.tool()
    async def explain(query: str, docid: str, index: str | None = None, reranker: str | None = None) -> ExplainAnswer:
        """Explain the score and rank of a document in the results of a search, without the match matrix."""
        with admitted() as snapshot:
            parameters = ExplainParameters(query=query, docid=docid, reranker=reranker)
            answer = await explain_api.explain_document(service, snapshot.index(index), parameters)
            return answer.model_copy(update={"matrix": [], "pooled": []})

    return server
