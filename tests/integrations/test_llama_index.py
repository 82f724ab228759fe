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
    monkeypatch.setattr(Settings, "_llm", MockLLM())  # an engine needs one even for answers without text
    engine = RetrieverQueryEngine(
        LlamaIndexRetriever(searcher, similarity_top_k=20),
        get_response_synthesizer(response_mode=ResponseMode.NO_TEXT),
        [LlamaIndexReranker(reranker=delta)],
    )
    nodes = engine.retrieve(QueryBundle(QUERY))
    assert [node.node_id for node in nodes] == [hit.docid for hit in hits]
    assert [node.score for node in nodes] == pytest.approx(relevance, abs=1e-5)
    assert asyncio.run(engine.aretrieve(QueryBundle(QUERY))) == nodes
    assert [node.node_id for node in engine.query(QUERY).source_nodes] == [hit.docid for hit in hits]
    assert engine.retrieve(QueryBundle("zzyzx")) == []


def test_a_retrieved_node(searcher):
    (hit,), (node,) = searcher.search(QUERY, 1), LlamaIndexRetriever(searcher, similarity_top_k=1).retrieve(QUERY)
    assert (node.node_id, node.score) == (hit.docid, hit.score)
    assert node.text == f"{hit.title}\n{searcher.doc(hit.docid).get('abstract')}"
    assert node.metadata == {"title": hit.title, "first_stage_score": hit.score}


def test_nodes_of_other_retrievers_keep_their_fields():
    nodes = [TextNode(text="Aspirin prevents stroke."), TextNode(text="Propranolol prevents migraine.")]
    nodes[1].metadata["page"] = 3
    inputs = [NodeWithScore(node=node, score=0.5) for node in nodes]
    (best,) = LlamaIndexReranker(reranker=rp.Reranker.load("delta"), top_n=1).postprocess_nodes(
        inputs, query_str="migraine"
    )
    assert best.node is nodes[1] and best.metadata == {"page": 3} and inputs[1].score == 0.5 != best.score
    with pytest.raises(rp.InputError, match="re-ranked for a query: pass query_str"):
        LlamaIndexReranker(reranker=rp.Reranker.load("delta")).postprocess_nodes(inputs)
