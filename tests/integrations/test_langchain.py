"""The retriever and the document compressor with the real LangChain."""

import asyncio
import pickle

import pytest

import rerank_plugin as rp
from tests.integrations.conftest import QUERY

pytest.importorskip("langchain_core", reason="needs the extra 'langchain'")
from langchain_core.documents import Document  # noqa: E402
from langchain_core.runnables import RunnableLambda  # noqa: E402
from langchain_tests.integration_tests import RetrieversIntegrationTests  # noqa: E402
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


class TestStandardRetriever(RetrieversIntegrationTests):
    """LangChain's tests of every retriever."""

    retriever_constructor = LangChainRetriever
    retriever_query_example = QUERY

    @pytest.fixture(autouse=True)
    def _searcher(self, searcher):
        self.searcher = searcher

    @property
    def retriever_constructor_params(self):
        return {"searcher": self.searcher}


def test_arguments_of_a_call_override_those_of_the_retriever(dated):
    def ids(runnable, **arguments):
        return {document.id for document in runnable.invoke("aspirin", **arguments)}

    with rp.Searcher(dated) as searcher:
        reviews = LangChainRetriever(searcher=searcher, filter={"type": "Review"})
        assert ids(reviews) == {"2015", "2017"}
        assert ids(reviews, filter={"year": 2014}) == ids(reviews.bind(filter={"year": "-2014"})) == {"2014"}
        assert len(reviews.bind(k=1).invoke("aspirin")) == len(reviews.batch(["aspirin"], k=1)[0]) == 1
        for copy in (reviews.model_copy(deep=True), pickle.loads(pickle.dumps(reviews))):
            assert copy.searcher is not searcher
            assert copy.invoke("aspirin") == reviews.invoke("aspirin")
            copy.searcher.close()
        for arguments in ({"top_k": 3}, {"filters": {"type": "Review"}}):
            with pytest.raises(TypeError, match="unexpected keyword argument"):
                reviews.invoke("aspirin", **arguments)
        for filter, message in (
            ({"page": "3"}, "unknown filter 'page'"),
            ("Review", "a filter is a Filter or a map"),
        ):
            with pytest.raises(rp.InputError, match=message):
                reviews.invoke("aspirin", filter=filter)
            with pytest.raises(ValidationError, match=message):
                LangChainRetriever(searcher=searcher, filter=filter)


@pytest.mark.parametrize("fields", [{"reranker": "delta"}, {"reranker": None}, {"top_k": 3}])
def test_invalid_fields(fields, searcher):
    with pytest.raises(ValidationError):
        LangChainReranker(**{"reranker": rp.Reranker.load("delta"), **fields})
    with pytest.raises(ValidationError):
        LangChainRetriever(**{"searcher": searcher, **fields})


def test_a_copied_compressor_ranks_as_the_original(delta):
    compressor = LangChainReranker(reranker=delta, top_n=2)
    documents = [
        Document(text, id=id) for id, text in (("1", "Aspirin."), ("2", "Liver fibrosis."), ("10", "Diabetes."))
    ]
    for document in documents:
        document.metadata["first_stage_score"] = 1.5
    for copy in (compressor.model_copy(deep=True), pickle.loads(pickle.dumps(compressor))):
        assert copy.compress_documents(documents, QUERY) == compressor.compress_documents(documents, QUERY)
