"""LlamaIndex: a retriever, and a node postprocessor that re-ranks (extra ``llama-index``).

The score of a node is the reranker's relevance between 0 and 1; without a reranker, the first-stage score.
"""

from __future__ import annotations

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.extras import naming_extras
from rerank_plugin.integrations.documents import rerank, retrieve
from rerank_plugin.ranking.reranker import Reranker
from rerank_plugin.ranking.searcher import Searcher

with naming_extras():
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode


class LlamaIndexRetriever(BaseRetriever):
    """Retrieves documents with a searcher, as text nodes with the ids of the documents.

    Args:
        searcher: a `Searcher`.
        similarity_top_k: largest number of nodes to return for a query.
    """

    def __init__(self, searcher: Searcher, similarity_top_k: int = 10):
        super().__init__()
        self.searcher, self.similarity_top_k = searcher, similarity_top_k

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        retrieved = retrieve(self.searcher, query_bundle.query_str, self.similarity_top_k)
        return [
            NodeWithScore(
                node=TextNode(id_=hit.docid, text=text, metadata=metadata),
                score=hit.score if relevance is None else relevance,
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

    @classmethod
    def class_name(cls) -> str:
        return "RerankPluginRerank"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise InputError("nodes are re-ranked for a query: pass query_str or query_bundle")
        inputs = [(node.node_id, node.get_content(), node.metadata) for node in nodes]
        ranked = rerank(self.reranker, query_bundle.query_str, inputs, self.top_n, self.passages)
        return [NodeWithScore(node=nodes[place].node, score=score) for place, score in ranked]
