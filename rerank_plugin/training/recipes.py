"""How the papers trained each model, where not as Delta of [D18]: what the train command takes by default."""

from __future__ import annotations

# Model name to fields of TrainingConfig.
RECIPES: dict[str, dict] = {
    # [D17] 4.6 and 4.7: a classifier without weights; the weighted variant is --weights log.
    "delta-classifier": {"loss": "bce", "weights": "none", "optimizer": "adadelta", "epochs": 10},
    # [D18] 4.3.3: classification and the square root of the relevance were best; the optimizer is [D17] 4.7's.
    "sevmos": {"loss": "bce", "weights": "sqrt", "optimizer": "adadelta"},
}
