"""Duet: the module and its fast path."""

from rerank_plugin.models.pacrr.recipe import RECIPE
from rerank_plugin.models.register import ModelEntry, register

register(
    ModelEntry(
        name="duet",
        config="rerank_plugin.models.duet.model:DuetConfig",
        module="rerank_plugin.models.duet.model:Duet",
        summary="DUET (Mitra et al. 2017): exact matches and learned representations",
        fast="rerank_plugin.models.duet.fused:FusedDuet",
        explain="rerank_plugin.models.duet.explain:explain",
        recipe=RECIPE,
        bench={},
    )
)
