"""The searcher and reranker that adapters wrap, and the library's own re-ranked hits as expected values."""

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
    """The hits of `QUERY` re-ranked by Delta, as expected of an adapter's retriever followed by its reranker."""
    with rp.Searcher(index, "delta", depth=20) as both:
        hits = both.search(QUERY, 20)
    assert [hit.first_stage_rank for hit in hits] != [hit.rank for hit in hits]  # re-ranking changes the order
    return hits


@pytest.fixture(scope="session")
def relevance(hits):
    """The relevance of `hits`, the score of all adapters."""
    return Relevance.of_checkpoint(entry_of("delta").bundled).of([hit.score for hit in hits]).tolist()
