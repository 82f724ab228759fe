"""How [P] 2.2 and 3.1 trained PACRR and its baselines; KNRM and Conv-KNRM, which are not among them, go with them.

By groups of documents, in mini-batches of 32, a given number of epochs, of which the one with the best ERR@20 is kept.
'Stochastic gradient descent' names no variant; the authors' program took Adam.
"""

from rerank_plugin.models.base import Recipe

RECIPE = Recipe(
    {"weights": "none", "sampling": "groups", "batch_size": 32, "optimizer": "adam", "patience": 30},
    measures=("ERR@20", "nDCG@20"),
    summary="hinge loss without weights, pairs by groups, batches of 32, Adam, 30 epochs, the one with the best ERR@20",
)
