"""A small distribution of PubMed's form, written once, and a server of a copy of it."""

import os
import shutil

import pytest

from rerank_plugin.pubmed.server import Server
from rerank_plugin.sample.pubmed import Distribution, write_distribution
from tests.pubmed.faulty_server import serving

PLAN = Distribution(citations=120, updates=3, per_file=50)  # three files of a baseline, 26n0004 to 26n0006 after them


@pytest.fixture(scope="session")
def distribution(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pubmed") / "26"
    write_distribution(folder, PLAN)
    return folder


@pytest.fixture
def served(distribution, tmp_path):
    """A server of a copy, which tests change."""
    with serving(shutil.copytree(distribution, tmp_path / "served", copy_function=os.link)) as server:
        yield server


@pytest.fixture
def client(served):
    """A client of the server that counts the seconds that it would sleep."""
    waits = []
    client = Server(served.url, rate=1e6, stall=30, tries=3, sleep=waits.append)
    client.waits = waits
    yield client
    client.close()
