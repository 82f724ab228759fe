"""Trained as PACRR is. It is not in [P]; its own paper takes Adam and pairs, too."""

from rerank_plugin.models.pacrr.recipe import RECIPE

__all__ = ["RECIPE"]
