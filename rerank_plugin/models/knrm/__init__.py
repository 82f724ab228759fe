"""KNRM: the module and its fast path."""

from rerank_plugin.models.pacrr.recipe import RECIPE
from rerank_plugin.models.register import ModelEntry, register

register(
    ModelEntry(
        name="knrm",
        config="rerank_plugin.models.knrm.model:KnrmConfig",
        module="rerank_plugin.models.knrm.model:Knrm",
        summary="KNRM (Xiong et al. 2017): kernels over the similarities of words",
        fast="rerank_plugin.models.knrm.fused:FusedKnrm",
        explain="rerank_plugin.models.knrm.explain:explain",
        recipe=RECIPE,
        bench={},
    )
)
