"""LlamaIndex: a retriever, and a node postprocessor that re-ranks (extra ``llama-index``).

The score of a node is the reranker's relevance between 0 and 1; without a reranker, the first-stage score. The metadata
of a node are its document's alone: LlamaIndex takes nodes for the same that have the same text and metadata.
"""

from __future__ import annotations

from typing import Any

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.extras import naming_extras
from rerank_plugin.base.filters import Filter, Values
from rerank_plugin.integrations.documents import FIRST_STAGE_SCORE, rerank, retrieve
from rerank_plugin.ranking.reranker import Reranker, as_filter
from rerank_plugin.ranking.searcher import Searcher

with naming_extras():
    from llama_index.core.callbacks import CBEventType, EventPayload
    from llama_index.core.instrumentation import get_dispatcher
    from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
    from pydantic import ConfigDict

dispatcher = get_dispatcher(__name__)


class RetrievedNode(NodeWithScore):
    """A node that a `Searcher` found.

    Attributes:
        first_stage_score: the first stage's score, which rerankers read.
    """

    first_stage_score: float | None = None


class LlamaIndexRetriever(BaseRetriever):
    """Retrieves documents with a searcher, as text nodes with the ids of the documents.

    Args:
        searcher: a `Searcher`.
        similarity_top_k: largest number of nodes to return for a query.
        filter: restricts the documents, as for `Searcher.search`.
        arguments: those of LlamaIndex's ``BaseRetriever``, such as ``callback_manager``.
    """

    def __init__(
        self,
        searcher: Searcher,
        similarity_top_k: int = 10,
        filter: Filter | Values | None = None,
        **arguments: Any,
    ):
        super().__init__(**arguments)
        self.searcher, self.similarity_top_k, self.filter = searcher, similarity_top_k, as_filter(filter)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        retrieved = retrieve(self.searcher, query_bundle.query_str, self.similarity_top_k, self.filter)
        titles = {"excluded_llm_metadata_keys": ["title"], "excluded_embed_metadata_keys": ["title"]}  # the text has it
        return [
            RetrievedNode(
                node=TextNode(id_=hit.docid, text=text, metadata=metadata, **titles),
                score=hit.score if relevance is None else relevance,
                first_stage_score=hit.first_stage_score,
            )
            for hit, relevance, text, metadata in retrieved
        ]


class LlamaIndexReranker(BaseNodePostprocessor):
    """Re-ranks nodes: by their ids if the reranker has an index, otherwise by their texts and titles.

    Attributes:
        reranker: a `Reranker`.
        top_n: largest number of nodes to return; None for all.
        passages: as for `Reranker.rerank`.
    """

    reranker: Reranker
    top_n: int | None = None
    passages: bool = False

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @classmethod
    def class_name(cls) -> str:
        return "RerankPluginRerank"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise InputError("nodes are re-ranked for a query: pass query_str or query_bundle")
        query, name, top_n = (
            query_bundle.query_str,
            self.reranker.name,
            len(nodes) if self.top_n is None else self.top_n,
        )
        dispatcher.event(ReRankStartEvent(query=query_bundle, nodes=nodes, top_n=top_n, model_name=name))
        payload: dict[str, Any] = {
            EventPayload.NODES: nodes, EventPayload.MODEL_NAME: name, EventPayload.QUERY_STR: query,
            EventPayload.TOP_K: top_n,
        }  # fmt: skip
        with self.callback_manager.event(CBEventType.RERANKING, payload=payload) as event:
            inputs = [(node.node_id, node.get_content(), node.metadata | _first_stage_score(node)) for node in nodes]
            ranked = rerank(self.reranker, query, inputs, self.top_n, self.passages)
            best = [nodes[place].model_copy(update={"score": score}) for place, score in ranked]
            event.on_end(payload={EventPayload.NODES: best})
        dispatcher.event(ReRankEndEvent(nodes=best))
        return best


def _first_stage_score(node: NodeWithScore) -> dict[str, float]:
    score = getattr(node, FIRST_STAGE_SCORE, None)
    return {} if score is None else {FIRST_STAGE_SCORE: score}
