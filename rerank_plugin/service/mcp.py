"""The service as tools for language models: the Model Context Protocol, over stdio, or HTTP at ``/mcp``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from rerank_plugin import __version__
from rerank_plugin.base.errors import InputError
from rerank_plugin.service import explain_api, rerank_api, search_api
from rerank_plugin.service.answers import DocumentAnswer, IndexesAnswer, SearchAnswer
from rerank_plugin.service.collections import Served
from rerank_plugin.service.errors import RequestError
from rerank_plugin.service.explain_api import ExplainAnswer, ExplainParameters
from rerank_plugin.service.parameters import DocumentForm, SearchParameters
from rerank_plugin.service.rerank_api import RerankAnswer, RerankRequest
from rerank_plugin.service.state import Service

INSTRUCTIONS = "Search collections of titles and abstracts with neural re-ranking. Begin with list_indexes."


def mcp_server(service: Service) -> MCPServer:
    """The tools over the collections of a service."""
    server = MCPServer("rerank_plugin", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING")

    @contextmanager
    def served() -> Iterator[Served]:
        """What is served; what a request is refused for is told to the model."""
        try:
            with service.scheduler.admitted(), service.collections.used() as found:
                yield found
        except (RequestError, InputError, ValueError) as error:
            refused = error if isinstance(error, RequestError) else InputError(str(error))
            raise ToolError(service.refusal(refused).error) from None

    @server.tool()
    async def list_indexes() -> IndexesAnswer:
        """The indexes, and what can be asked of each: first stages, rerankers, fields to filter by."""
        with served() as found:
            return search_api.described(service, found)

    @server.tool()
    async def search(
        query: str,
        index: str | None = None,
        hits: int = 10,
        filter: list[str] | None = None,
        reranker: str | None = None,
        first_stage: str | None = None,
    ) -> SearchAnswer:
        """Search an index (by default the first) with plain words. A filter is like year:2015-2020 or type:Review."""
        with served() as found:
            asked = SearchParameters(
                query=[query], hits=hits, filter=filter or [], reranker=reranker, first_stage=first_stage
            )
            return (await search_api.search(service, found.index(index), asked))[0]

    @server.tool()
    async def get_document(docid: str, index: str | None = None) -> DocumentAnswer:
        """A document by its id."""
        with served() as found:
            return await search_api.get_document(service, found.index(index), docid, DocumentForm())

    @server.tool()
    async def rerank(
        query: str, documents: list[str], top_n: int | None = None, model: str | None = None
    ) -> RerankAnswer:
        """Order texts, which need not be in an index, by their relevance to a query."""
        with served() as found:
            asked = RerankRequest(query=query, documents=documents, top_n=top_n)
            return await rerank_api.rerank_documents(service, found.of_texts(model), asked)

    @server.tool()
    async def explain(query: str, docid: str, index: str | None = None, reranker: str | None = None) -> ExplainAnswer:
        """Why a document that a search found has its score and rank. The match matrix is left out."""
        with served() as found:
            asked = ExplainParameters(query=query, docid=docid, reranker=reranker)
            answer = await explain_api.explained(service, found.index(index), asked)
            return answer.model_copy(update={"matrix": [], "pooled": []})

    return server
