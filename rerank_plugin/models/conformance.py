"""What the entry of a model, its configuration and its classes must have: a check for the tests of whoever adds one."""

from __future__ import annotations

from abc import ABCMeta
from dataclasses import fields, is_dataclass

from rerank_plugin.models.base import ModelConfig
from rerank_plugin.models.fast_paths import EncodingScorer, FastPath, ModulePath, TextScorer
from rerank_plugin.models.ranking_model import EncodingModel, RankingModel, TextEncodingModel
from rerank_plugin.models.register import ModelEntry

CONFIG_FIELDS = {"document_words", "query_words", "lexical_features"}
BASES: dict[str, tuple[type, ...]] = {
    "config": (ModelConfig,), "module": (RankingModel,), "fast": (FastPath, ModulePath), "device": (ModulePath,),
    "encoder": (EncodingScorer,),
}  # fmt: skip


def check_entry(entry: ModelEntry) -> None:
    """Check the classes of an entry.

    Raises:
        InputError: one cannot be imported.
        AssertionError: one lacks something; the message says what.
    """
    classes = {role: entry.load(role) for role in BASES}
    for role, bases in BASES.items():
        if (found := classes[role]) is not None:
            expected = " or ".join(f"{base.__module__}.{base.__qualname__}" for base in bases)
            assert isinstance(found, type) and issubclass(found, bases), f"its {role} is not a subclass of {expected}"
            lacking = sorted(found.__abstractmethods__) if isinstance(found, ABCMeta) else []
            assert not lacking, f"its {role} lacks {', '.join(lacking)}"
    explain = entry.load("explain")
    assert explain is None or callable(explain), f"its explain {entry.explain} is not a function"
    config, module, encoder = classes["config"], classes["module"], classes["encoder"]
    known = {field.name for field in fields(config)} if is_dataclass(config) else set()
    assert known and config.__dataclass_params__.frozen, "its configuration is not a frozen dataclass"
    needed = {*CONFIG_FIELDS, *entry.requires, *(entry.bench or {})}
    assert known >= needed, f"its configuration lacks the fields {', '.join(sorted(needed - known))}"
    named = module.name == entry.name or (module.name and entry.requires)
    assert named, f"its module is named '{module.name}', expected '{entry.name}'"
    together = (encoder is not None) == issubclass(module, EncodingModel)
    assert together, "an EncodingModel and an EncodingScorer belong together; give both"
    reads_texts = encoder is not None and issubclass(encoder, TextScorer)
    assert reads_texts == issubclass(module, TextEncodingModel), "a TextEncodingModel and a TextScorer belong together"
