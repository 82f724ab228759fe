"""What adapters wrap, and what a search with re-ranking by the library itself gives."""

import os

import pytest

import rerank_plugin as rp
from rerank_plugin.models.register import entry_of
from rerank_plugin.models.relevance import Relevance

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "false")  # read when Haystack is imported

QUERY = "stroke and migraine in women"


@pytest.fixture(scope="session")
def searcher(index):
    return rp.Searcher(index)


@pytest.fixture(scope="session", params=["by id", "by text"])
def delta(request, index):
    return rp.Reranker.load("delta", index) if request.param == "by id" else rp.Reranker.load("delta", statistics=index)


@pytest.fixture(scope="session")
def hits(index):
    """Of `QUERY`, with Delta: what an adapter's retriever and its reranker give, one after the other."""
    with rp.Searcher(index, "delta", depth=20) as both:
        found = both.search(QUERY, 20)
    assert [hit.first_stage_rank for hit in found] != [hit.rank for hit in found]  # re-ranking changes the order
    return found


@pytest.fixture(scope="session")
def relevance(hits):
    """Of `hits`: the one meaning of a score in all adapters."""
    return Relevance.of_checkpoint(entry_of("delta").bundled).of([hit.score for hit in hits]).tolist()
