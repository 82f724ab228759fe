"""KTRel ([K] 3): the module and what scores from its encodings, under three names: both parts, words or concepts."""

from dataclasses import replace
from pathlib import Path

from rerank_plugin.models.ktrel.recipe import RECIPE
from rerank_plugin.models.register import ModelEntry, register

KTREL = register(
    ModelEntry(
        name="ktrel",
        config="rerank_plugin.models.ktrel.model:KtrelConfig",
        module="rerank_plugin.models.ktrel.model:Ktrel",
        summary="KTRel ([K]): a transformer layer over words and one over concepts, from document vectors",
        encoder="rerank_plugin.models.ktrel.fused:KtrelScorer",
        explain="rerank_plugin.models.ktrel.explain:explain",
        recipe=RECIPE,
        bundled=Path(__file__).parent / "bundled",
    )
)
register(
    replace(
        KTREL,
        bundled=None,
        name="ktrel-w",
        config="rerank_plugin.models.ktrel.model:KtrelWConfig",
        summary="KTRel of words alone",
        requires={"parts": "words"},
        bench={},
    )
)
register(
    replace(
        KTREL,
        bundled=None,
        name="ktrel-c",
        config="rerank_plugin.models.ktrel.model:KtrelCConfig",
        summary="KTRel of concepts alone",
        requires={"parts": "concepts"},
    )
)
