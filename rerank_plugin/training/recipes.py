"""What the train command takes by default: how the paper of each model trained it (``models/*/recipe.py``)."""

from __future__ import annotations

from importlib import import_module

from rerank_plugin.models.base import Recipe
from rerank_plugin.training.trainer import TrainingConfig

# Model name to the module that has its RECIPE; a model that is not here is trained as Delta is.
RECIPES = {
    "bert": "rerank_plugin.models.cross_encoder.recipe",
    "biobert": "rerank_plugin.models.cross_encoder.recipe",
    "conv-knrm": "rerank_plugin.models.conv_knrm.recipe",
    "delta": "rerank_plugin.models.delta.recipe",
    "delta-classifier": "rerank_plugin.models.delta_classifier.recipe",
    "drmm": "rerank_plugin.models.drmm.recipe",
    "duet": "rerank_plugin.models.duet.recipe",
    "knrm": "rerank_plugin.models.knrm.recipe",
    "ktrel": "rerank_plugin.models.ktrel.recipe",
    "ktrel-c": "rerank_plugin.models.ktrel.recipe",
    "ktrel-w": "rerank_plugin.models.ktrel.recipe",
    "matchpyramid": "rerank_plugin.models.matchpyramid.recipe",
    "pacrr": "rerank_plugin.models.pacrr.recipe",
    "sevmos": "rerank_plugin.models.sevmos.recipe",
}


def recipe_of(model: str) -> Recipe:
    """How a model's paper trained it."""
    return import_module(RECIPES.get(model, RECIPES["delta"])).RECIPE


def measures(model: str) -> tuple[str, ...]:
    """The validation measures of a model, of which the first decides."""
    return recipe_of(model).measures


def documents(model: str) -> str:
    """Which documents training pairs are drawn from: ``candidates`` or ``collection``."""
    return recipe_of(model).documents


def training_config(model: str, given: dict) -> TrainingConfig:
    """How to train: the fields that are given, then what the model's paper says, then Delta's."""
    recipe = recipe_of(model).training
    if given.get("loss", "hinge") != recipe.get("loss", "hinge"):  # they belong to another loss
        recipe = {name: value for name, value in recipe.items() if name not in ("weights", "sampling")}
    if given.get("loss") == "bce":
        recipe = {"weights": "none", **recipe}
    return TrainingConfig(**{**recipe, **given})
