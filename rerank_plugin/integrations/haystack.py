"""Haystack: a retriever and a ranker as components of its pipelines (extra ``haystack``).

Their arguments are names, so that pipelines can be saved. They open the index and load the model when a pipeline warms
up. The score of a document is the reranker's relevance between 0 and 1; without a reranker, the first-stage score.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.extras import naming_extras
from rerank_plugin.base.filters import Filter
from rerank_plugin.integrations.documents import rerank, retrieve
from rerank_plugin.ranking.reranker import Reranker
from rerank_plugin.ranking.searcher import Searcher

with naming_extras():
    from haystack import Document, component


@component
class HaystackRetriever:
    """Retrieves the documents that a `Searcher` finds.

    Args:
        index: the folder of an index.
        reranker: as for `Reranker.load`; None to keep the first stage's order.
        first_stage: as for `Searcher`: ``bm25``, ``bm25+rm3``, ``hybrid``, ...
        depth: number of candidates to retrieve for a query.
        top_k: largest number of documents to return for a query.
        filters: filters in Haystack's form: a condition ``==`` or ``in``, or ``AND`` of conditions on different fields
            of `Filter`, such as ``meta.type``; None for all documents.
    """

    def __init__(
        self,
        index: str,
        reranker: str | None = None,
        first_stage: str = "bm25",
        depth: int = 500,
        top_k: int = 10,
        filters: dict[str, Any] | None = None,
    ):
        self.index, self.reranker, self.first_stage = index, reranker, first_stage
        self.depth, self.top_k, self.filters = depth, top_k, filters
        self._searcher: Searcher | None = None

    def warm_up(self) -> None:
        """Open the index and load the reranker."""
        self._open()

    def _open(self) -> Searcher:
        if self._searcher is None:
            self._searcher = Searcher(self.index, self.reranker, self.first_stage, self.depth)
        return self._searcher

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, top_k: int | None = None, filters: dict[str, Any] | None = None
    ) -> dict[str, list[Document]]:
        """The documents of a query under ``documents``, by decreasing score.

        ``top_k`` and ``filters`` override those of the component.
        """
        document_filter = _filter(self.filters if filters is None else filters)
        retrieved = retrieve(self._open(), query, self.top_k if top_k is None else top_k, document_filter)
        return {
            "documents": [
                Document(id=hit.docid, content=text, meta=metadata, score=hit.score if relevance is None else relevance)
                for hit, relevance, text, metadata in retrieved
            ]
        }


def _filter(filters: dict[str, Any] | None) -> Filter | None:
    if not filters:
        return None
    values: dict[str, Any] = {}
    for condition in filters.get("conditions", []) if filters.get("operator") == "AND" else [filters]:
        field = str(condition.get("field")).removeprefix("meta.")
        if condition.get("operator") not in ("==", "in") or field in values:
            raise InputError(
                "filters must be a condition with == or in, or an AND of conditions on different fields, as "
                f"{{'field': 'meta.type', 'operator': '==', 'value': 'Review'}}, not {condition}"
            )
        values[field] = condition.get("value")
    return Filter.of(values)


@component
class HaystackRanker:
    """Re-ranks documents: by their ids if it has an index, otherwise by their texts and titles.

    Args:
        reranker: as for `Reranker.load`.
        index: the folder of an index that has the documents; None to read texts.
        statistics: for texts, an index whose statistics to score them with; by default those of the checkpoint.
        passages: as for `Reranker.rerank`.
        top_k: largest number of documents to return; None for all.
    """

    def __init__(
        self,
        reranker: str,
        index: str | None = None,
        statistics: str | None = None,
        passages: bool = False,
        top_k: int | None = None,
    ):
        self.reranker, self.index, self.statistics = reranker, index, statistics
        self.passages, self.top_k = passages, top_k
        self._loaded: Reranker | None = None

    def warm_up(self) -> None:
        """Load the reranker."""
        self._load()

    def _load(self) -> Reranker:
        if self._loaded is None:
            self._loaded = Reranker.load(self.reranker, self.index, statistics=self.statistics)
        return self._loaded

    @component.output_types(documents=list[Document])
    def run(self, query: str, documents: list[Document], top_k: int | None = None) -> dict[str, list[Document]]:
        """The best documents under ``documents``, by decreasing score; ``top_k`` overrides the component's."""
        inputs = [(document.id, document.content, document.meta) for document in documents]
        best = rerank(self._load(), query, inputs, self.top_k if top_k is None else top_k, self.passages)
        return {"documents": [replace(documents[place], score=score) for place, score in best]}
