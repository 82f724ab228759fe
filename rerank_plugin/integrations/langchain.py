"""LangChain: a retriever, and a document compressor that re-ranks (extra ``langchain``).

The relevance between 0 and 1 that a reranker gives is in the metadata of documents as ``relevance_score``, as with
other compressors.
"""

from __future__ import annotations

from collections.abc import Sequence

from rerank_plugin.base.extras import naming_extras
from rerank_plugin.integrations.documents import rerank, retrieve
from rerank_plugin.ranking.reranker import Reranker
from rerank_plugin.ranking.searcher import Searcher

with naming_extras():
    from langchain_core.callbacks import CallbackManagerForRetrieverRun, Callbacks
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import ConfigDict

SCORE = "relevance_score"


class LangChainRetriever(BaseRetriever):
    """Retrieves the documents that a searcher finds.

    Attributes:
        searcher: a `Searcher`.
        k: how many documents of a query, at most.
    """

    searcher: Searcher
    k: int = 10

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [
            Document(id=hit.docid, page_content=text, metadata=metadata | _scored(relevance))
            for hit, relevance, text, metadata in retrieve(self.searcher, query, self.k)
        ]


class LangChainReranker(BaseDocumentCompressor):
    """Re-ranks documents: by their ids if the reranker has an index, otherwise by their texts and titles.

    Attributes:
        reranker: a `Reranker`.
        top_n: how many documents to return; None for all.
        passages: as for `Reranker.rerank`.
    """

    reranker: Reranker
    top_n: int | None = None
    passages: bool = False

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """The best documents, with their metadata and ``relevance_score``, by decreasing score."""
        given = [(one.id, one.page_content, one.metadata) for one in documents]
        return [
            documents[place].model_copy(update={"metadata": {**documents[place].metadata, SCORE: score}})
            for place, score in rerank(self.reranker, query, given, self.top_n, self.passages)
        ]


def _scored(relevance: float | None) -> dict[str, float]:
    return {} if relevance is None else {SCORE: relevance}
