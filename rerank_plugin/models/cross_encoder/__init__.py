"""Cross-encoders over Hugging Face encoder folders, under two names that differ only in the encoder."""

from dataclasses import replace

from rerank_plugin.models.base import Recipe
from rerank_plugin.models.register import ModelEntry, register

# [K] 4.3 names only the trained layer; these settings are within the ranges of BERT's paper (appendix A.3).
RECIPE = Recipe(
    {"weights": "none", "batch_size": 16, "optimizer": "adam", "learning_rate": 5e-5, "epochs": 10},
    summary="hinge loss without weights, balanced pairs, batches of 16, Adam, 10 epochs, best epoch by nDCG@20",
)

BERT = register(
    ModelEntry(
        name="bert",
        config="rerank_plugin.models.cross_encoder.model:CrossEncoderConfig",
        module="rerank_plugin.models.cross_encoder.model:CrossEncoder",
        summary="a cross-encoder over any Hugging Face encoder folder ([K] 4.3)",
        recipe=RECIPE,
        foreign="rerank_plugin.models.transformers_folder:is_encoder_folder",
    )
)
register(
    replace(
        BERT,
        name="biobert",
        module="rerank_plugin.models.cross_encoder.model:BioBert",
        summary="a cross-encoder over an encoder folder of BioBERT, named as in the tables of [K]",
    )
)
