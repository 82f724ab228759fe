"""Duet: the module and its fast path."""

from rerank_plugin.models.pacrr.recipe import entry
from rerank_plugin.models.register import register

register(
    entry(
        __name__,
        "duet",
        "Duet",
        "DUET (Mitra et al. 2017): exact matches and learned representations",
        fast=f"{__name__}.fused:FusedDuet",
    )
)
