"""PACRR ([P] 2): the module and its fast path."""

from rerank_plugin.models.pacrr.recipe import RECIPE
from rerank_plugin.models.register import ModelEntry, register

register(
    ModelEntry(
        name="pacrr",
        config="rerank_plugin.models.pacrr.model:PacrrConfig",
        module="rerank_plugin.models.pacrr.model:Pacrr",
        summary="PACRR ([P]): convolutions over similarities, and the strongest of each query word",
        fast="rerank_plugin.models.pacrr.fused:FusedPacrr",
        explain="rerank_plugin.models.pacrr.explain:explain",
        recipe=RECIPE,
        bench={},
    )
)
