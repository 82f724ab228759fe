"""Cross-encoders over Hugging Face encoder folders, under two names: the folder makes the difference."""

from dataclasses import replace

from rerank_plugin.models.cross_encoder.recipe import RECIPE
from rerank_plugin.models.register import ModelEntry, register

BERT = register(
    ModelEntry(
        name="bert",
        config="rerank_plugin.models.cross_encoder.model:CrossEncoderConfig",
        module="rerank_plugin.models.cross_encoder.model:CrossEncoder",
        summary="a cross-encoder over any Hugging Face encoder folder ([K] 4.3)",
        recipe=RECIPE,
        foreign="rerank_plugin.models.cross_encoder.encoder_folder:is_encoder_folder",
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
