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
    documents = chain.invoke(QUERY)
    assert [document.id for document in documents] == [hit.docid for hit in hits]
    scores = [document.metadata["relevance_score"] for document in documents]
    assert scores == pytest.approx(relevance, abs=1e-5)
    assert documents == asyncio.run(chain.ainvoke(QUERY)) and chain.batch(["zzyzx", QUERY]) == [[], documents]


def test_a_retrieved_document(searcher):
    (hit,), (document,) = searcher.search(QUERY, 1), LangChainRetriever(searcher=searcher, k=1).invoke(QUERY)
    assert document.page_content == f"{hit.title}\n{searcher.doc(hit.docid).get('abstract')}"
    assert document.id == hit.docid
    assert document.metadata == {"title": hit.title, "first_stage_score": hit.score}  # no relevance_score: BM25 only


def test_documents_of_other_retrievers_keep_their_fields():
    documents = [
        Document("Propranolol prevents migraine.", id="a", metadata={"source": "x.pdf", "page": 3}),
        Document("Aspirin prevents stroke.", metadata={"source": "y.pdf"}),
    ]
    before = [document.model_copy(deep=True) for document in documents]
    ranked = LangChainReranker(reranker=rp.Reranker.load("delta"), top_n=1).compress_documents(documents, "migraine")
    score = ranked[0].metadata["relevance_score"]
    assert ranked == [before[0].model_copy(update={"metadata": {**before[0].metadata, "relevance_score": score}})]
    assert documents == before


@pytest.mark.parametrize("fields", [{"reranker": "delta"}, {"reranker": None}, {"top_k": 3}])
def test_invalid_fields(fields):
    with pytest.raises(ValidationError):
        LangChainReranker(**{"reranker": rp.Reranker.load("delta"), **fields})
