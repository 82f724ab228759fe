"""Settings of experiments: frozen dataclasses whose fields are the options of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import rerank_plugin as rp
from rerank_plugin.base.settings import Setting
from rerank_plugin.options import bounded

S = TypeVar("S", bound="Settings")


def option(
    help: str, default: Any = MISSING, least: int = 1, size: bool = False, flags: tuple[str, ...] = (), **argument
) -> Any:
    """A field that is an option; without a default the option is required.

    Args:
        least: lowest allowed value of whole numbers.
        size: whether the help lists it among the sizes of the experiment.
        flags: other names of the option.
        argument: further arguments of ``add_argument``, such as ``metavar``.
    """
    return field(default=default, metadata=dict(help=help, least=least, size=size, flags=flags, **argument))


def size(help: str, default: Any, **more) -> Any:
    """An option of the size of the experiment."""
    return option(help, default, size=True, **more)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of all experiments."""

    words: str = option("word vectors, written by rerank_plugin.embed words")
    encoder: str | None = option("sentence encoder to compare with, not trained here: minilm, or a folder", None)
    work: Path = option("folder of all intermediate outputs")
    output: Path = option("Markdown page to write, with its figures beside it")
    notes: Path | None = option("Markdown to include below the head of the page", None)
    at_once: int = option("concurrent steps", 2)
    train_option: tuple[str, ...] = option(
        "option of every training, such as --train-option=--patience=4", (), action="append"
    )
    seed: int = 42


def add_options(parser: argparse.ArgumentParser, settings: type[Settings]) -> None:
    """Add an option for each field that `option` made."""
    sizes, hints = parser.add_argument_group("size of the experiment"), get_type_hints(settings)
    for entry in fields(settings):
        argument = dict(entry.metadata)
        if not argument:
            continue
        hint = hints[entry.name]
        kind = next((part for part in get_args(hint) if part not in (..., type(None))), hint)
        repeated = isinstance(entry.default, tuple) or argument.get("action") == "append"
        if repeated and "action" not in argument:
            argument.setdefault("nargs", "+")
        least, group = argument.pop("least"), sizes if argument.pop("size") else parser
        if entry.default is MISSING:
            argument["required"] = True
        else:
            argument["default"] = list(entry.default) if repeated else entry.default
        if kind in (int, float, Path):
            argument["type"] = bounded(Setting("", bounds={"ge": least}), int) if kind is int else kind
        group.add_argument(f"--{entry.name.replace('_', '-')}", *argument.pop("flags"), **argument)


def settings_from(settings: type[S], options: argparse.Namespace) -> S:
    """The settings of a command line, with lists as tuples."""
    values = vars(options)
    return settings(**{entry.name: _frozen(values[entry.name]) for entry in fields(settings) if entry.name in values})


def check_known(kind: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raise an `InputError` if a name is unknown."""
    known = list(known)
    if unknown := [name for name in names if name not in known]:
        raise rp.InputError(f"unknown {kind} {', '.join(unknown)}; known: {', '.join(known)}")


def _frozen(value):
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
