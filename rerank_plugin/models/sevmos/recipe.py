"""[D18] 4.3.3: classification and the square root of the relevance were best; the optimizer is [D17] 4.7's."""

from rerank_plugin.models.base import Recipe

RECIPE = Recipe(
    {"loss": "bce", "weights": "sqrt", "optimizer": "adadelta"},
    summary="as a classifier with weights, Adadelta, the epoch with the best nDCG@20",
)
