"""The register of models: one :func:`register` call a model, and everything else reads it.

Each of our models has a folder beside this file, whose ``__init__`` registers it; the register finds the folders by
listing them. Another package adds a model through the entry-point group ``rerank_plugin.rerankers``: the
entry point names a :class:`ModelEntry`. It may also name a reranker that is no model, a class or a factory: see
:mod:`rerank_plugin.rerankers`.

Classes are given as classes, or as ``package.module:Class``, which is imported when the model is first used: so this
module and the models' ``__init__`` import neither torch nor numpy. What a class lacks is said then, see
:mod:`rerank_plugin.models.classes`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.register import Register
from rerank_plugin.models.base import Recipe
from rerank_plugin.models.hub import hub_folder, is_hub_name

if TYPE_CHECKING:
    from rerank_plugin.models.attribution import Attribution

CLASSES = ("config", "module", "fast", "device", "encoder")
PACKAGED = {"minilm": "rerank_plugin.models.encoder.folder:minilm_folder"}  # encoders in packages of their own


@dataclass(frozen=True)
class ModelEntry:
    """The register entry of a model, for search, training, encoding and benchmarks.

    Attributes:
        name: what users call it, and what a checkpoint calls it unless ``requires`` is given.
        config: the configuration, a frozen dataclass and a :class:`~rerank_plugin.models.base.ModelConfig`.
        module: the model, a :class:`~rerank_plugin.models.ranking_model.RankingModel`.
        summary: one line for help and documentation.
        good_for: the same of the bundled weights: the language and the texts that they were made for.
        fast: the fast path on the CPU, a :class:`~rerank_plugin.models.fast_paths.FastPath` or, with torch, a
            :class:`~rerank_plugin.models.fast_paths.ModulePath`; or None. An
            :class:`~rerank_plugin.models.interaction.InteractionModel` has one, and an ``explain``, without.
        device: the path on another device, a :class:`~rerank_plugin.models.fast_paths.ModulePath`, or None.
        encoder: scores from stored encodings, an :class:`~rerank_plugin.models.fast_paths.EncodingScorer`, or None. It
            is the fast path on the CPU where the index holds encodings by the model. A checkpoint with a
            :class:`~rerank_plugin.models.base.ShapedConfig` is scored by ``fast`` or ``encoder`` without the module.
        recipe: how the model is trained.
        bench: hyper-parameters of the random weights that are measured by default; None to measure checkpoints only.
        requires: hyper-parameters that a checkpoint of the model ``module`` must have to go by this name.
        bundled: folder of the bundled checkpoint, which the name alone loads; None for none.
        foreign: a function from a module that imports no torch: whether a folder (Path) that is no checkpoint is one
            that the module's ``from_folder`` reads.
        explain: a function of the module and :class:`~rerank_plugin.inputs.builder.Inputs` of one document (B is 1) to
            the :class:`~rerank_plugin.models.attribution.Attribution` of its score; None for a model without.
    """

    name: str
    config: type | str
    module: type | str
    summary: str
    good_for: str = ""
    fast: type | str | None = None
    device: type | str | None = None
    encoder: type | str | None = None
    recipe: Recipe = Recipe()
    bench: dict | None = None
    requires: dict = field(default_factory=dict)
    bundled: Path | None = None
    foreign: Callable[[Path], bool] | str | None = None
    explain: Callable[[Any, Any], Attribution] | str | None = None

    def __post_init__(self) -> None:
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        if missing := [name for name in ("name", "config", "module", "summary") if not values[name]]:
            raise InputError(f"the entry of the model '{self.name}' lacks {', '.join(missing)}")
        if ":" in self.name:
            raise InputError(f"the name of the model '{self.name}' has a colon, which begins a checkpoint")
        if wrong := [name for name in CLASSES if not isinstance(values[name], str | type | None)]:
            raise InputError(f"the model '{self.name}': {wrong[0]} is no class, and no 'package.module:Class'")
        if not isinstance(self.recipe, Recipe):
            raise InputError(f"the model '{self.name}': its recipe is no Recipe")


MODELS = Register(
    "reranker", "rerank_plugin.models", "rerank_plugin.rerankers", ModelEntry, of_folders=True, others=True
)
register = MODELS.add


def names() -> list[str]:
    """Names of our models, sorted."""
    return [entry.name for entry in MODELS.ours()]


def entry_of(name: str) -> ModelEntry:
    """The entry of a model; an `InputError` if the name is unknown, names no model, or its package cannot be loaded."""
    found = MODELS.find(name)
    if isinstance(found, ModelEntry):
        return found
    if found is not None:
        raise InputError(f"'{name}' of the package '{MODELS.package_of(name)}' can rerank, but it is no model")
    raise InputError(f"unknown model '{name}'; known: {', '.join(sorted({*names(), *MODELS.installed()}))}")


def checkpoint_folder(given: str | Path) -> Path:
    """The folder of a checkpoint, given as it is, as the name of a bundled model, or as in :func:`packaged_folder`.

    A Path is a folder, whatever it is called; as a string a folder that is called like a model is ``./ktrel``.
    """
    found = MODELS.find(given) if isinstance(given, str) else None
    return found.bundled if isinstance(found, ModelEntry) and found.bundled is not None else packaged_folder(given)


def packaged_folder(given: str | Path) -> Path:
    """A folder, given as it is or, as a string, as the name of an encoder in a package of its own (``minilm``), or as
    that of a model on the Hugging Face hub, ``ORG/NAME``, which is downloaded. A folder of that name wins.

    Raises:
        InputError: the package is not installed, or the model cannot be got.
    """
    named = PACKAGED.get(given) if isinstance(given, str) else None
    if named is not None:
        return resolve(named)()
    return hub_folder(given) if isinstance(given, str) and is_hub_name(given) else Path(given)


def resolve(target):
    """Import the object that 'package.module:Name' names; return anything but a string unchanged.

    Raises:
        ImportError, AttributeError: there is no such thing.
    """
    if not isinstance(target, str):
        return target
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def is_foreign(entry: ModelEntry, folder: Path) -> bool:
    """Whether a folder is no checkpoint, but one that the model's ``from_folder`` reads."""
    return entry.foreign is not None and resolve(entry.foreign)(folder)


def foreign_model(folder: Path, encodes: bool = False) -> str | None:
    """The name of the model that reads a folder that is no checkpoint; None if there is none.

    Args:
        encodes: whether it must be a model that encodes documents.
    """
    known = (entry for entry in MODELS.ours() if not encodes or entry.encoder is not None)
    return next((entry.name for entry in known if is_foreign(entry, folder)), None)
