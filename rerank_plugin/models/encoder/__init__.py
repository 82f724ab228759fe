"""Encoders of texts in folders of sentence-transformers or Hugging Face, which rank by vectors that an index stores."""

from rerank_plugin.models.register import ModelEntry, register

register(
    ModelEntry(
        name="encoder",
        config="rerank_plugin.models.encoder.model:EncoderConfig",
        module="rerank_plugin.models.encoder.model:Encoder",
        summary="any bi-encoder of sentence-transformers or Hugging Face, from document vectors",
        encoder="rerank_plugin.models.encoder.model:EncoderScorer",
        foreign="rerank_plugin.models.encoder.folder:is_encoder",
    )
)
