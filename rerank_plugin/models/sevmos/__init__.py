"""SevMos ([D18] 4.3.3): the module and what scores from its encodings."""

from rerank_plugin.models.base import Recipe
from rerank_plugin.models.register import ModelEntry, register

register(
    ModelEntry(
        name="sevmos",
        config="rerank_plugin.models.sevmos.model:SevMosConfig",
        module="rerank_plugin.models.sevmos.model:SevMos",
        summary="the model of Severyn and Moschitti (2015): document vectors and a learned similarity",
        encoder="rerank_plugin.models.sevmos.fast:SevMosScorer",
        explain="rerank_plugin.models.sevmos.model:explain",
        recipe=Recipe(  # [D18] 4.3.3, where these loss and weights were best; the optimizer is [D17] 4.7's
            {"loss": "bce", "weights": "sqrt", "optimizer": "adadelta"},
            summary="as a classifier with weights, Adadelta, the epoch with the best nDCG@20",
        ),
        bench={"convolutions": 3},  # SevMos-C3
    )
)
