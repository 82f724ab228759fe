"""The retriever and the node postprocessor with the real LlamaIndex."""

import asyncio

import pytest

import rerank_plugin as rp
from tests.integrations.conftest import QUERY

pytest.importorskip("llama_index.core", reason="needs the extra 'llama-index'")
from llama_index.core import Settings  # noqa: E402
from llama_index.core.llms.mock import MockLLM  # noqa: E402
from llama_index.core.query_engine import RetrieverQueryEngine  # noqa: E402
from llama_index.core.response_synthesizers import ResponseMode, get_response_synthesizer  # noqa: E402
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode  # noqa: E402

from rerank_plugin.integrations.llama_index import LlamaIndexReranker, LlamaIndexRetriever  # noqa: E402


def test_a_query_engine_ranks_as_the_library_does(searcher, delta, hits, relevance, monkeypatch):
    monkeypatch.setattr(Settings, "_llm", MockLLM())  # an engine wants one, even to answer without text
    engine = RetrieverQueryEngine(
        LlamaIndexRetriever(searcher, similarity_top_k=20),
        get_response_synthesizer(response_mode=ResponseMode.NO_TEXT),
        [LlamaIndexReranker(reranker=delta)],
    )
    found = engine.retrieve(QueryBundle(QUERY))
    assert [one.node_id for one in found] == [hit.docid for hit in hits]
    assert [one.score for one in found] == pytest.approx(relevance, abs=1e-5)
    assert asyncio.run(engine.aretrieve(QueryBundle(QUERY))) == found
    assert [one.node_id for one in engine.query(QUERY).source_nodes] == [hit.docid for hit in hits]
    assert engine.retrieve(QueryBundle("zzyzx")) == []


def test_what_a_retrieved_node_has(searcher):
    (hit,), (found,) = searcher.search(QUERY, 1), LlamaIndexRetriever(searcher, similarity_top_k=1).retrieve(QUERY)
    assert (found.node_id, found.score) == (hit.docid, hit.score)
    assert found.text == f"{hit.title}\n{searcher.doc(hit.docid).get('abstract')}"
    assert found.metadata == {"title": hit.title, "first_stage_score": hit.score}


def test_nodes_of_other_retrievers_keep_what_they_have():
    nodes = [TextNode(text="Aspirin prevents stroke."), TextNode(text="Propranolol prevents migraine.")]
    nodes[1].metadata["page"] = 3
    given = [NodeWithScore(node=node, score=0.5) for node in nodes]
    (found,) = LlamaIndexReranker(reranker=rp.Reranker.load("delta"), top_n=1).postprocess_nodes(
        given, query_str="migraine"
    )
    assert found.node is nodes[1] and found.metadata == {"page": 3} and given[1].score == 0.5 != found.score
    with pytest.raises(rp.InputError, match="re-ranked for a query: give query_str"):
        LlamaIndexReranker(reranker=rp.Reranker.load("delta")).postprocess_nodes(given)
