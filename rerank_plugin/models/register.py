"""The register of models: one :func:`register` call a model, and everything else reads it.

Each of our models has a folder beside this file, whose ``__init__`` registers it; :func:`names` and :func:`entry_of` find
the folders by listing them. Another package adds a model through the entry-point group ``rerank_plugin.rerankers``: the
entry point names a :class:`ModelEntry`. It may also name a reranker that is no model, a class or a factory: see
:mod:`rerank_plugin.rerankers`.

Classes are given as classes, or as ``package.module:Class``, which is imported when the model is first used: so this
module and the models' ``__init__`` import neither torch nor numpy. What a class lacks is said then, see
:mod:`rerank_plugin.models.classes`.
"""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass, field, fields
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Callable

from rerank_plugin.files.errors import InputError
from rerank_plugin.models.base import Recipe

ENTRY_POINTS = "rerank_plugin.rerankers"
FOLDERS = "rerank_plugin.models"
CLASSES = ("config", "module", "fast", "device", "encoder")


@dataclass(frozen=True)
class ModelEntry:
    """All that searching, training, encoding and measuring need to know of a model.

    Attributes:
        name: what users call it, and what a checkpoint calls it unless ``requires`` is given.
        config: the configuration, a frozen dataclass and a :class:`~rerank_plugin.models.base.ModelConfig`.
        module: the model, a :class:`~rerank_plugin.models.ranking_model.RankingModel`.
        summary: one line for help and documentation.
        fast: the same scores on the CPU, a :class:`~rerank_plugin.models.fast_paths.FastPath`, or None.
        device: the same on another device, a :class:`~rerank_plugin.models.fast_paths.DevicePath`, or None.
        encoder: scores from stored encodings, an :class:`~rerank_plugin.models.fast_paths.EncodingScorer`, or None. It
            is the fast path on the CPU where the index holds encodings by the model.
        recipe: how the model is trained.
        bench: hyper-parameters of the random weights that are measured by default; None to measure checkpoints only.
        requires: hyper-parameters that a checkpoint of the model ``module`` must have to go by this name.
        bundled: folder of a checkpoint that comes along, which the name alone stands for.
        foreign: whether a folder (Path) that is no checkpoint is one that the module's ``from_folder`` reads; a function
            from a module that imports no torch.
    """

    name: str
    config: type | str
    module: type | str
    summary: str
    fast: type | str | None = None
    device: type | str | None = None
    encoder: type | str | None = None
    recipe: Recipe = Recipe()
    bench: dict | None = None
    requires: dict = field(default_factory=dict)
    bundled: Path | None = None
    foreign: Callable[[Path], bool] | str | None = None

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


_ENTRIES: dict[str, ModelEntry] = {}


def register(entry: ModelEntry) -> ModelEntry:
    """Make a model known under its name, and return its entry.

    Raises:
        InputError: it is no ModelEntry, or another entry has the name.
    """
    if not isinstance(entry, ModelEntry):
        raise InputError(f"only a ModelEntry can be registered, not {entry!r}")
    if _ENTRIES.setdefault(entry.name, entry) != entry:
        raise InputError(f"the name '{entry.name}' is taken by another model")
    return entry


def entries() -> list[ModelEntry]:
    """All models that are registered, by name. Those of other packages are so once they were used."""
    _register_ours()
    return [_ENTRIES[name] for name in sorted(_ENTRIES)]


def names() -> list[str]:
    """Names of all models that are registered, sorted."""
    return [entry.name for entry in entries()]


def entry_of(name: str) -> ModelEntry:
    """The entry of a model.

    Raises:
        InputError: the name is unknown, is no model's, or the package that declares it is at fault.
    """
    found = find(name)
    if isinstance(found, ModelEntry):
        return found
    if found is not None:
        raise InputError(f"'{name}' of the package '{package_of(name)}' can rerank, but it is no model")
    raise InputError(f"unknown model '{name}'; known: {', '.join(sorted({*names(), *installed()}))}")


def find(name: str):
    """What a name stands for: a ModelEntry, or the class or factory that another package gives; None if unknown.

    Raises:
        InputError: another package declares the name, and it is taken, or cannot be loaded.
    """
    _register_ours()
    return _given(name) if name in installed() else _ENTRIES.get(name)


def check_not_taken(name: str) -> None:
    """Refuse a name that stands for no model but is ours, where another package declares it, too.

    Raises:
        InputError: it does.
    """
    if name in installed():
        raise InputError(
            f"the package '{package_of(name)}' declares the reranker '{name}', but the name is taken: uninstall it"
        )


@lru_cache(maxsize=None)
def _register_ours() -> None:
    for module in pkgutil.iter_modules(import_module(FOLDERS).__path__, FOLDERS + "."):
        if module.ispkg:
            import_module(module.name)


@lru_cache(maxsize=None)
def installed() -> dict[str, EntryPoint]:
    """What other packages declare, by name; nothing of it is imported."""
    return {entry.name: entry for entry in reversed(tuple(entry_points(group=ENTRY_POINTS)))}


@lru_cache(maxsize=None)
def _given(name: str):
    """What an entry point gives, which is registered if it is a model.

    Raises:
        InputError: it cannot be loaded, gives something else than its name says, or the name is taken.
    """
    declared = [entry for entry in entry_points(group=ENTRY_POINTS) if entry.name == name]
    packages = sorted({_package(entry) for entry in declared})
    if len(packages) > 1:
        raise InputError(f"the packages {' and '.join(packages)} declare the same reranker '{name}': uninstall one")
    fault = f"the package '{packages[0]}' declares the reranker '{name}' as {declared[0].value}, but"
    try:
        found = declared[0].load()
    except Exception as error:  # whatever the package does when it is imported
        raise InputError(f"{fault} it cannot be loaded: {type(error).__name__}: {one_line(error)}") from error
    if not isinstance(found, ModelEntry):
        if not callable(found):
            raise InputError(f"{fault} that is no ModelEntry, no class and no function: {found!r}")
        if name in _ENTRIES:
            raise InputError(f"{fault} the name is taken by another model")
        return found
    if found.name != name:
        raise InputError(f"{fault} that is the entry of a model named '{found.name}'")
    try:
        return register(found)
    except InputError as error:
        raise InputError(f"{fault} {error}") from None


def package_of(name: str) -> str | None:
    """The package that declares a name; None for our own names."""
    return _package(installed()[name]) if name in installed() else None


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.module


def resolve(target):
    """What 'package.module:Name' names; anything else is given back as it is.

    Raises:
        ImportError, AttributeError: there is no such thing.
    """
    if not isinstance(target, str):
        return target
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def is_foreign(entry: ModelEntry, folder: Path) -> bool:
    """Whether a folder is no checkpoint, but one that a model is made of."""
    return entry.foreign is not None and resolve(entry.foreign)(folder)


def foreign_model(folder: Path) -> str | None:
    """The model that is made of a folder that is no checkpoint; None where there is none."""
    return next((entry.name for entry in entries() if is_foreign(entry, folder)), None)


def one_line(error: Exception) -> str:
    """The message of an error, of which only one line is shown."""
    return " ".join(str(error).split())
