"""The register of models: what a model's name stands for, its entry, its classes and its folder.

Each built-in model has a folder beside this file, and its ``__init__`` registers the model; the register finds the
folders by listing them. Another package adds a model through the entry-point group ``rerank_plugin.rerankers``: the
entry point names a :class:`ModelEntry`, or a reranker that is not a model, as a class or a factory: see
:mod:`rerank_plugin.rerankers`.

An entry gives classes, or their names ``package.module:Class``, which are imported when the model is first used: this
module and the models' ``__init__`` import neither torch nor numpy. Whether the classes are complete is for the author's
tests: :func:`rerank_plugin.models.conformance.check_entry`.

Of a model on the Hugging Face hub only files that cannot run code are downloaded: weights as safetensors, and texts. A
repository whose weights are only pickles is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rerank_plugin.base.errors import InputError, one_line
from rerank_plugin.base.extras import MissingExtraError, naming_extras
from rerank_plugin.base.register import Register
from rerank_plugin.models.base import Recipe

if TYPE_CHECKING:
    from rerank_plugin.models.attribution import Attribution

CLASSES = ("config", "module", "fast", "device", "encoder")
PACKAGED = {"minilm": "rerank_plugin.models.encoder.folder:minilm_folder"}  # encoders in separate packages
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]*\w", re.ASCII)
HUB_FILES = ("*.safetensors", "*.json", "*.txt")


@dataclass(frozen=True)
class ModelEntry:
    """The register entry of a model, for search, training, encoding and benchmarks.

    Attributes:
        name: the model's name for users, and in checkpoints unless ``requires`` is given.
        config: the configuration, a frozen dataclass and a :class:`~rerank_plugin.models.base.ModelConfig`.
        module: the model, a :class:`~rerank_plugin.models.ranking_model.RankingModel`.
        summary: one line for help and documentation.
        good_for: one line on the bundled weights: the language and the texts that they were trained for.
        fast: the fast path on the CPU, a :class:`~rerank_plugin.models.fast_paths.FastPath` or, with torch, a
            :class:`~rerank_plugin.models.fast_paths.ModulePath`; or None. An
            :class:`~rerank_plugin.models.interaction.InteractionModel` has a default for ``fast`` and ``explain``.
        device: the path on another device, a :class:`~rerank_plugin.models.fast_paths.ModulePath`, or None.
        encoder: the scorer from stored encodings, an :class:`~rerank_plugin.models.fast_paths.EncodingScorer`, or None.
            It is the fast path on the CPU if the index holds encodings by the model. A checkpoint with a
            :class:`~rerank_plugin.models.base.ShapedConfig` is scored by ``fast`` or ``encoder`` without the module.
        recipe: the training settings.
        bench: hyper-parameters of the random weights that benchmarks measure by default; None for checkpoints only.
        requires: hyper-parameters that a checkpoint of the model ``module`` must have to be loaded under this name.
        bundled: folder of the bundled checkpoint, loaded by the name alone; None if there is none.
        foreign: a function from a module that imports no torch: whether the module's ``from_folder`` reads a folder
            (Path) that is not a checkpoint.
        explain: a function from the module and :class:`~rerank_plugin.inputs.builder.Inputs` of one document (B is 1)
            to the :class:`~rerank_plugin.models.attribution.Attribution` of its score; None if there is none.
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
    bench: dict[str, Any] | None = None
    requires: dict[str, Any] = field(default_factory=dict)
    bundled: Path | None = None
    foreign: Callable[[Path], bool] | str | None = None
    explain: Callable[[Any, Any], Attribution] | str | None = None

    def __post_init__(self) -> None:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        if missing := [name for name in ("name", "config", "module", "summary") if not values[name]]:
            raise InputError(f"the entry of the model '{self.name}' lacks {', '.join(missing)}")
        if ":" in self.name:
            raise InputError(f"the name of the model '{self.name}' has a colon, which separates name and checkpoint")
        if wrong := [name for name in CLASSES if not isinstance(values[name], str | type | None)]:
            raise InputError(f"the model '{self.name}': {wrong[0]} must be a class or 'package.module:Class'")
        if not isinstance(self.recipe, Recipe):
            raise InputError(f"the model '{self.name}': its recipe must be a Recipe")

    def load(self, role: str, of_module: bool = False) -> Any:
        """The class or function of a role (``config``, ``module``, ``fast``, ..); None if the entry has none.

        Args:
            of_module: whether to import the module, which may bring one along (``RankingModel.roles``).

        Raises:
            InputError: it cannot be imported.
        """
        target = getattr(self, role)
        if target is None and of_module:
            return self.load("module").roles.get(role)
        try:
            with naming_extras(f"the {role} of the model '{self.name}'"):
                return resolve(target)
        except MissingExtraError:
            raise
        except Exception as error:  # importing another package may raise anything
            package = MODELS.package_of(self.name)
            of_package = f" of the package {package!r}" if package else ""
            raise InputError(
                f"the model '{self.name}'{of_package}: its {role} {target} cannot be loaded: "
                f"{type(error).__name__}: {one_line(error)}"
            ) from error

    @property
    def has_inner_products(self) -> bool:
        """Whether the model's scores are inner products of two encodings."""
        return self.encoder is not None and self.load("encoder").is_inner_product


MODELS = Register(
    "reranker", "rerank_plugin.models", "rerank_plugin.rerankers", ModelEntry, of_folders=True, others=True
)
register = MODELS.add


def names() -> list[str]:
    """Names of the built-in models, sorted."""
    return [entry.name for entry in MODELS.built_in()]


def entry_of(name: str) -> ModelEntry:
    """The entry of a model; an `InputError` if the name is unknown, not a model's, or its package cannot be loaded."""
    entry = MODELS.find(name)
    if isinstance(entry, ModelEntry):
        return entry
    if entry is not None:
        raise InputError(f"'{name}' of the package '{MODELS.package_of(name)}' is a reranker, but not a model")
    raise InputError(f"unknown model '{name}'; known: {', '.join(sorted({*names(), *MODELS.installed()}))}")


def checkpoint_folder(spec: str | Path) -> Path:
    """The folder of a checkpoint from its path, the name of a bundled model, or a name of :func:`packaged_folder`.

    A Path is always a folder; write a folder that has the name of a model as the string ``./ktrel``.
    """
    entry = MODELS.find(spec) if isinstance(spec, str) else None
    return entry.bundled if isinstance(entry, ModelEntry) and entry.bundled is not None else packaged_folder(spec)


def packaged_folder(spec: str | Path) -> Path:
    """The folder of a model from its path, the name of an encoder in a separate package (``minilm``), or its name on
    the Hugging Face hub, ``ORG/NAME``, which is downloaded unless a folder has that name.

    Raises:
        InputError: the package is not installed, or the model cannot be downloaded.
    """
    target = PACKAGED.get(spec) if isinstance(spec, str) else None
    if target is not None:
        return resolve(target)()
    return hub_folder(spec) if isinstance(spec, str) and is_hub_name(spec) else Path(spec)


def resolve(target: Any) -> Any:
    """Import the object named 'package.module:Name'; return anything but a string unchanged.

    Raises:
        ImportError, AttributeError: no such object.
    """
    if not isinstance(target, str):
        return target
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def is_foreign(entry: ModelEntry, folder: Path) -> bool:
    """Whether a folder is not a checkpoint, but can be read by the model's ``from_folder``."""
    return entry.foreign is not None and resolve(entry.foreign)(folder)


def foreign_model(folder: Path, encodes: bool = False) -> str | None:
    """The name of the model that reads a folder that is not a checkpoint; None if no model reads it.

    Args:
        encodes: whether only models that encode documents are tried.
    """
    entries = (entry for entry in MODELS.built_in() if not encodes or entry.encoder is not None)
    return next((entry.name for entry in entries if is_foreign(entry, folder)), None)


def is_hub_name(text: str) -> bool:
    """Whether a text has the form of a name on the hub, and is not a path below an existing folder."""
    return HUB_NAME.fullmatch(text) is not None and not Path(text.split("/")[0]).exists()


@cache
def hub_folder(name: str, revision: str | None = None, token: str | None = None) -> Path:
    """The local folder of a model on the hub, which is downloaded on first use.

    Within a process the folder stays the same, even if the branch on the hub changes.

    Raises:
        InputError: the model cannot be downloaded, or has no weights as safetensors.
    """
    absent = f"there is no folder {name}"
    with naming_extras(f"{absent}, and the hub"):
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import RepositoryNotFoundError

    patterns = " ".join(f'"{pattern}"' for pattern in HUB_FILES)
    command = f"hf download {name} --include {patterns} --local-dir {name}"
    with one_line_hub_errors(f"{absent}, and it cannot be downloaded from the hub; with a network, run: {command}"):
        try:
            folder = Path(snapshot_download(name, revision=revision, token=token, allow_patterns=[*HUB_FILES]))
        except RepositoryNotFoundError:
            raise InputError(f"{absent}, and no such model on the hub that you may read") from None
    if not any(folder.rglob("*.safetensors")):
        raise InputError(
            f"{name} on the hub holds no *.safetensors; weights in other formats can run any program and are not loaded"
        )
    return folder


@contextmanager
def one_line_hub_errors(problem: str) -> Iterator[None]:
    """Raise the errors of the hub's client in one line that begins with ``problem``."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # the client's network library depends on its version
        raise InputError(f"{problem} ({type(error).__name__}: {one_line(error):.300})") from error
