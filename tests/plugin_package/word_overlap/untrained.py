"""A reranker that is no model: a factory, since its constructor takes a checkpoint."""

import numpy as np

from rerank_plugin.rerankers import Scorer


class TitleWords(Scorer):
    name = "title-words"

    def __init__(self, index, checkpoint, options):
        self.checkpoint = checkpoint

    def score(self, query, candidates):
        return candidates.title_lengths.astype(np.float32)


class Plain:
    """A class that is called with the index alone."""

    name = "plain"

    def __init__(self, index):
        self.index = index

    def score(self, query, candidates):
        return -candidates.title_lengths.astype(np.float32)
