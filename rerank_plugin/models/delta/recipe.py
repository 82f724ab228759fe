"""How [D18] 3.4 trained Delta: the defaults of the training configuration are its own."""

from rerank_plugin.models.base import Recipe

RECIPE = Recipe()
