"""The retriever and the node postprocessor with the real LlamaIndex."""

import asyncio
import copy
import pickle

import pytest

import rerank_plugin as rp
from tests.integrations.conftest import QUERY

pytest.importorskip("llama_index.core", reason="needs the extra 'llama-index'")
from llama_index.core import Settings  # noqa: E402
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload, LlamaDebugHandler  # noqa: E402
from llama_index.core.instrumentation import get_dispatcher  # noqa: E402
from llama_index.core.instrumentation.event_handlers import BaseEventHandler  # noqa: E402
from llama_index.core.llms.mock import MockLLM  # noqa: E402
from llama_index.core.query_engine import RetrieverQueryEngine  # noqa: E402
from llama_index.core.response_synthesizers import ResponseMode, get_response_synthesizer  # noqa: E402
from llama_index.core.retrievers import QueryFusionRetriever  # noqa: E402
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode  # noqa: E402
from pydantic import ValidationError  # noqa: E402

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
    assert node.metadata == {"title": hit.title} and node.first_stage_score == hit.score
    assert node.node.get_content(MetadataMode.LLM) == node.node.get_content(MetadataMode.EMBED) == node.text


def test_fused_retrievers_give_each_document_once(index, searcher, delta, monkeypatch):
    """By reciprocal ranks, in the order of our own fusion; the first-stage scores reach the reranker after it."""
    monkeypatch.setattr(Settings, "_llm", MockLLM())
    first_stages = ["bm25", "qld", "bm25+rm3"]
    searchers = [rp.Searcher(index, first_stage=name) for name in first_stages]
    fusion = QueryFusionRetriever(
        [LlamaIndexRetriever(each, similarity_top_k=5) for each in searchers],
        similarity_top_k=20, num_queries=1, mode="reciprocal_rerank", use_async=False,
    )  # fmt: skip
    expected = {}
    for each in searchers:
        for hit in each.search(QUERY, 5):
            expected[hit.docid] = expected.get(hit.docid, 0) + 1 / (hit.rank - 1 + 60)
    nodes = fusion.retrieve(QUERY)
    assert {node.node_id: node.score for node in nodes} == pytest.approx(expected) and len(nodes) == len(expected)
    best = LlamaIndexReranker(reranker=delta).postprocess_nodes(nodes, query_str=QUERY)
    assert sorted(node.node_id for node in best) == sorted(expected)
    assert {node.node_id: node.first_stage_score for node in best} == {
        node.node_id: node.first_stage_score for node in nodes
    }


def test_filters_and_copies(dated):
    with rp.Searcher(dated) as searcher:
        retriever = LlamaIndexRetriever(searcher, filter={"type": "Review", "year": 2015})
        assert [node.node_id for node in retriever.retrieve("aspirin")] == ["2015"]
        for twin in (copy.deepcopy(retriever), pickle.loads(pickle.dumps(retriever))):
            assert twin.retrieve("aspirin") == retriever.retrieve("aspirin") and twin.searcher is not searcher
            twin.searcher.close()
        with pytest.raises(rp.InputError, match="unknown filter 'page'"):
            LlamaIndexRetriever(searcher, filter={"page": "3"})
    reranker = LlamaIndexReranker(reranker=rp.Reranker.load("delta"), top_n=1)
    nodes = [NodeWithScore(node=TextNode(text=text)) for text in ("Aspirin prevents stroke.", "Migraine.")]
    for twin in (copy.deepcopy(reranker), pickle.loads(pickle.dumps(reranker))):
        assert twin.postprocess_nodes(nodes, query_str="stroke") == reranker.postprocess_nodes(
            nodes, query_str="stroke"
        )
    with pytest.raises(ValidationError):
        LlamaIndexReranker(reranker=reranker.reranker, top_k=3)


def test_re_ranking_sends_events_and_callbacks(caplog):
    class Events(BaseEventHandler):
        def handle(self, event, **arguments):
            events.append(event)

    events, handler = [], Events()
    debug = LlamaDebugHandler(print_trace_on_end=False)
    reranker = LlamaIndexReranker(
        reranker=rp.Reranker.load("delta"), top_n=1, callback_manager=CallbackManager([debug])
    )
    root, nodes = get_dispatcher(), [NodeWithScore(node=TextNode(text=text)) for text in ("Aspirin.", "Migraine.")]
    root.add_event_handler(handler)
    try:
        best = reranker.postprocess_nodes(nodes, query_str="migraine")
    finally:
        root.event_handlers.remove(handler)
    start, end = events
    assert (start.query.query_str, start.nodes, start.top_n, start.model_name) == ("migraine", nodes, 1, "delta")
    assert end.nodes == best and len(best) == 1
    ((begun, ended),) = debug.get_event_pairs(CBEventType.RERANKING)
    assert begun.payload == {
        EventPayload.NODES: nodes, EventPayload.MODEL_NAME: "delta", EventPayload.QUERY_STR: "migraine",
        EventPayload.TOP_K: 1,
    }  # fmt: skip
    assert ended.payload == {EventPayload.NODES: best}


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
