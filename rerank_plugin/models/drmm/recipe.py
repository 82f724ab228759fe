"""How [P] trained it: as PACRR."""

from rerank_plugin.models.pacrr.recipe import RECIPE

__all__ = ["RECIPE"]
