"""MatchPyramid: the module and its fast path."""

from rerank_plugin.models.pacrr.recipe import entry
from rerank_plugin.models.register import register

register(
    entry(
        __name__,
        "matchpyramid",
        "MatchPyramid",
        "MatchPyramid (Pang et al. 2016): convolutions over the matrix of similarities",
        fast=f"{__name__}.fused:FusedMatchPyramid",
    )
)
