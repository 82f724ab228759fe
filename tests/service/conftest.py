"""One live service over the shared index, for all tests that do not change it."""

import pytest

from rerank_plugin.service.settings import ServiceConfig
from tests.service.live import serving


@pytest.fixture(scope="session")
def settings(index_folder):
    """The arguments of the configuration of ``service``."""
    return {"indexes": {"small": str(index_folder)}, "rerankers": {"delta": "delta", "titles": "bm25-title"}}


@pytest.fixture(scope="session")
def service(settings, tmp_path_factory):
    """A client of the service, which keeps a click log."""
    click_log = tmp_path_factory.mktemp("service") / "clicks.tsv"
    with serving(ServiceConfig(**settings, deadline=60, click_log=str(click_log))) as client:
        yield client
