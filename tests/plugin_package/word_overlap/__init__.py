"""The entries of two models, which the package's entry points name; imports nothing heavy."""

from rerank_plugin.models.base import Recipe
from rerank_plugin.models.register import ModelEntry

RECIPE = Recipe(
    {"weights": "none", "optimizer": "adam", "learning_rate": 0.01, "epochs": 2},
    measures=("AP",),
    summary="pairs without weights, Adam",
)
OVERLAP = ModelEntry(
    name="word-overlap",
    config="word_overlap.model:OverlapConfig",
    module="word_overlap.model:Overlap",
    summary="the similarity of each query word's closest document word, weighted",
    fast="word_overlap.fused:FastOverlap",
    recipe=RECIPE,
    bench={},
)
MEANS = ModelEntry(
    name="mean-vectors",
    config="word_overlap.means:MeansConfig",
    module="word_overlap.means:Means",
    summary="the inner product of two weighted mean vectors",
    encoder="word_overlap.means:MeansScorer",
    recipe=RECIPE,
    bench={},
)
