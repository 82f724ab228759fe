"""The hyper-parameters of Delta ([D18] 4.2). Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from rerank_plugin.base.errors import InputError
from rerank_plugin.models.base import ShapedConfig
from rerank_plugin.text.stop_words import LEFT_OUT

DELTA_FEATURES = 3  # cosine, distance, proximity


@dataclass(frozen=True)
class DeltaConfig(ShapedConfig):
    """Hyper-parameters; the defaults are Delta-32's ([D18] 4.2). Delta-32-Lex3 adds the three lexical features.

    Attributes:
        hidden: widths of the feed-forward layers before the last; by default (K + F, K).
        query_stopwords: ``keep``; ``function`` to leave function words (:mod:`rerank_plugin.text.stop_words`) out of
            queries, also of their lexical features.
        differences, delta_features: False for the ablations of [D18] table 6.
        slope: slope of every leaky ReLU, also of the one on the output.
    """

    filters: int = 32
    width: int = 3
    convolutions: int = 3
    hidden: tuple[int, ...] | None = None
    dropout: float = 0.2
    slope: float = 0.3
    document_words: int = 50
    query_words: int = 7
    lexical_features: tuple[str, ...] = ()
    differences: bool = True
    delta_features: bool = True
    query_stopwords: str = "keep"

    def __post_init__(self) -> None:
        hidden = (self.filters + len(self.lexical_features), self.filters) if self.hidden is None else self.hidden
        object.__setattr__(self, "hidden", hidden)
        if self.width % 2 == 0:
            raise InputError(f"convolution width {self.width}: 'same' borders need an odd width")
        self.check(
            "Delta", "filters", "width", "convolutions", "hidden", takes_features=True, query_stopwords=tuple(LEFT_OUT)
        )
        if not (self.differences or self.delta_features):
            raise InputError("Delta needs difference vectors or Delta features; both are off")

    @property
    def layer_widths(self) -> tuple[int, ...]:
        """Widths of the feed-forward layers, from their input to the score."""
        return (self.filters + len(self.lexical_features), *(self.hidden or ()), 1)

    def weight_shapes(self, words: int, dimension: int) -> dict[str, tuple[int, ...]]:
        features, filters, widths = len(self.lexical_features), self.filters, self.layer_widths
        inward = [dimension * self.differences + DELTA_FEATURES * self.delta_features] + [filters] * self.convolutions
        shapes: dict[str, tuple[int, ...]] = {"feature_mean": (features,), "feature_scale": (features,)}
        for at in range(self.convolutions):
            shapes[f"convolutions.{at}.weight"] = (filters, inward[at], self.width)
            shapes[f"convolutions.{at}.bias"] = (filters,)
        for at, width in enumerate(widths[1:]):
            shapes[f"layers.{at}.weight"], shapes[f"layers.{at}.bias"] = (width, widths[at]), (width,)
        return shapes
