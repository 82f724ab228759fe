"""Haystack: a retriever and a ranker as components of its pipelines (extra ``haystack``).

They are made of names, so that pipelines can be saved. Index and model are opened when a pipeline warms up. The
score of a document is the reranker's relevance between 0 and 1; without a reranker it is the first stage's score.
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
        reranker: what `Reranker.load` takes; None to keep the first stage's order.
        first_stage: what `Searcher` takes, such as ``bm25``, ``bm25+rm3`` or ``hybrid``.
        depth: how many candidates are retrieved for a query.
        top_k: how many documents of a query, at most.
        filters: which documents are retrieved, in Haystack's form: a condition ``==`` or ``in``, or ``AND`` of several,
            on different fields of `Filter`, such as ``meta.type``; None for all.
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
        if self._searcher is None:
            self._searcher = Searcher(self.index, self.reranker, self.first_stage, self.depth)

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, top_k: int | None = None, filters: dict[str, Any] | None = None
    ) -> dict[str, list[Document]]:
        """The documents of a query under ``documents``, by decreasing score.

        ``top_k`` and ``filters`` go before the component's.
        """
        self.warm_up()
        kept = _filter(self.filters if filters is None else filters)
        found = retrieve(self._searcher, query, self.top_k if top_k is None else top_k, kept)
        return {
            "documents": [
                Document(id=hit.docid, content=text, meta=metadata, score=hit.score if relevance is None else relevance)
                for hit, relevance, text, metadata in found
            ]
        }


def _filter(filters: dict[str, Any] | None) -> Filter | None:
    if not filters:
        return None
    values: dict[str, Any] = {}
    for one in filters.get("conditions", []) if filters.get("operator") == "AND" else [filters]:
        field = str(one.get("field")).removeprefix("meta.")
        if one.get("operator") not in ("==", "in") or field in values:
            raise InputError(
                "filters are conditions == and in, one a field, or AND of these, as {'field': 'meta.type', 'operator': "
                f"'==', 'value': 'Review'}}, not {one}"
            )
        values[field] = one.get("value")
    return Filter.of(values)


@component
class HaystackRanker:
    """Re-ranks documents: by their ids if there is an index, otherwise by their texts and titles.

    Args:
        reranker: what `Reranker.load` takes.
        index: the folder of an index that has the documents; None to read texts.
        statistics: for texts, an index whose statistics they are scored by; by default those of the checkpoint.
        passages: as for `Reranker.rerank`.
        top_k: how many documents to return; None for all.
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
        if self._loaded is None:
            self._loaded = Reranker.load(self.reranker, self.index, statistics=self.statistics)

    @component.output_types(documents=list[Document])
    def run(self, query: str, documents: list[Document], top_k: int | None = None) -> dict[str, list[Document]]:
        """The best documents under ``documents``, by decreasing score; ``top_k`` goes before the component's."""
        self.warm_up()
        given = [(one.id, one.content, one.meta) for one in documents]
        best = rerank(self._loaded, query, given, self.top_k if top_k is None else top_k, self.passages)
        return {"documents": [replace(documents[place], score=score) for place, score in best]}
