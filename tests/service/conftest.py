"""A live service over the shared index, for all tests that do not change it."""

import pytest

from rerank_plugin.service.settings import ServiceConfig
from tests.service.live import serving


@pytest.fixture(scope="session")
def service(index_folder, tmp_path_factory):
    """A client of the service, which has a click log."""
    rerankers = {"delta": "delta", "titles": "bm25-title"}
    click_log = tmp_path_factory.mktemp("service") / "clicks.tsv"
    with serving(
        ServiceConfig({"small": str(index_folder)}, rerankers, deadline=60, click_log=str(click_log))
    ) as client:
        yield client
