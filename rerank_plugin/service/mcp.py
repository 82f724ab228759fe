"""Tools for language models: the Model Context Protocol over stdio, or over HTTP at ``/mcp``.

Answers are short by default, since a language model reads, and pays for, all of them: a hit has an id, a score and the
beginning of the document, which `get_document` gives whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, InputRequiredResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field, ValidationError

from rerank_plugin import __version__
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import Filter
from rerank_plugin.ranking.reading import PUBMED
from rerank_plugin.service import explain_api, rerank_api, search_api
from rerank_plugin.service.answers import DocumentAnswer, IndexesAnswer, SearchAnswer
from rerank_plugin.service.errors import RequestError, describe_invalid
from rerank_plugin.service.explain_api import ExplainAnswer, ExplainParameters
from rerank_plugin.service.parameters import FILTER_FORMS, DocumentForm, SearchParameters, SimilarParameters
from rerank_plugin.service.rerank_api import RerankRequest
from rerank_plugin.service.served_index import Snapshot
from rerank_plugin.service.state import Service
from rerank_plugin.service.values_api import Value, ValuesAnswer, ValuesParameters

Function = TypeVar("Function", bound=Callable[..., Any])
INSTRUCTIONS = "Search collections of titles and abstracts with neural re-ranking. Call list_indexes first."
SHOWN_FIELDS = "id,title,abstract,text,contents,date,journal,retracted"  # of a hit, by default
SHOWN_LENGTH = 300  # characters of a hit's text, by default

Filters = Annotated[
    str | Annotated[list[str], Field(fail_fast=True)] | None,
    Field(description=f"One or several; list_indexes names the fields, list_values their values. {FILTER_FORMS}"),
]
Documents = Annotated[list[str | dict[str, Any]], Field(fail_fast=True, json_schema_extra={"minItems": 1})]
Id = Annotated[str | int, Field(description="Id of a document.")]
Fields = Annotated[
    str | None,
    Field(description="Fields of documents to return, separated by commas; * for all. By default those to read."),
]


class ShortHit(BaseModel):
    """A document of a ranked list."""

    docid: str
    rank: int
    score: float
    doc: Any = Field(description="The requested fields of the document; long texts are cut.")


class ShortAnswer(BaseModel):
    """The ranked list of a query."""

    index: str
    reranker: str
    first_stage: str
    reranked: bool
    total: int = Field(description="Number of candidates.")
    read_as: str | None = Field(description="How the query was read, in PubMed's language; null for plain words.")
    matches: int | None = Field(description="Exact number of documents that match it; null for plain words.")
    did_you_mean: str | None = Field(description="The query with other words for those that no document has, or null.")
    candidates: list[ShortHit]
    notes: list[str] = Field(description="Warnings about the query.")


class ShortResult(BaseModel):
    """A re-ranked text."""

    index: int = Field(description="Place of the text in the call, from 0 on.")
    relevance_score: float


class ShortRanking(BaseModel):
    """Re-ranked texts, best first."""

    model: str
    reranked: bool
    results: list[ShortResult]
    notes: list[str]


class Server(MCPServer):
    """A server of tools that refuses unknown arguments and answers errors in one line."""

    def __init__(self, *tools: Tool):
        super().__init__(
            "rerank_plugin", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING", tools=[*tools],
            subscriptions=False,
        )  # fmt: skip
        self.arguments = {tool.name: tool.parameters["properties"].keys() for tool in tools}

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """The result of a tool; errors as for `MCPServer.call_tool`."""
        known = self.arguments.get(name, arguments.keys())
        if unknown := next((argument for argument in arguments if argument not in known), None):
            taken = f"takes {', '.join(known)}" if known else "takes no arguments"
            raise ToolError(f"{name} has no argument {unknown[:100]!r}: it {taken}")
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError:
            raise  # logged with its cause; its message is one line
        except ToolError as error:
            message = str(error)
            if isinstance(error.__cause__, ValidationError):
                message = ": ".join(describe_invalid(error.__cause__.errors(include_url=False)[0]))
            raise ToolError(" ".join(message.split())) from None


def mcp_server(service: Service) -> MCPServer:
    """An MCP server whose tools use the collections of a service."""
    tools: list[Tool] = []

    def tool(title: str) -> Callable[[Function], Function]:
        """Makes a tool of a function, which changes nothing."""
        annotations = ToolAnnotations(title=title, read_only_hint=True, open_world_hint=False)

        def add(function: Function) -> Function:
            tools.append(Tool.from_function(function, title=title, annotations=annotations))
            tools[-1].parameters["additionalProperties"] = False
            return function

        return add

    @contextmanager
    def in_use() -> Iterator[Snapshot]:
        """The open collections; errors of requests become errors of the tool."""
        try:
            with service.collections.in_use() as snapshot:
                yield snapshot
        except ValidationError as error:
            raise ToolError(": ".join(describe_invalid(error.errors(include_url=False)[0]))) from None
        except (RequestError, InputError) as error:
            request_error = error if isinstance(error, RequestError) else InputError(str(error))
            raise ToolError(service.public_error(request_error).error) from None

    @contextmanager
    def admitted() -> Iterator[Snapshot]:
        """The open collections, for an admitted call."""
        with in_use() as snapshot, service.scheduler.admitted():
            yield snapshot

    @tool("List the indexes")
    async def list_indexes() -> Annotated[CallToolResult, IndexesAnswer]:
        """The indexes with their first stages, rerankers and fields to filter by."""
        with admitted() as snapshot:
            return _compact(search_api.describe_indexes(service, snapshot))

    @tool("Search an index")
    async def search(
        query: str = "",
        index: str | None = None,
        hits: int = 10,
        filter: Filters = None,
        reranker: str | None = None,
        first_stage: str | None = None,
        fields: Fields = None,
        max_doc_length: int = SHOWN_LENGTH,
        offset: int = 0,
        sort: Literal["score", "date"] = "score",
        query_syntax: Literal["plain", "pubmed"] = PUBMED,
        rank_by: str | None = None,
    ) -> Annotated[CallToolResult, ShortAnswer]:
        """Search an index (by default the first); get_document returns a document whole.

        A query is plain words, an id, a DOI, an author or a journal, or a strategy in PubMed's language: AND, OR, NOT,
        "phrases", word*, and tags as in aspirin[ti]. The strategy decides which documents match, and its words or
        rank_by rank them. Without a query, the documents that match the filter, the newest first.
        """
        with admitted() as snapshot:
            parameters = SearchParameters(
                query=[query], hits=hits, filter=_listed(filter), reranker=reranker, first_stage=first_stage,
                offset=offset, sort=sort, query_syntax=query_syntax, rank_by=rank_by,
                fields=_fields(fields or SHOWN_FIELDS),
                max_doc_length=max_doc_length,
            )  # fmt: skip
            (found,) = await search_api.search(service, snapshot.index(index), parameters)
            return _compact(_short(found, fields))

    @tool("Find similar documents")
    async def similar(
        docid: Id, index: str | None = None, hits: int = 10, fields: Fields = None, max_doc_length: int = SHOWN_LENGTH
    ) -> Annotated[CallToolResult, ShortAnswer]:
        """The documents most similar in meaning to a document of an encoded index (by default the first)."""
        with admitted() as snapshot:
            parameters = SimilarParameters(
                docid=str(docid), hits=hits, fields=_fields(fields or SHOWN_FIELDS), max_doc_length=max_doc_length
            )
            found = await search_api.similar_documents(service, snapshot.index(index), parameters)
            return _compact(_short(found, fields))

    @tool("List the values of a filter")
    async def list_values(
        field: str, index: str | None = None, begins: str = "", filter: Filters = None, limit: int = 20
    ) -> Annotated[CallToolResult, ValuesAnswer]:
        """The commonest values of a field to filter by, with the numbers of documents; begins: their first letters."""
        with admitted() as snapshot:
            asked = ValuesParameters(field=field, begins=begins, filter=_listed(filter), limit=limit)
            within, served = Filter.parse(asked.filter) if asked.filter else None, snapshot.index(index)
            listed = partial(served.values.values, asked.field, asked.begins, within, asked.limit)
            values = [Value(value=value, documents=count) for value, count in await service.scheduler.in_thread(listed)]
            return _compact(ValuesAnswer(index=served.name, field=field, values=values))

    @tool("Read a document")
    async def get_document(
        docid: Id, index: str | None = None, fields: Fields = None, max_doc_length: int | None = None
    ) -> Annotated[CallToolResult, DocumentAnswer]:
        """A document by its id, whole unless fields or max_doc_length say otherwise."""
        with admitted() as snapshot:
            form = DocumentForm(fields=_fields(fields), max_doc_length=max_doc_length)
            answer = await search_api.get_document(service, snapshot.index(index), str(docid), form)
            return _compact(answer.model_copy(update={"doc": _once(answer.doc, fields)}))

    @tool("Re-rank texts")
    async def rerank(
        query: str, documents: Documents, top_n: int | None = None, model: str | None = None
    ) -> Annotated[CallToolResult, ShortRanking]:
        """Re-rank texts, or objects with title and text, by relevance to a query. They need not be in an index."""
        with in_use() as snapshot:
            request = RerankRequest(query=query, documents=[*documents], top_n=top_n)
            answer = await rerank_api.rerank_documents(service, snapshot.text_reranker(model), request)
            return _compact(ShortRanking.model_validate(answer, from_attributes=True))

    @tool("Explain a rank")
    async def explain(
        query: str,
        docid: Id,
        index: str | None = None,
        reranker: str | None = None,
        filter: Filters = None,
        query_syntax: Literal["plain", "pubmed"] = PUBMED,
    ) -> Annotated[CallToolResult, ExplainAnswer]:
        """Explain the score and rank of a document in the results of a search, without the match matrix."""
        with admitted() as snapshot:
            parameters = ExplainParameters(
                query=query, docid=str(docid), reranker=reranker, filter=_listed(filter), query_syntax=query_syntax
            )
            answer = await explain_api.explain_document(service, snapshot.index(index), parameters)
            return _compact(answer.model_copy(update={"matrix": [], "pooled": []}))

    return Server(*tools)


def _compact(answer: BaseModel) -> CallToolResult:
    """The result of a tool; its text is JSON without the indentation that the library gives it."""
    text = answer.model_dump_json()
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=answer.model_dump(mode="json")
    )


def _short(found: SearchAnswer, fields: str | None) -> ShortAnswer:
    short = ShortAnswer.model_validate(found, from_attributes=True)
    for hit in short.candidates:
        hit.doc = _once(hit.doc, fields)
    return short


def _fields(names: str | None) -> str | None:
    return None if names is None or names.strip() == "*" else names


def _once(document: dict[str, Any], fields: str | None) -> dict[str, Any]:
    """The fields of a document; unless fields are asked for, without the contents that repeat title and abstract."""
    if fields is not None or "abstract" not in document:
        return document
    return {name: value for name, value in document.items() if name != "contents"}


def _listed(filters: str | list[str] | None) -> list[str]:
    return [filters] if isinstance(filters, str) else filters or []
