"""Delta ([D18] 3): the module, its fast paths, and the bundled weights."""

from pathlib import Path

from rerank_plugin.models.register import ModelEntry, register

register(
    ModelEntry(
        name="delta",
        config="rerank_plugin.models.delta.config:DeltaConfig",
        module="rerank_plugin.models.delta.model:Delta",
        summary="Delta ([D18]): differences between document words and their closest query words",
        good_for="English, biomedical, mostly lexical",
        fast="rerank_plugin.models.delta.fast:FastDelta",
        device="rerank_plugin.models.delta.device:DeltaOnDevice",
        explain="rerank_plugin.models.delta.model:explain",
        bench={"lexical_features": ("bm25_abstract", "idf_jaccard_title", "idf_overlap_title")},  # Delta-32-Lex3
        bundled=Path(__file__).parent / "bundled",
    )
)
