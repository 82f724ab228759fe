"""Scoring from stored encodings on a torch device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rerank_plugin.indexes.device_vectors import vectors_on
from rerank_plugin.inputs.builder import InputBuilder
from rerank_plugin.kernels.parallel import available_threads
from rerank_plugin.models.base import RerankerOptions
from rerank_plugin.models.encoded_path import EncodedDocuments
from rerank_plugin.models.fast_paths import FastPath, InnerProductScorer, ModulePath, ScoringTask
from rerank_plugin.models.ranking_model import RankingModel


class EncodedOnDevice(ModulePath):
    """Scores candidates by the inner products of queries with their stored encodings, which are held on the device.

    The queries, a few words each, are encoded on the CPU: that takes less than to start the kernels of a layer.
    """

    of_index = False

    def __init__(self, path: EncodedDocuments, scorer: InnerProductScorer, device: str):
        self.scorer, self.vectors = scorer, vectors_on(path.store, device)

    @classmethod
    def open(cls, model: RankingModel, builder: InputBuilder, options: RerankerOptions) -> FastPath | ModulePath | None:
        """The path; that on the CPU for a model whose score is more than a product; None without stored encodings."""
        path = EncodedDocuments.open(model, builder, options.threads or available_threads())
        if path is None or not isinstance(path.scorer, InnerProductScorer):
            return path
        return cls(path, path.scorer, options.device)

    def score_many(self, tasks: Sequence[ScoringTask]) -> list[np.ndarray]:
        encoded = np.stack([self.scorer.encode(task.terms, task.words) for task in tasks])
        counts = [len(task.candidates) for task in tasks]
        rows = np.concatenate([task.candidates.rows for task in tasks])
        query = np.repeat(np.arange(len(tasks)), counts)
        scores = self.vectors.scores(self.vectors.store.quantize(encoded), query, rows)
        return np.split(scores, np.cumsum(counts)[:-1])
