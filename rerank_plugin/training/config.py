"""How a model is trained: the configuration, what fits together in it, and the recipes of the models' papers.

Imports no torch, because the help of the train command shows the settings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rerank_plugin.files.errors import InputError
from rerank_plugin.files.settings import setting
from rerank_plugin.models.register import entry_of

# The class of torch.optim, and the learning rate where none is given: torch's, but for Adagrad's and SGD's.
OPTIMIZERS = {
    "adagrad": ("Adagrad", 0.01),
    "adadelta": ("Adadelta", 1.0),
    "adam": ("Adam", 0.001),
    "sgd": ("SGD", 0.01),
}

# The weights and the samplings of each loss over drawn examples, see :mod:`rerank_plugin.training.objectives`.
LOSSES = {
    "hinge": {"weights": ("sqrt", "none"), "sampling": ("balanced", "groups")},
    "bce": {"weights": ("log", "sqrt", "none"), "sampling": ("balanced",)},
    "margin": {"weights": ("none",), "sampling": ("balanced", "groups")},
}
SOFTMAX, BATCH = "softmax", "batch"  # a loss and a sampling of whole batches, which no objective has
COLLECTION = "collection"


@dataclass(frozen=True)
class TrainingConfig:
    """How to train. Mini-batch 256 and Adagrad are [D18] 3.4's; the paper tuned the L2 costs and gives no values.

    The losses, weights and samplings are in :mod:`rerank_plugin.training.objectives`; the loss softmax and the sampling
    batch, which encoders are trained with, in :mod:`rerank_plugin.training.contrastive`.
    """

    epochs: int = setting(30, "epochs at most (30; delta-classifier 10)")
    patience: int = setting(5, "epochs without a better measure before stopping (5; PACRR's recipe 30)")
    batch_size: int = setting(256, "examples a step (256; PACRR's recipe 32; ktrel 20 documents)")
    learning_rate: float | None = setting(None, "adagrad 0.01, adadelta 1, adam 0.001, sgd 0.01", type=float)
    l2_convolution: float = setting(1e-4, "L2 cost of the convolutions' weights (1e-4)")
    l2_feed_forward: float = setting(1e-4, "L2 cost of the feed-forward weights (1e-4)")
    pairs_per_query: int = setting(50, "pairs, or documents, drawn from a query in an epoch, at most (50)")
    seed: int = 42
    loss: str = setting(
        "hinge",
        "hinge (pairs; the default), margin (pairs: their difference of relevance is learned), bce (documents, as a "
        "classifier) or softmax (an encoder's, such as ktrel: the relevant pairs of a batch against all its others)",
    )
    weights: str = setting(
        "sqrt", "of examples: sqrt (the default) or none; for bce none (the default), sqrt or log; for margin none"
    )
    sampling: str = setting(
        "balanced",
        "of pairs: balanced (the default, but of ktrel; as many relevant as other documents of each query), groups "
        "(the PACRR paper's: highly relevant against relevant, relevant against others) or batch (an encoder's: all "
        "pairs among the documents of a batch, each of which is encoded once)",
    )
    optimizer: str = setting("adagrad", "adagrad (the default), adadelta, adam or sgd")
    temperature: float = setting(0.1, "of softmax (0.1)")
    ndcg_share: float = setting(0.0, "of the loss softmax: how much of it is 1 - nDCG@10 by smooth ranks (0)")
    grade_power: float = setting(1.0, "of softmax: grades count by this power of them (1)")
    queries_per_document: int = setting(4, "queries of each document in a batch of an encoder (4)")
    negatives: str = setting(
        BATCH,
        "of an encoder's training: batch (the default: batches of documents, each query against all of the batch) or "
        "collection (batches of queries, each against the whole index: for small collections)",
    )
    averaging: float = setting(
        0.0,
        "validate and keep a moving average of the epochs' weights, in which those so far weigh so much (0: none)",
    )
    start_share: float = setting(
        0.0,
        "validate and keep weights that are to this share those the training started from, such as a distilled "
        "encoder's: it gives up some of what repeats the training's queries for others (0: none)",
    )

    restart: int = setting(
        0,
        "begin anew from the first weights after each N epochs, in other orders, and validate and keep the mean of "
        "what the trainings reached: steadier than one (0: never)",
        metavar="N",
    )

    def __post_init__(self) -> None:
        if self.loss not in (SOFTMAX, *LOSSES):
            raise InputError(f"unknown loss '{self.loss}'; known: {', '.join(LOSSES)}")
        for what, known in LOSSES.get(self.loss, {}).items():
            given = getattr(self, what)
            if given not in known and not (what == "sampling" and self._by_batch):
                raise InputError(f"the loss '{self.loss}' has no {what} '{given}'; known: {', '.join(known)}")
        if self.optimizer not in OPTIMIZERS:
            raise InputError(f"unknown optimizer '{self.optimizer}'; known: {', '.join(OPTIMIZERS)}")
        if self.negatives not in (BATCH, COLLECTION):
            raise InputError(f"unknown negatives '{self.negatives}'; known: {BATCH}, {COLLECTION}")
        if self.negatives == COLLECTION and not self.of_batches:
            raise InputError(f"negatives of the {COLLECTION} are for the loss {SOFTMAX} or the sampling {BATCH}")
        if not (0 <= self.averaging < 1 and 0 <= self.start_share < 1):
            raise InputError("averaging and the share of the start must be at least 0 and below 1")
        if self.restart and not 0 < self.restart <= self.patience:
            raise InputError(
                f"a restart after {self.restart} epochs needs a patience of as many: a training that begins is below "
                "those that ended"
            )
        if not 0 <= self.ndcg_share <= 1 or (self.ndcg_share and self.loss != SOFTMAX):
            raise InputError(f"the share of nDCG is between 0 and 1, and of the loss {SOFTMAX}")
        if self.learning_rate is None:
            object.__setattr__(self, "learning_rate", OPTIMIZERS[self.optimizer][1])
        counts = (self.epochs, self.patience, self.batch_size, self.pairs_per_query, self.queries_per_document)
        if min(counts) < 1:
            raise InputError("epochs, patience, batch size, pairs and queries per document must be at least 1")
        above = (self.learning_rate, self.temperature, self.grade_power)
        costs = (self.l2_convolution, self.l2_feed_forward)
        # written so that NaN is refused, too
        if not (all(0 < number < math.inf for number in above) and all(0 <= cost < math.inf for cost in costs)):
            raise InputError("learning rate, temperature and grade power must be above 0 and L2 costs not below 0")

    @property
    def _by_batch(self) -> bool:
        return (self.loss, self.sampling) == ("hinge", BATCH)

    @property
    def of_batches(self) -> str | None:
        """The setting that requires contrastive training, for messages; None if examples are drawn one by one."""
        return "the loss softmax" if self.loss == SOFTMAX else "the sampling batch" if self._by_batch else None


def by_recipe(model: str, given: Mapping[str, Any]) -> TrainingConfig:
    """The training configuration: the given fields override the model's recipe, which overrides Delta's defaults.

    Raises:
        InputError: an unknown field or model, or settings that do not fit together.
    """
    known = TrainingConfig.__dataclass_fields__
    if unknown := sorted(set(given) - set(known)):
        raise InputError(f"unknown fields of the training: {', '.join(unknown)}; known: {', '.join(known)}")
    recipe = entry_of(model).recipe.training
    if given.get("loss", "hinge") != recipe.get("loss", "hinge"):  # they belong to another loss
        recipe = {name: value for name, value in recipe.items() if name not in ("weights", "sampling")}
    if given.get("loss") in ("bce", "margin"):
        recipe = {"weights": "none", **recipe}
    return TrainingConfig(**{**recipe, **given})
