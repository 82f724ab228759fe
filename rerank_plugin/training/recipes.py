"""How the papers trained each model, where not as Delta of [D18]: what the train command takes by default."""

from __future__ import annotations

from rerank_plugin.training.trainer import TrainingConfig

# [P] 2.2 and 3.1: all models alike, by groups of documents, mini-batches of 32, a given number of epochs, of which the
# one with the best ERR@20 is kept. 'Stochastic gradient descent' names no variant; the authors' program took Adam.
PACRR = {"weights": "none", "sampling": "groups", "batch_size": 32, "optimizer": "adam", "patience": 30}

# [K] 4.2: margin ranking loss without weights, Adam with its defaults, batches of 10, 20 or 50, early stopping on MAP.
# The paper does not say how it drew pairs. For one that is drawn from the collection two documents are encoded; among
# the documents of a batch each is encoded once for all its pairs.
KTREL = {"weights": "none", "sampling": "batch", "batch_size": 20, "optimizer": "adam"}

# [K] 4.3 says nothing of BERT's training but its layer; these are of the ranges in BERT's own paper (appendix A.3).
CROSS_ENCODER = {"weights": "none", "batch_size": 16, "optimizer": "adam", "learning_rate": 5e-5, "epochs": 10}

# Model name to fields of TrainingConfig.
RECIPES: dict[str, dict] = {
    # [D17] 4.6 and 4.7: a classifier without weights; the weighted variant is --weights log.
    "delta-classifier": {"loss": "bce", "weights": "none", "optimizer": "adadelta", "epochs": 10},
    # [D18] 4.3.3: classification and the square root of the relevance were best; the optimizer is [D17] 4.7's.
    "sevmos": {"loss": "bce", "weights": "sqrt", "optimizer": "adadelta"},
    "bert": CROSS_ENCODER,
    "biobert": CROSS_ENCODER,
    "pacrr": PACRR,
    "drmm": PACRR,
    "duet": PACRR,
    "matchpyramid": PACRR,
    # Not in [P]; their own papers take Adam and pairs, too.
    "knrm": PACRR,
    "conv-knrm": PACRR,
    "ktrel": KTREL,
    "ktrel-w": KTREL,
    "ktrel-c": KTREL,
}


def measures(model: str) -> tuple[str, ...]:
    """The validation measures of a model, of which the first decides."""
    recipe = RECIPES.get(model)
    if recipe is KTREL:
        return "AP", "nDCG@10"
    return ("ERR@20", "nDCG@20") if recipe is PACRR else ("nDCG@20", "AP")


def documents(model: str) -> str:
    """Which documents training pairs are drawn from. [K] 4.2 ranks whole collections, so they are trained on."""
    return "collection" if RECIPES.get(model) is KTREL else "candidates"


def training_config(model: str, given: dict) -> TrainingConfig:
    """How to train: the fields that are given, then what the model's paper says, then Delta's."""
    recipe = RECIPES.get(model, {})
    if given.get("loss", "hinge") != recipe.get("loss", "hinge"):  # they belong to another loss
        recipe = {name: value for name, value in recipe.items() if name not in ("weights", "sampling")}
    if given.get("loss") == "bce":
        recipe = {"weights": "none", **recipe}
    return TrainingConfig(**{**recipe, **given})
