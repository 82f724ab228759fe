"""The hybrid of words and meaning: BM25, and BM25+RM3 if asked for, fused with the bundled encoder ``ktrel``.

Scores are interpolated as :mod:`rerank_plugin.retrieval.fusion` says. The encoder then searches a second time, with the
query moved towards the best fused documents, and is fused anew: feedback from documents that words and meaning agree
on. In the end, documents that the encoder puts close to each other share their scores
(:mod:`rerank_plugin.kernels.regularization`). Weights and numbers were chosen on the validation queries of two
collections (docs/models/ktrel.md). The index keeps the encodings: ``index --encode ktrel``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rerank_plugin.files.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.retrieval.dense import DenseConfig
from rerank_plugin.retrieval.fusion import DEPTH, LINEAR, FusedStage, FusionConfig
from rerank_plugin.retrieval.lucene import BM25, RM3
from rerank_plugin.retrieval.register import FirstStageEntry, configure, register

ENCODER = "ktrel"
HYBRID, HYBRID_RM3 = "hybrid", "hybrid+rm3"
LEXICAL = {HYBRID: {BM25: 0.65}, HYBRID_RM3: {BM25: 0.4, RM3: 0.3}}  # and their weights; the encoder has the rest of 1


@dataclass(frozen=True)
class HybridConfig:
    """The hybrid's settings; the rest are the defaults of its stages.

    Attributes:
        name: ``hybrid`` or ``hybrid+rm3``.
        feedback, feedback_weight: number and weight of the fused documents that the encoder's query is moved towards.
        regularized, neighbours, regularization: of the scores: number of documents, nearest others of each, and weight.
    """

    name: str = HYBRID
    feedback: int = 5
    feedback_weight: float = 0.5
    regularized: int = 300
    neighbours: int = 5
    regularization: float = 0.3

    def open(self, index) -> HybridStage:
        """The first stage over an :class:`~rerank_plugin.indexes.index_folder.Index`; starts the JVM.

        Raises:
            InputError: the index holds no encodings by ``ktrel``; the message has the command that makes them.
        """
        return HybridStage(index, self)


class HybridStage(FusedStage):
    """The hybrid over an index. It is thread-safe."""

    def __init__(self, index, config: HybridConfig):
        self.dense, self.hybrid = DenseConfig(ENCODER).open(index), config
        weights = LEXICAL[config.name]
        configs = [configure(name) for name in weights]
        self.lexical = [one.open(index) for one in configs]
        encoder = DenseConfig(ENCODER)
        fusion = FusionConfig((*configs, encoder), LINEAR, (*weights.values(), 1 - sum(weights.values())))
        super().__init__(index.forward, [*self.lexical, self.dense], fusion)
        self.name = config.name

    def search(self, query: Query, depth: int) -> Candidates:
        """The best ``depth`` of the fused documents."""
        from rerank_plugin.kernels.regularization import regularize  # numba is slow to import

        hybrid = self.hybrid
        words = [stage.search(query, DEPTH) for stage in self.lexical]
        best = self.fuse([*words, self.dense.search(query, DEPTH)], hybrid.feedback)
        near = self.dense.search_near(query, best.rows, hybrid.feedback_weight, DEPTH)
        fused = self.fuse([*words, near], max(depth, hybrid.regularized))
        encodings = self.dense.vectors[fused.rows[: hybrid.regularized]].astype(np.float32)
        scores = regularize(fused.first_stage_scores, encodings, hybrid.neighbours, hybrid.regularization)
        return Candidates(self.forward, fused.rows, scores).best(depth)


register(FirstStageEntry(HYBRID, HybridConfig, "BM25 fused with the bundled encoder ktrel"))
register(FirstStageEntry(HYBRID_RM3, HybridConfig, "the same, fused with BM25+RM3 too", fixed={"name": HYBRID_RM3}))
