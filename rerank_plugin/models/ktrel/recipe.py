"""How [K] 4.2 trained KTRel.

Margin ranking loss without weights, Adam with its defaults, batches of 10, 20 or 50, early stopping on MAP. The paper
does not say how it drew pairs. For one that is drawn from the collection two documents are encoded; among the documents
of a batch each is encoded once for all its pairs. [K] 4.2 ranks whole collections, so they are trained on.
"""

from rerank_plugin.models.base import Recipe

RECIPE = Recipe(
    {"weights": "none", "sampling": "batch", "batch_size": 20, "optimizer": "adam"},
    measures=("AP", "nDCG@10"),
    documents="collection",
    summary="hinge loss without weights over all pairs in batches of 20 documents, Adam, the epoch with the best AP",
)
