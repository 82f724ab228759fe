"""``/info``, ``/health`` and ``/v1/models``, which clients of Text Embeddings Inference and OpenAI ask for first."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from rerank_plugin import __version__
from rerank_plugin.service.errors import RequestError, error_responses
from rerank_plugin.service.state import Service, get_service

router = APIRouter(tags=["rerank"])


class ServiceInformation(BaseModel):
    """The default reranker and the limits, under the names of Text Embeddings Inference."""

    model_id: str
    model_sha: str | None = None
    model_dtype: str
    model_type: dict[str, Any] = Field(default={"reranker": {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}})
    max_concurrent_requests: int = Field(description="Searches, or as much work of re-ranking.")
    max_input_length: int = Field(description="Words of a text.")
    max_batch_tokens: int = Field(description="Words of the texts of a request.")
    max_batch_requests: int | None = None
    max_client_batch_size: int = Field(description="Texts of a request.")
    auto_truncate: bool = False
    tokenization_workers: int
    version: str = __version__
    sha: str | None = None
    docker_label: str | None = None


class ModelDescription(BaseModel):
    """A reranker of texts."""

    id: str
    object: str = "model"
    created: int
    owned_by: str = "rerank_plugin"


class ModelList(BaseModel):
    """The rerankers of texts, the default first."""

    object: str = "list"
    data: list[ModelDescription]


@router.get("/health")
async def health() -> dict[str, str]:
    """As ``/healthz``."""
    return {"status": "ok"}


@router.get("/info", responses=error_responses(401))
async def info(request: Request) -> ServiceInformation:
    """The default reranker and the limits of the service."""
    service = get_service(request)
    config = service.config
    return ServiceInformation(
        model_id=service.default_reranker, model_dtype=config.running.precision, max_concurrent_requests=config.queue,
        max_input_length=config.most_words, max_batch_tokens=config.most_words * config.most_documents,
        max_client_batch_size=config.most_documents, tokenization_workers=config.threads,
    )  # fmt: skip


@router.get("/v1/models", responses=error_responses(401))
async def models(request: Request) -> ModelList:
    """The rerankers that requests can name as their model."""
    service = get_service(request)
    return ModelList(data=[_description(service, name) for name in service.config.rerankers])


@router.get("/v1/models/{model}", responses=error_responses(401, 404))
async def model(request: Request, model: str) -> ModelDescription:
    """A reranker that requests can name as their model."""
    service = get_service(request)
    if model not in service.config.rerankers:
        raise RequestError(404, f"no model '{model}'; known: {', '.join(service.config.rerankers)}", "model")
    return _description(service, model)


def _description(service: Service, name: str) -> ModelDescription:
    return ModelDescription(id=name, created=service.started)
