"""The classifier of [D17] 4: the module and its fast path."""

from rerank_plugin.models.delta_classifier.recipe import RECIPE
from rerank_plugin.models.register import ModelEntry, register

register(
    ModelEntry(
        name="delta-classifier",
        config="rerank_plugin.models.delta_classifier.model:DeltaClassifierConfig",
        module="rerank_plugin.models.delta_classifier.model:DeltaClassifier",
        summary="the classifier with the Delta stage ([D17])",
        fast="rerank_plugin.models.delta_classifier.fused:FusedDeltaClassifier",
        recipe=RECIPE,
        bench={},
    )
)
