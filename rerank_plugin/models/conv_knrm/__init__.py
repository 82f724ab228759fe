"""Conv-KNRM: the module and its fast path."""

from rerank_plugin.models.pacrr.recipe import RECIPE
from rerank_plugin.models.register import ModelEntry, register

register(
    ModelEntry(
        name="conv-knrm",
        config="rerank_plugin.models.conv_knrm.model:ConvKnrmConfig",
        module="rerank_plugin.models.conv_knrm.model:ConvKnrm",
        summary="Conv-KNRM (Dai et al. 2018): kernels over the similarities of n-grams",
        fast="rerank_plugin.models.conv_knrm.fused:FusedConvKnrm",
        explain="rerank_plugin.models.conv_knrm.explain:explain",
        recipe=RECIPE,
        bench={},
    )
)
