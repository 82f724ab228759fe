"""PACRR ([P] 2): the module and its fast path."""

from rerank_plugin.models.recipes import entry
from rerank_plugin.models.register import register

register(
    entry(
        f"{__name__}.model",
        "pacrr",
        "Pacrr",
        "PACRR ([P]): convolutions over similarities, max-pooled for each query word",
        fast=f"{__name__}.fast:FastPacrr",
    )
)
