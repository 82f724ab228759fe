"""Every document of the index as a candidate of every query: full-collection ranking ([K] 4.2).

Without a search no document is lost before re-ranking; the depth cuts the final ranking.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rerank_plugin.base.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.retrieval.register import RANKING, FirstStageEntry, register


@dataclass(frozen=True)
class AllDocumentsConfig:
    """All documents; it has no settings."""

    name: str = field(default="all", init=False)

    def open(self, index: Index) -> AllDocumentsStage:
        return AllDocumentsStage(index.forward)


class AllDocumentsStage:
    """Gives every query the same candidates: all documents in the order of their rows, with score 0."""

    name = AllDocumentsConfig.name

    def __init__(self, forward: ForwardIndex):
        self.forward = forward
        # One object for all queries: its words are gathered only once.
        self.candidates = Candidates(forward, forward.live_rows, np.zeros(forward.documents))

    def search(self, query: Query, depth: int) -> Candidates:
        """All documents, whatever the depth."""
        return self.candidates


register(FirstStageEntry(AllDocumentsConfig, "every document with score 0", fusable=False, depth_cuts=RANKING))
