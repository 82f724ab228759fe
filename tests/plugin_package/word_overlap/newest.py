"""A first stage: the newest documents, the last rows of the index, whatever the query."""

from dataclasses import dataclass, field

import numpy as np

from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.retrieval.register import FirstStageEntry


@dataclass(frozen=True)
class NewestConfig:
    name: str = field(default="newest", init=False)
    most: str

    def open(self, index):
        return Newest(index.forward, int(self.most))


class Newest:
    name = NewestConfig.name

    def __init__(self, forward, most):
        self.forward, self.most = forward, most

    def search(self, query, depth):
        rows = np.arange(len(self.forward))[::-1][: min(depth, self.most)]
        return Candidates(self.forward, rows, rows.astype(np.float32))


NEWEST = FirstStageEntry(NewestConfig, "the newest documents", "most")
