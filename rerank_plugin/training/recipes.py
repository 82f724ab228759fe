"""What the train command takes by default: how the paper of each model trained it (its ``recipe``)."""

from __future__ import annotations

from rerank_plugin.models.base import Recipe
from rerank_plugin.models.register import entry_of
from rerank_plugin.training.trainer import TrainingConfig


def recipe_of(model: str) -> Recipe:
    """The recipe of a model's entry in the register of models."""
    return entry_of(model).recipe


def measures(model: str) -> tuple[str, ...]:
    """The validation measures of a model, of which the first decides."""
    return recipe_of(model).measures


def documents(model: str) -> str:
    """Which documents training pairs are drawn from: ``candidates`` or ``collection``."""
    return recipe_of(model).documents


def training_config(model: str, given: dict) -> TrainingConfig:
    """The training configuration: the given fields override the model's recipe, which overrides Delta's defaults."""
    recipe = recipe_of(model).training
    if given.get("loss", "hinge") != recipe.get("loss", "hinge"):  # they belong to another loss
        recipe = {name: value for name, value in recipe.items() if name not in ("weights", "sampling")}
    if given.get("loss") == "bce":
        recipe = {"weights": "none", **recipe}
    return TrainingConfig(**{**recipe, **given})
