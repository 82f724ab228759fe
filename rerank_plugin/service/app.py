"""Puts the service together: routes, errors, protection, and what starts and ends with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from rerank_plugin import __version__
from rerank_plugin.base.errors import InputError
from rerank_plugin.service import administration, click_api, explain_api, rerank_api, search_api
from rerank_plugin.service.errors import RequestError
from rerank_plugin.service.mcp import mcp_server
from rerank_plugin.service.protection import Protection
from rerank_plugin.service.settings import ServiceConfig
from rerank_plugin.service.state import Service, service_of

FOLDER = Path(__file__).parent


def create_app(config: ServiceConfig) -> FastAPI:
    """The application of a `Service`, which is open and warm when this returns; its errors are those of `Service`."""
    service = Service(config)
    tools = mcp_server(service)
    tools_app = tools.streamable_http_app(stateless_http=True, json_response=True, host=config.host)

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        async with tools.session_manager.run():
            yield
        service.close()

    app = FastAPI(
        title="rerank_plugin", version=__version__, lifespan=running, docs_url=None, redoc_url=None,
        description="Search with neural re-ranking, and re-ranking of texts.",
    )  # fmt: skip
    app.state.service = service
    for routes in (administration, search_api, explain_api, rerank_api):
        app.include_router(routes.router)
    if service.clicks is not None:
        app.include_router(click_api.router)
    app.router.routes.extend(tools_app.routes)
    app.add_exception_handler(RequestError, _refused)
    app.add_exception_handler(InputError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _unknown)
    app.add_middleware(Protection, service=service)
    if config.origins:
        headers = ["Authorization", "Content-Type", "X-API-Key"]
        app.add_middleware(CORSMiddleware, allow_origins=config.origins, allow_methods=["*"], allow_headers=headers)
    app.mount("/docs/swagger", StaticFiles(packages=[("fastapi_offline", "static")]), name="swagger")
    app.mount("/docs", StaticFiles(directory=FOLDER / "api_docs", html=True), name="docs")
    app.mount("/", StaticFiles(directory=FOLDER / "page", html=True), name="page")
    _document(app)
    return app


def _document(app: FastAPI) -> None:
    """Make the OpenAPI document say what FastAPI does not know: the token, and status 400 of wrong parameters."""
    described = app.openapi()  # which FastAPI keeps
    bearer, key = {"type": "http", "scheme": "bearer"}, {"type": "apiKey", "in": "header", "name": "X-API-Key"}
    described["components"]["securitySchemes"] = {"Bearer": bearer, "Key": key}
    described["security"] = [{}, {"Bearer": []}, {"Key": []}]
    for methods in described["paths"].values():
        methods.get("get", {"responses": {}})["responses"].pop("422", None)


async def _refused(request: Request, error: InputError | RequestError) -> JSONResponse:
    return service_of(request).refusal(error).answer()


async def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
    """What a parameter or a body must be like."""
    first = error.errors()[0]
    kind, *path = map(str, first["loc"])
    if request.url.path.endswith("/rerank"):
        del path[:1]  # the form of the body
    numbered = next((at for at, part in enumerate(path, 1) if part.isdigit()), len(path))  # the rest are forms of items
    field, reason = ".".join(path[:numbered]) or kind, first["msg"]
    if field == "body" and "json" not in request.headers.get("content-type", ""):
        reason = "expected JSON, with the header Content-Type: application/json"
    return RequestError(422 if kind == "body" else 400, f"{field}: {reason}", field).answer()


async def _unknown(request: Request, error: HTTPException) -> JSONResponse:
    answer = RequestError(error.status_code, f"{request.method} {request.url.path}: {error.detail}").answer()
    answer.headers.update(error.headers or {})
    return answer
