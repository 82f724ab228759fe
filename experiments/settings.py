"""Settings of experiments: the fields of a frozen dataclass are the options of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import rerank_plugin as rp

S = TypeVar("S", bound="Settings")


def option(
    help: str, default: Any = MISSING, least: int = 1, size: bool = False, flags: tuple[str, ...] = (), **argument
) -> Any:
    """A field that is an option; without a default it is required.

    Args:
        least: the lowest whole number that is allowed, where the field holds whole numbers.
        size: whether it stands among the sizes of the experiment in the help.
        flags: other names of the option.
        argument: what else ``add_argument`` takes, as ``metavar``.
    """
    return field(default=default, metadata=dict(help=help, least=least, size=size, flags=flags, **argument))


def size(help: str, default: Any, **more) -> Any:
    """An option that says how large the experiment is."""
    return option(help, default, size=True, **more)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What all experiments are told."""

    words: str = option("word vectors, written by rerank_plugin.embed words")
    work: Path = option("folder of everything that is made on the way")
    output: Path = option("Markdown page to write; figures go beside it")
    notes: Path | None = option("Markdown to put on the page, below its head", None)
    at_once: int = option("steps that run at the same time", 2)
    train_option: tuple[str, ...] = option(
        "option of every training, as --train-option=--patience=4", (), action="append"
    )
    seed: int = 42


def add_options(parser: argparse.ArgumentParser, settings: type[Settings]) -> None:
    """Add an option for each field that `option` made."""
    sizes, hints = parser.add_argument_group("size of the experiment"), get_type_hints(settings)
    for one in fields(settings):
        how = dict(one.metadata)
        if not how:
            continue
        kind = next((part for part in get_args(hints[one.name]) if part not in (..., type(None))), hints[one.name])
        repeated = isinstance(one.default, tuple) or how.get("action") == "append"
        if repeated and "action" not in how:
            how.setdefault("nargs", "+")
        least, group = how.pop("least"), sizes if how.pop("size") else parser
        if one.default is MISSING:
            how["required"] = True
        else:
            how["default"] = list(one.default) if repeated else one.default
        if kind in (int, float, Path):
            how["type"] = _whole_number(least) if kind is int else kind
        group.add_argument(f"--{one.name.replace('_', '-')}", *how.pop("flags"), **how)


def settings_from(settings: type[S], options: argparse.Namespace) -> S:
    """The settings of a command line; lists are tuples there."""
    given = vars(options)
    return settings(**{one.name: _frozen(given[one.name]) for one in fields(settings) if one.name in given})


def check_known(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raise an `InputError` if a name is unknown."""
    known = list(known)
    if unknown := [name for name in names if name not in known]:
        raise rp.InputError(f"unknown {what} {', '.join(unknown)}; known: {', '.join(known)}")


def _whole_number(least: int):
    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}")
        return value

    return number


def _frozen(value):
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
