"""The retriever and the document compressor with the real LangChain."""

import asyncio

import pytest

import rerank_plugin as rp
from tests.integrations.conftest import QUERY

pytest.importorskip("langchain_core", reason="needs the extra 'langchain'")
from langchain_core.documents import Document  # noqa: E402
from langchain_core.runnables import RunnableLambda  # noqa: E402
from pydantic import ValidationError  # noqa: E402

from rerank_plugin.integrations.langchain import LangChainReranker, LangChainRetriever  # noqa: E402


def test_a_chain_ranks_as_the_library_does(searcher, delta, hits, relevance):
    retriever, compressor = LangChainRetriever(searcher=searcher, k=20), LangChainReranker(reranker=delta)
    chain = retriever | RunnableLambda(lambda documents: compressor.compress_documents(documents, QUERY))
    found = chain.invoke(QUERY)
    assert [one.id for one in found] == [hit.docid for hit in hits]
    scores = [one.metadata["relevance_score"] for one in found]
    assert scores == pytest.approx(relevance, abs=1e-5)
    assert found == asyncio.run(chain.ainvoke(QUERY)) and chain.batch(["zzyzx", QUERY]) == [[], found]


def test_what_a_retrieved_document_has(searcher):
    (hit,), (found,) = searcher.search(QUERY, 1), LangChainRetriever(searcher=searcher, k=1).invoke(QUERY)
    assert found.page_content == f"{hit.title}\n{searcher.doc(hit.docid).get('abstract')}" and found.id == hit.docid
    assert found.metadata == {"title": hit.title, "first_stage_score": hit.score}  # BM25 is no relevance


def test_documents_of_other_retrievers_keep_what_they_have():
    given = [
        Document("Propranolol prevents migraine.", id="a", metadata={"source": "x.pdf", "page": 3}),
        Document("Aspirin prevents stroke.", metadata={"source": "y.pdf"}),
    ]
    before = [one.model_copy(deep=True) for one in given]
    found = LangChainReranker(reranker=rp.Reranker.load("delta"), top_n=1).compress_documents(given, "migraine")
    score = found[0].metadata["relevance_score"]
    assert found == [before[0].model_copy(update={"metadata": {**before[0].metadata, "relevance_score": score}})]
    assert given == before


@pytest.mark.parametrize("fields", [{"reranker": "delta"}, {"reranker": None}, {"top_k": 3}])
def test_wrong_fields(fields):
    with pytest.raises(ValidationError):
        LangChainReranker(**{"reranker": rp.Reranker.load("delta"), **fields})
