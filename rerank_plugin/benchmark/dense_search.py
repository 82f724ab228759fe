"""Retrieval from stored encodings over a whole collection: dense search against a plain implementation.

Both encode the query, multiply it with every document's encoding, and rank by score and then by decreasing document id:
the plain path by torch and a sort of all documents, the fast path as the search command.
"""

from __future__ import annotations

import numpy as np

from rerank_plugin.base.records import Query
from rerank_plugin.benchmark.collection import Collection
from rerank_plugin.benchmark.measured_rerankers import CHECKED, MeasuredReranker, relative_difference
from rerank_plugin.benchmark.measuring import Case
from rerank_plugin.benchmark.rows import DENSE, FAST, PLAIN, Measurement, measurements
from rerank_plugin.benchmark.scoring import Setup, columns, query_by_query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.retrieval.dense import DenseConfig, DenseStage


class PlainSearch:
    """A first stage by torch alone; it ignores whether the model can read a query.

    Args:
        reranker: the reranker on its plain path.
        vectors: encodings of all documents, float32 [R, E].
    """

    def __init__(self, reranker, vectors: np.ndarray):
        import torch

        self.model, self.builder, self.device = reranker.model, reranker.builder, reranker.options.device
        self.vectors = torch.from_numpy(vectors).to(self.device)  # [R, E]

    def search(self, query: Query, depth: int) -> Candidates:
        """The top ``depth`` documents of a query."""
        import torch

        index = self.builder.index
        with torch.inference_mode():
            scores = (self.vectors @ self._encoding(query)).cpu().numpy()  # [R]
        order = Candidates(index, np.arange(len(index)), scores).order(scores)[:depth]
        return Candidates(index, order, scores[order])

    def _encoding(self, query: Query):
        """The query's encoding, a tensor float [E]."""
        import torch

        if self.model.reads_texts:
            return torch.from_numpy(self.model.encode_query(query.text)).to(self.device)
        words = self.builder.query(self.builder.index.query(query.text))
        parts = [words.ids, words.mask]
        if words.concepts is not None:
            parts += [words.concepts, words.concept_mask]
        return self.model.encode_queries(*(torch.from_numpy(part)[None].to(self.device) for part in parts))[0]


def dense_rows(subject: MeasuredReranker, collection: Collection, depth: int, setup: Setup) -> list[Measurement]:
    """A row per path, one query after the other.

    Args:
        subject: a model whose score is an inner product, with stored encodings of the collection.

    Raises:
        InputError: the collection holds no encodings by this model.
    """
    fast = DenseStage(collection.index, DenseConfig(str(subject.checkpoint), device=setup.device))
    stages = {PLAIN: PlainSearch(subject.paths[PLAIN], fast.store.decode(np.arange(len(collection)))), FAST: fast}
    difference = largest_difference(stages, collection, depth)
    cases = {path: _case(stage, collection, depth) for path, stage in stages.items()}
    timings = setup.meter.measure(cases)
    common = {"candidates": min(depth, len(collection)), "candidate_source": "all documents"}
    common |= {"largest_difference": difference, "precision": "float32"}
    return measurements(DENSE, timings, 1, lambda path: {**columns(subject, path, collection, depth, setup), **common})


def largest_difference(stages: dict, collection: Collection, depth: int) -> float:
    """The largest difference of scores at the same ranks, over some queries, relative to a query's largest score."""
    scores = [
        [stages[path].search(query, depth).first_stage_scores for path in (PLAIN, FAST)]
        for query in collection.queries[:CHECKED]
    ]
    return relative_difference(pair for pair in scores if len(pair[1]))  # no hits if the model knows no word


def _case(stage, collection: Collection, depth: int) -> Case:
    return query_by_query(collection.queries, lambda query: len(stage.search(query, depth)))
