"""The configuration of a training, its checks, and the recipes of the models' papers.

Imports no torch, so that the help of the train command is fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.settings import check_bounds, setting
from rerank_plugin.models.register import entry_of

# The class of torch.optim and the default learning rate: torch's own, except for Adagrad and SGD.
OPTIMIZERS = {
    "adagrad": ("Adagrad", 0.01),
    "adadelta": ("Adadelta", 1.0),
    "adam": ("Adam", 0.001),
    "sgd": ("SGD", 0.01),
}

# The weights and samplings of each loss over drawn examples, see :mod:`rerank_plugin.training.objectives`.
LOSSES: dict[str, dict[str, tuple[str, ...]]] = {
    "hinge": {"weights": ("sqrt", "none"), "sampling": ("balanced", "groups")},
    "bce": {"weights": ("log", "sqrt", "none"), "sampling": ("balanced",)},
    "margin": {"weights": ("none",), "sampling": ("balanced", "groups")},
}
SOFTMAX, BATCH = "softmax", "batch"  # a loss and a sampling of whole batches, without an objective
COLLECTION = "collection"


@dataclass(frozen=True)
class TrainingConfig:
    """The settings of a training. [D18] 3.4 has mini-batches of 256 and Adagrad, and no values of its L2 costs.

    :mod:`rerank_plugin.training.objectives` has the losses, weights and samplings;
    :mod:`rerank_plugin.training.contrastive` has the loss softmax and the sampling batch of encoders.
    """

    epochs: int = setting(30, "largest number of epochs (default: 30; delta-classifier 10)", ge=1)
    patience: int = setting(
        5, "epochs without a better measure before early stopping (default: 5; PACRR's recipe 30)", ge=1
    )
    batch_size: int = setting(256, "examples of each step (default: 256; PACRR's recipe 32; ktrel 20 documents)", ge=1)
    learning_rate: float | None = setting(
        None, "learning rate (default: adagrad 0.01, adadelta 1, adam 0.001, sgd 0.01)", type=float, gt=0
    )
    l2_convolution: float = setting(1e-4, "L2 cost of the weights of convolutions (default: 1e-4)", ge=0)
    l2_feed_forward: float = setting(1e-4, "L2 cost of the feed-forward weights (default: 1e-4)", ge=0)
    pairs_per_query: int = setting(
        50, "largest number of pairs, or documents, drawn per query and epoch (default: 50)", ge=1
    )
    seed: int = 42
    loss: str = setting(
        "hinge",
        "loss: hinge (pairs), margin (pairs: regresses the difference of relevance), bce (documents, as a classifier) "
        "or softmax (for an encoder such as ktrel: relevant pairs against the other pairs of a batch) (default: hinge)",
    )
    weights: str = setting(
        "sqrt",
        "weights of the examples: sqrt or none; for bce sqrt, log or none; for margin none (default: sqrt; bce none)",
    )
    sampling: str = setting(
        "balanced",
        "sampling of pairs: balanced (as many relevant as non-relevant documents of each query), groups (the PACRR "
        "paper's: highly relevant against relevant, relevant against non-relevant) or batch (for an encoder: all pairs "
        "in a batch of documents, each encoded once) (default: balanced; ktrel batch)",
    )
    precision: str = setting(
        "float32",
        "precision of a cross-encoder's products: float32, or bfloat16, which is faster on a GPU or a CPU that "
        "multiplies in it (default: float32)",
    )
    optimizer: str = setting("adagrad", "optimizer: adagrad, adadelta, adam or sgd (default: adagrad)")
    temperature: float = setting(0.1, "temperature of the softmax (default: 0.1)", gt=0)
    ndcg_share: float = setting(
        0.0, "share of 1 - nDCG@10 by smooth ranks in the loss softmax (default: 0)", ge=0, le=1
    )
    grade_power: float = setting(1.0, "power of the grades in the softmax (default: 1)", gt=0)
    queries_per_document: int = setting(4, "queries of each document in a batch of an encoder (default: 4)", ge=1)
    negatives: str = setting(
        BATCH,
        "negatives of an encoder's training: batch (batches of documents, each query against all of the batch) or "
        "collection (batches of queries, each against the whole index: for small collections) (default: batch)",
    )
    averaging: float = setting(
        0.0,
        "decay of a moving average of the epochs' weights, which is validated and saved (default: 0, no average)",
        ge=0,
        lt=1,
    )
    start_share: float = setting(
        0.0,
        "share of the initial weights, such as a distilled encoder's, in the weights that are validated and saved: "
        "interpolation fits the training queries less and other queries better (default: 0)",
        ge=0,
        lt=1,
    )
    restart: int = setting(
        0,
        "restart from the initial weights after every N epochs, with other random orders; the mean of the trainings' "
        "weights is validated and saved, with less variance than one training (default: 0, no restarts)",
        metavar="N",
        ge=0,
    )

    def __post_init__(self) -> None:
        if self.loss not in (SOFTMAX, *LOSSES):
            raise InputError(f"unknown loss '{self.loss}'; known: {', '.join(LOSSES)}")
        for field, known in LOSSES.get(self.loss, {}).items():
            value = getattr(self, field)
            if value not in known and not (field == "sampling" and self._by_batch):
                raise InputError(f"the loss '{self.loss}' has no {field} '{value}'; known: {', '.join(known)}")
        if self.precision not in (known := ("float32", "bfloat16")):
            raise InputError(f"unknown precision of a training '{self.precision}'; known: {', '.join(known)}")
        if self.optimizer not in OPTIMIZERS:
            raise InputError(f"unknown optimizer '{self.optimizer}'; known: {', '.join(OPTIMIZERS)}")
        if self.negatives not in (BATCH, COLLECTION):
            raise InputError(f"unknown negatives '{self.negatives}'; known: {BATCH}, {COLLECTION}")
        if self.negatives == COLLECTION and not self.of_batches:
            raise InputError(f"negatives of the {COLLECTION} are for the loss {SOFTMAX} or the sampling {BATCH}")
        check_bounds(self)
        if self.restart > self.patience:
            raise InputError(
                f"a restart after {self.restart} epochs needs a patience of at least as many: a training that restarts "
                "begins below the best epoch"
            )
        if self.ndcg_share and self.loss != SOFTMAX:
            raise InputError(f"the nDCG share needs the loss {SOFTMAX}")
        if self.learning_rate is None:
            object.__setattr__(self, "learning_rate", OPTIMIZERS[self.optimizer][1])

    @property
    def _by_batch(self) -> bool:
        return (self.loss, self.sampling) == ("hinge", BATCH)

    @property
    def of_batches(self) -> str | None:
        """The setting that needs contrastive training, in words; None if examples are drawn one by one."""
        return "the loss softmax" if self.loss == SOFTMAX else "the sampling batch" if self._by_batch else None


def by_recipe(model: str, overrides: Mapping[str, Any]) -> TrainingConfig:
    """A training configuration: ``overrides`` replace the model's recipe, which replaces Delta's defaults.

    Raises:
        InputError: an unknown field or model, or settings that do not fit together.
    """
    known = TrainingConfig.__dataclass_fields__
    if unknown := sorted(set(overrides) - set(known)):
        raise InputError(f"unknown fields of the training: {', '.join(unknown)}; known: {', '.join(known)}")
    recipe = entry_of(model).recipe.training
    if overrides.get("loss", "hinge") != recipe.get("loss", "hinge"):  # the recipe's belong to another loss
        recipe = {name: value for name, value in recipe.items() if name not in ("weights", "sampling")}
    if overrides.get("loss") in ("bce", "margin"):
        recipe = {"weights": "none", **recipe}
    return TrainingConfig(**{**recipe, **overrides})
