"""The searcher and reranker that adapters wrap, and the library's own re-ranked hits as expected values."""

import asyncio
import inspect
import os

import pytest

import rerank_plugin as rp
from rerank_plugin.models.register import entry_of
from rerank_plugin.models.relevance import Relevance

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "false")  # read when Haystack is imported

QUERY = "stroke and migraine in women"


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a coroutine, as the standard tests of LangChain have one; the plug-in for that is not loaded."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}))
    return True


@pytest.fixture(scope="session")
def dated(tmp_path_factory):
    """A folder of an index of articles on aspirin from 2014 to 2017, letters and reviews in turn, one retracted."""
    documents = [
        rp.Document(
            str(year),
            "Aspirin",
            "",
            {"date": f"{year}-05", "types": ["Review" if year % 2 else "Letter"], "retracted": year == 2016},
        )
        for year in (2014, 2015, 2016, 2017)
    ]
    folder = tmp_path_factory.mktemp("dated") / "index"
    rp.build_index(documents, folder)
    return folder


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
