"""DRMM: the module and its fast path."""

from rerank_plugin.models.pacrr.recipe import RECIPE
from rerank_plugin.models.register import ModelEntry, register

register(
    ModelEntry(
        name="drmm",
        config="rerank_plugin.models.drmm.model:DrmmConfig",
        module="rerank_plugin.models.drmm.model:Drmm",
        summary="DRMM (Guo et al. 2016): histograms of similarities, weighted by idf",
        fast="rerank_plugin.models.drmm.fused:FusedDrmm",
        explain="rerank_plugin.models.drmm.explain:explain",
        recipe=RECIPE,
        bench={},
    )
)
