"""Cross-encoders over Hugging Face encoder folders, under two names: the folder makes the difference."""

from dataclasses import replace

from rerank_plugin.models.base import Recipe
from rerank_plugin.models.register import ModelEntry, register

# [K] 4.3 says only which layer it trains; these are of the ranges in BERT's own paper (appendix A.3).
RECIPE = Recipe(
    {"weights": "none", "batch_size": 16, "optimizer": "adam", "learning_rate": 5e-5, "epochs": 10},
    summary="hinge loss without weights, balanced pairs, batches of 16, Adam, 10 epochs, the one with the best nDCG@20",
)

BERT = register(
    ModelEntry(
        name="bert",
        config="rerank_plugin.models.cross_encoder.model:CrossEncoderConfig",
        module="rerank_plugin.models.cross_encoder.model:CrossEncoder",
        summary="a cross-encoder over any Hugging Face encoder folder ([K] 4.3)",
        recipe=RECIPE,
        foreign="rerank_plugin.models.encoder_folder:is_encoder_folder",
    )
)
register(
    replace(
        BERT,
        name="biobert",
        module="rerank_plugin.models.cross_encoder.model:BioBert",
        summary="the same under the name of its row in the tables of [K]",
    )
)
