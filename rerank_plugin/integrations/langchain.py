"""LangChain: a retriever, and a document compressor that re-ranks (extra ``langchain``).

The metadata of documents have the relevance between 0 and 1 as ``relevance_score``, like those of other compressors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rerank_plugin.base.extras import naming_extras
from rerank_plugin.base.filters import Filter, Values
from rerank_plugin.integrations.documents import FIRST_STAGE_SCORE, rerank, retrieve
from rerank_plugin.ranking.reranker import Reranker, as_filter
from rerank_plugin.ranking.searcher import Searcher

with naming_extras():
    from langchain_core.callbacks import CallbackManagerForRetrieverRun, Callbacks
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import ConfigDict, field_validator

RELEVANCE_SCORE = "relevance_score"


class LangChainRetriever(BaseRetriever):
    """Retrieves documents with a searcher.

    Attributes:
        searcher: a `Searcher`.
        k: largest number of documents to return for a query.
        filter: restricts the documents, as for `Searcher.search`.

    ``invoke(query, k=..., filter=...)`` and ``bind`` override the two.
    """

    searcher: Searcher
    k: int = 10
    filter: Any = None

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")
    _checked = field_validator("filter")(as_filter)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: Filter | Values | None = None,
    ) -> list[Document]:
        retrieved = retrieve(
            self.searcher, query, self.k if k is None else k, self.filter if filter is None else filter
        )
        return [
            Document(
                id=hit.docid,
                page_content=text,
                metadata=metadata | {FIRST_STAGE_SCORE: hit.first_stage_score} | _relevance_score(relevance),
            )
            for hit, relevance, text, metadata in retrieved
        ]


class LangChainReranker(BaseDocumentCompressor):
    """Re-ranks documents: by their ids if the reranker has an index, otherwise by their texts and titles.

    Attributes:
        reranker: a `Reranker`.
        top_n: largest number of documents to return; None for all.
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
        inputs = [(document.id, document.page_content, document.metadata) for document in documents]
        return [
            documents[place].model_copy(update={"metadata": documents[place].metadata | _relevance_score(relevance)})
            for place, relevance in rerank(self.reranker, query, inputs, self.top_n, self.passages)
        ]


def _relevance_score(relevance: float | None) -> dict[str, float]:
    return {} if relevance is None else {RELEVANCE_SCORE: relevance}
