"""Conv-KNRM: the module and its fast path."""

from rerank_plugin.models.recipes import entry
from rerank_plugin.models.register import register

register(
    entry(
        __name__,
        "conv-knrm",
        "ConvKnrm",
        "Conv-KNRM (Dai et al. 2018): kernels over the similarities of n-grams",
        fast=f"{__name__}.fast:FastConvKnrm",
    )
)
