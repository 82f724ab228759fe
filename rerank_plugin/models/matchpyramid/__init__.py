"""MatchPyramid: the module and its fast path."""

from rerank_plugin.models.pacrr.recipe import RECIPE
from rerank_plugin.models.register import ModelEntry, register

register(
    ModelEntry(
        name="matchpyramid",
        config="rerank_plugin.models.matchpyramid.model:MatchPyramidConfig",
        module="rerank_plugin.models.matchpyramid.model:MatchPyramid",
        summary="MatchPyramid (Pang et al. 2016): convolutions over the matrix of similarities",
        fast="rerank_plugin.models.matchpyramid.fused:FusedMatchPyramid",
        explain="rerank_plugin.models.matchpyramid.explain:explain",
        recipe=RECIPE,
        bench={},
    )
)
