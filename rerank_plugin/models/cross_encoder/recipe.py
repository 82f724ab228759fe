"""[K] 4.3 says nothing of BERT's training but its layer; these are of the ranges in BERT's own paper (appendix A.3)."""

from rerank_plugin.models.base import Recipe

RECIPE = Recipe(
    {"weights": "none", "batch_size": 16, "optimizer": "adam", "learning_rate": 5e-5, "epochs": 10},
    summary="hinge loss without weights, balanced pairs, batches of 16, Adam, 10 epochs, the one with the best nDCG@20",
)
