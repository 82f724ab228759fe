"""The application: routes, error handlers, middleware, static pages, start and end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from mcp.server.transport_security import TransportSecuritySettings
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketClose

from rerank_plugin import __version__
from rerank_plugin.base.errors import InputError
from rerank_plugin.service import (
    administration,
    click_api,
    explain_api,
    export_api,
    model_api,
    rerank_api,
    screening_api,
    search_api,
    values_api,
)
from rerank_plugin.service.config import ServiceConfig
from rerank_plugin.service.errors import RequestError, describe_invalid
from rerank_plugin.service.mcp import mcp_server
from rerank_plugin.service.protection import Protection
from rerank_plugin.service.state import Service, get_service

FOLDER = Path(__file__).parent
FIRST = "/v1/{index}/search"  # in the pages of the API


def create_app(config: ServiceConfig) -> FastAPI:
    """The application of a new, open and warm `Service`; raises the errors of `Service`."""
    service = Service(config)
    tools = mcp_server(service)
    tools_app = tools.streamable_http_app(
        stateless_http=True, json_response=True, max_request_body_size=config.most_megabytes << 20,
        # `Protection` checks names, for all paths.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )  # fmt: skip

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        async with tools.session_manager.run():
            yield
        service.close()

    app = FastAPI(
        title="rerank_plugin", version=__version__, lifespan=running, docs_url=None, redoc_url=None,
        redirect_slashes=False,
        description="Search with neural re-ranking, and re-ranking of texts.",
        exception_handlers={
            RequestError: _refused, InputError: _refused, RequestValidationError: _invalid, HTTPException: _http_error
        },
    )  # fmt: skip
    app.state.service = service
    for module in (
        administration,
        search_api,
        explain_api,
        values_api,
        export_api,
        screening_api,
        rerank_api,
        model_api,
    ):
        app.include_router(module.router)
    if service.click_log is not None:
        app.include_router(click_api.router)
    (tools_route,) = tools_app.routes
    assert isinstance(tools_route, Route)
    # Only POST: a server without sessions has nothing to say on a stream of GET, which would stay open.
    app.router.routes.append(Route(tools_route.path, tools_route.endpoint, methods=["POST"]))
    app.add_middleware(Protection, service=service)
    if config.origins:
        # Any header: clients have their own, and MCP's for the version of the protocol and the session.
        app.add_middleware(
            CORSMiddleware, allow_origins=config.origins, allow_methods=["*"], allow_headers=["*"],
            expose_headers=["Mcp-Session-Id", "Retry-After"],
        )  # fmt: skip
    app.mount("/docs/swagger", StaticFiles(packages=[("fastapi_offline", "static")]), name="swagger")
    app.mount("/docs", StaticFiles(directory=FOLDER / "api_docs", html=True), name="docs")
    app.get("/docs", include_in_schema=False)(_docs)
    app.router.default = _Page()  # a mount at / would answer for routes with another method, too
    _complete_openapi(app)
    return app


async def _docs() -> RedirectResponse:
    """The page of the API, by a relative address: a proxy may have removed the beginning of the path."""
    return RedirectResponse("docs/")


class _Page:
    """The files of the page; status 404 for anything else that no route answers."""

    def __init__(self) -> None:
        self.files = StaticFiles(directory=FOLDER / "page", html=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await WebSocketClose()(scope, receive, send)
        elif scope["method"] != "GET":
            raise HTTPException(404)
        else:
            await self.files(scope, receive, send)


def _complete_openapi(app: FastAPI) -> None:
    """Complete the OpenAPI document: the token, the forms of bodies; no status 422 of GET, which answers 400."""
    document = app.openapi()  # FastAPI caches this object
    bearer, key = {"type": "http", "scheme": "bearer"}, {"type": "apiKey", "in": "header", "name": "X-API-Key"}
    document["components"]["securitySchemes"] = {"Bearer": bearer, "Key": key}
    document["security"] = [{}, {"Bearer": []}, {"Key": []}]
    # The search first, then the rest of the API of an index.
    paths = sorted(document["paths"], key=lambda path: (path != FIRST, not path.startswith("/v1/")))
    document["paths"] = {path: document["paths"][path] for path in paths}
    for methods in document["paths"].values():
        for method in methods.values():
            method["summary"] = method["description"].partition("\n")[0].removesuffix(".")
            for content in method.get("requestBody", {}).get("content", {}).values():
                document["components"]["schemas"].update(content["schema"].pop("$defs", {}))
        methods.get("get", {"responses": {}})["responses"].pop("422", None)


async def _refused(request: Request, error: InputError | RequestError) -> JSONResponse:
    return get_service(request).public_error(error).response()


async def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
    """Reports the first invalid parameter; bodies are validated by `bodies.JsonBody`."""
    first = error.errors()[0]
    kind, *path = first["loc"]
    field, reason = describe_invalid({**first, "loc": path})
    return RequestError(400, f"{field or kind}: {reason}", field or str(kind)).response()


async def _http_error(request: Request, error: HTTPException) -> JSONResponse:
    response = RequestError(error.status_code, f"{request.method} {request.url.path}: {error.detail}").response()
    response.headers.update(error.headers or {})
    return response
