"""rerankers: a ``BaseRanker`` (extra ``rerankers``). Scores are the relevance between 0 and 1."""

from __future__ import annotations

from typing import Any

from rerank_plugin.base.extras import naming_extras
from rerank_plugin.integrations.documents import rerank
from rerank_plugin.ranking.reranker import Reranker

with naming_extras():
    from rerankers.documents import Document
    from rerankers.models.ranker import BaseRanker
    from rerankers.results import RankedResults, Result
    from rerankers.utils import prep_docs


class Ranker(BaseRanker):
    """Re-ranks documents: by their ids if the reranker has an index, otherwise by their texts and titles.

    Args:
        reranker: a `Reranker`.
        passages: as for `Reranker.rerank`.
    """

    def __init__(self, reranker: Reranker, passages: bool = False):
        self.reranker, self.passages = reranker, passages

    def rank(
        self,
        query: str,
        docs: str | Document | list[str] | list[Document],
        doc_ids: list[str] | list[int] | None = None,
        metadata: list[dict[str, Any]] | None = None,
    ) -> RankedResults:
        """All documents, by decreasing score; ranks count from 1."""
        documents = [] if docs == [] else prep_docs(docs, doc_ids, metadata)
        inputs = [(document.doc_id, document.text, document.metadata) for document in documents]
        ranked = rerank(self.reranker, query, inputs, passages=self.passages)
        results = [Result(documents[place], score, rank) for rank, (place, score) in enumerate(ranked, 1)]
        return RankedResults(results, query, has_scores=True)

    def score(self, query: str, doc: str) -> float:
        """The relevance of a text."""
        score: float = self.rank(query, doc)[0].score
        return score
