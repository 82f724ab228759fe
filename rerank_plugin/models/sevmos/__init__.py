"""SevMos ([D18] 4.3.3): the module and what scores from its encodings."""

from rerank_plugin.models.register import ModelEntry, register
from rerank_plugin.models.sevmos.recipe import RECIPE

register(
    ModelEntry(
        name="sevmos",
        config="rerank_plugin.models.sevmos.model:SevMosConfig",
        module="rerank_plugin.models.sevmos.model:SevMos",
        summary="the model of Severyn and Moschitti (2015): document vectors and a learned similarity",
        encoder="rerank_plugin.models.sevmos.fused:SevMosScorer",
        recipe=RECIPE,
        bench={"convolutions": 3},  # SevMos-C3
    )
)
