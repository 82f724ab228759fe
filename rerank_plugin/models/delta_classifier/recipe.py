"""[D17] 4.6 and 4.7: a classifier without weights; the weighted variant has the weights ``log``."""

from rerank_plugin.models.base import Recipe

RECIPE = Recipe(
    {"loss": "bce", "weights": "none", "optimizer": "adadelta", "epochs": 10},
    summary="as a classifier without weights, Adadelta, 10 epochs, the one with the best nDCG@20",
)
