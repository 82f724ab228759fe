"""One live service over the shared index, for all tests that do not change it."""

import pytest

from rerank_plugin.service.settings import ServiceConfig
from tests.service.live import serving


@pytest.fixture(scope="session")
def settings(index_folder):
    """The arguments of the configuration of ``service``."""
    return {"indexes": {"small": str(index_folder)}, "rerankers": {"delta": "delta", "titles": "bm25-title"}}


@pytest.fixture(scope="session")
def service(settings):
    """A client of the service."""
    with serving(ServiceConfig(**settings, deadline=60)) as client:
        yield client
