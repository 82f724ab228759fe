"""DRMM: the module and its fast path."""

from rerank_plugin.models.pacrr.recipe import entry
from rerank_plugin.models.register import register

register(
    entry(
        __name__,
        "drmm",
        "Drmm",
        "DRMM (Guo et al. 2016): histograms of similarities, weighted by idf",
        fast=f"{__name__}.fused:FusedDrmm",
    )
)
