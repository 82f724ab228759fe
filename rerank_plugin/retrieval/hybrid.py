"""The hybrid of words and meaning: BM25, with RM3 or without, fused with the bundled encoder ``ktrel``.

Scores are interpolated as :mod:`rerank_plugin.retrieval.fusion` says, with weights that were chosen on the validation
queries of two collections (docs/models/README.md). The index keeps the encodings: ``index --encode ktrel``.
"""

from __future__ import annotations

from dataclasses import dataclass

from rerank_plugin.retrieval.dense import DenseConfig
from rerank_plugin.retrieval.fusion import LINEAR, FusedStage, FusionConfig
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
    """

    name: str = HYBRID
    weight: float = 0.65

    def open(self, index) -> FusedStage:
        """The first stage over an :class:`~rerank_plugin.indexes.index_folder.Index`; starts the JVM.

        Raises:
            InputError: the index holds no encodings by ``ktrel``; the message has the command that makes them.
        """
        stages = configure(LEXICAL[self.name]), DenseConfig(ENCODER)
        fusion = FusionConfig(stages, LINEAR, (self.weight, 1 - self.weight))
        stage = fusion.open(index)
        stage.name = self.name
        return stage


register(FirstStageEntry(HYBRID, HybridConfig, "BM25 fused with the bundled encoder ktrel"))
register(FirstStageEntry(HYBRID_RM3, HybridConfig, "the same with BM25+RM3", fixed={"name": HYBRID_RM3}))
