"""KTRel ([K] 3): the module and what scores from its encodings, under three names: both parts, words or concepts."""

from dataclasses import replace
from pathlib import Path

from rerank_plugin.models.base import Recipe
from rerank_plugin.models.register import ModelEntry, register

# [K] 4.2: Adam with its defaults, batches of 10, 20 or 50, whole collections are ranked. The paper does not say how it
# drew pairs: among the documents of a batch each is encoded once for all its pairs.
RECIPE = Recipe(
    {"weights": "none", "sampling": "batch", "batch_size": 20, "optimizer": "adam"},
    measures=("AP", "nDCG@10"),
    documents="collection",
    summary="hinge loss without weights over all pairs in batches of 20 documents, Adam, the epoch with the best AP",
)
KTREL = register(
    ModelEntry(
        name="ktrel",
        config="rerank_plugin.models.ktrel.config:KtrelConfig",
        module="rerank_plugin.models.ktrel.model:Ktrel",
        summary="KTRel ([K]): a transformer layer over words and one over concepts, from document vectors",
        good_for="English, biomedical, related words",
        encoder="rerank_plugin.models.ktrel.fast:KtrelScorer",
        explain="rerank_plugin.models.ktrel.model:explain",
        recipe=RECIPE,
        bundled=Path(__file__).parent / "bundled",
    )
)
register(
    replace(
        KTREL,
        bundled=None,
        good_for="",
        name="ktrel-w",
        config="rerank_plugin.models.ktrel.config:KtrelWConfig",
        summary="KTRel of words alone",
        requires={"parts": "words"},
        bench={},
    )
)
register(
    replace(
        KTREL,
        bundled=None,
        good_for="",
        name="ktrel-c",
        config="rerank_plugin.models.ktrel.config:KtrelCConfig",
        summary="KTRel of concepts alone",
        requires={"parts": "concepts"},
    )
)
