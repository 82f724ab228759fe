"""The classes of the register's entries: imported when they are first used, and checked once.

The checks find mistakes of a model's author; their messages name the missing part.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.extras import MissingExtraError, naming_extras
from rerank_plugin.base.register import one_line
from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.base import ModelConfig
from rerank_plugin.models.fast_paths import EncodingScorer, FastPath, InnerProductScorer, ModulePath, TextScorer
from rerank_plugin.models.register import MODELS, ModelEntry, entry_of, resolve

if TYPE_CHECKING:
    from rerank_plugin.models.ranking_model import RankingModel

CONFIG_FIELDS = ("document_words", "query_words", "lexical_features")
BASES: dict[str, tuple[type, ...]] = {
    "config": (ModelConfig,), "fast": (FastPath, ModulePath), "device": (ModulePath,), "encoder": (EncodingScorer,)
}  # fmt: skip


class ModelClasses(NamedTuple):
    """The classes of an entry; see :class:`~rerank_plugin.models.register.ModelEntry`."""

    module: type[RankingModel]
    config: type[ModelConfig]
    fast: type[FastPath] | type[ModulePath] | None
    device: type[ModulePath] | None
    encoder: type[EncodingScorer] | None
    explain: Callable[[Any, Inputs], Attribution] | None


@cache
def classes_of(name: str) -> ModelClasses:
    """The classes of a model.

    Raises:
        InputError: the name is unknown, or a class cannot be imported or is incomplete.
    """
    entry = entry_of(name)
    with naming_extras(f"the module of the model '{name}'"):
        from rerank_plugin.models.interaction import (
            InteractionModel,
            InteractionOnDevice,
            InteractionPath,
            explain_cells,
        )
        from rerank_plugin.models.ranking_model import EncodingModel, RankingModel, TextEncodingModel

    module, explain = _class(entry, "module", (RankingModel,)), _resolved(entry, "explain")
    config, fast, device, encoder = (_class(entry, role, bases) for role, bases in BASES.items())
    if issubclass(module, InteractionModel):
        fast, explain = fast or InteractionPath, explain or explain_cells
        device = device or InteractionOnDevice
    if explain is not None and not callable(explain):
        raise _fault(entry, f"its explain {entry.explain} is not a function")
    known = {field.name for field in fields(config)} if is_dataclass(config) else set()
    if not known or not config.__dataclass_params__.frozen:
        raise _fault(entry, f"its configuration {config.__qualname__} is not a frozen dataclass")
    if missing := [field for field in CONFIG_FIELDS if field not in known]:
        raise _fault(entry, f"its configuration {config.__qualname__} lacks the fields {', '.join(missing)}")
    if unknown := sorted({*entry.requires, *(entry.bench or {})} - known):
        raise _fault(
            entry,
            f"its configuration {config.__qualname__} lacks the fields {', '.join(unknown)} of its requires or bench",
        )
    if not module.name or (module.name != name and not entry.requires):
        raise _fault(entry, f"its module {module.__qualname__} is named '{module.name}', expected '{name}'")
    if (encoder is None) == issubclass(module, EncodingModel):
        raise _fault(entry, "an EncodingModel and an EncodingScorer belong together; give both")
    if encoder is not None and issubclass(encoder, TextScorer) != issubclass(module, TextEncodingModel):
        raise _fault(entry, "a TextEncodingModel and a TextScorer belong together; give both")
    return ModelClasses(module, config, fast, device, encoder, explain)


def class_of(name: str, role: str) -> Any:
    """The ``config``, ``fast``, ``device`` or ``encoder`` of a model's entry; does not import the module.

    None if the entry has no such class.

    Raises:
        InputError: as :func:`classes_of`.
    """
    return _class(entry_of(name), role, BASES[role])


def has_inner_products(name: str) -> bool:
    """Whether the scores of a model are inner products of two encodings."""
    encoder = class_of(name, "encoder")
    return encoder is not None and issubclass(encoder, InnerProductScorer)


def _class(entry: ModelEntry, role: str, bases: tuple[type, ...]) -> Any:
    """The class of an entry for a role, a concrete subclass of one of ``bases``; None if the entry has none."""
    target, resolved = vars(entry)[role], _resolved(entry, role)
    if target is None:
        return None
    if not isinstance(resolved, type) or not issubclass(resolved, bases):
        known = " or ".join(f"{base.__module__}.{base.__qualname__}" for base in bases)
        raise _fault(entry, f"its {role} {target} is not a subclass of {known}")
    if isinstance(resolved, ABCMeta) and resolved.__abstractmethods__:
        raise _fault(entry, f"its {role} {target} lacks {', '.join(sorted(resolved.__abstractmethods__))}")
    return resolved


def _resolved(entry: ModelEntry, role: str) -> Any:
    """The object of an entry for a role, imported if the entry gives its name; None if the entry has none."""
    target = vars(entry)[role]
    try:
        with naming_extras(f"the {role} of the model '{entry.name}'"):
            return resolve(target)
    except MissingExtraError:
        raise
    except Exception as error:  # importing another package may raise anything
        raise _fault(
            entry, f"its {role} {target} cannot be loaded: {type(error).__name__}: {one_line(error)}"
        ) from error


def _fault(entry: ModelEntry, problem: str) -> InputError:
    package = MODELS.package_of(entry.name)
    return InputError(f"the model '{entry.name}'{f' of the package {package!r}' if package else ''}: {problem}")
