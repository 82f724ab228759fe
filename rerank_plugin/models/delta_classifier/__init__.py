"""The Delta Relevance Classifier ([D17] 4): the module; it has no fast path."""

from rerank_plugin.models.base import Recipe
from rerank_plugin.models.register import ModelEntry, register

register(
    ModelEntry(
        name="delta-classifier",
        config="rerank_plugin.models.delta_classifier.model:DeltaClassifierConfig",
        module="rerank_plugin.models.delta_classifier.model:DeltaClassifier",
        summary="the classifier with the Delta stage ([D17])",
        explain="rerank_plugin.models.delta_classifier.model:explain",
        recipe=Recipe(  # [D17] 4.6 and 4.7; the weighted variant has the weights ``log``
            {"loss": "bce", "weights": "none", "optimizer": "adadelta", "epochs": 10},
            summary="binary cross-entropy without weights, Adadelta, 10 epochs, best epoch by nDCG@20",
        ),
        bench={},
    )
)
