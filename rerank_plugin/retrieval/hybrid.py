"""The hybrid of words and meaning: BM25, with RM3 or without, fused with the bundled encoder ``ktrel``.

Scores are interpolated as :mod:`rerank_plugin.retrieval.fusion` says. The encoder then searches a second time, with the
query moved towards the best fused documents, and is fused anew: feedback from documents that words and meaning agree
on. Weights and numbers were chosen on the validation queries of two collections (docs/models/ktrel.md). The index keeps
the encodings: ``index --encode ktrel``.
"""

from __future__ import annotations

from dataclasses import dataclass

from rerank_plugin.files.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.retrieval.dense import DenseConfig
from rerank_plugin.retrieval.fusion import DEPTH, LINEAR, FusedStage, FusionConfig
from rerank_plugin.retrieval.lucene import BM25, RM3
from rerank_plugin.retrieval.register import FirstStageEntry, configure, register

ENCODER = "ktrel"
HYBRID, HYBRID_RM3 = "hybrid", "hybrid+rm3"
LEXICAL = {HYBRID: BM25, HYBRID_RM3: RM3}


@dataclass(frozen=True)
class HybridConfig:
    """The hybrid's settings; the rest are the defaults of its two stages.

    Attributes:
        weight: of the lexical stage; the encoder's is 1 less that.
        feedback, feedback_weight: number and weight of the fused documents that the encoder's query is moved towards.
    """

    name: str = HYBRID
    weight: float = 0.65
    feedback: int = 5
    feedback_weight: float = 0.5

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
        self.lexical = configure(LEXICAL[config.name]).open(index)
        configs = configure(LEXICAL[config.name]), DenseConfig(ENCODER)
        fusion = FusionConfig(configs, LINEAR, (config.weight, 1 - config.weight))
        super().__init__(index.forward, [self.lexical, self.dense], fusion)
        self.name = config.name

    def search(self, query: Query, depth: int) -> Candidates:
        """The best ``depth`` of the fused documents."""
        words = self.lexical.search(query, DEPTH)
        best = self.fuse([words, self.dense.search(query, DEPTH)], self.hybrid.feedback)
        near = self.dense.search_near(query, best.rows, self.hybrid.feedback_weight, DEPTH)
        return self.fuse([words, near], depth)


register(FirstStageEntry(HYBRID, HybridConfig, "BM25 fused with the bundled encoder ktrel"))
register(FirstStageEntry(HYBRID_RM3, HybridConfig, "the same with BM25+RM3", fixed={"name": HYBRID_RM3}))
