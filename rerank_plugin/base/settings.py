"""Configuration fields that commands offer as options: name, help, default and bounds are declared once; the depth."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import field, fields
from math import inf
from typing import Any, NamedTuple

from rerank_plugin.base.errors import InputError

DEPTH = 500  # candidates of a query, by default everywhere
SHARED = ""  # the help of an option that another configuration of the same command declares
BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}  # by the names of operators, and of pydantic


class Setting(NamedTuple):
    """The command-line option of a configuration field."""

    help: str
    option: str = ""  # its name as a Python identifier; empty for the name of the field
    metavar: str | None = None  # placeholder of the value in the help
    choices: tuple | None = None  # the allowed values; None for any
    type: type | None = None  # of the value, if not that of the default
    bounds: Mapping[str, Any] = {}  # by the names of `BOUNDS`

    def fault(self, value: Any) -> str:
        """What a number that is not finite or not within the bounds must be: ``must be at least 1``; else empty."""
        if value is None or not self.bounds:
            return ""
        finite = abs(value) < inf
        if finite and all(getattr(operator, name)(value, bound) for name, bound in self.bounds.items()):
            return ""
        words = " and ".join(f"{BOUNDS[name]} {bound:,}" for name, bound in self.bounds.items())
        return f"must be {'' if finite else 'finite and '}{words}"


def setting(default: Any, help: str, **more: Any) -> Any:
    """A configuration field with a default that commands offer as an option.

    ``more`` is as in :class:`Setting`; the bounds are arguments of their own, as ``ge=1``.
    """
    bounds = {name: more.pop(name) for name in BOUNDS if name in more}
    return field(default=default, metadata={"setting": Setting(help, bounds=bounds, **more)})


def settings(config: type) -> dict[str, tuple[Setting, Any]]:
    """The fields of a configuration made by :func:`setting`: for each name its :class:`Setting` and its default."""
    declared = {}
    for entry in fields(config):
        if "setting" in entry.metadata:
            option: Setting = entry.metadata["setting"]
            declared[entry.name] = option._replace(option=option.option or entry.name), entry.default
    return declared


def check_bounds(config: Any) -> None:
    """Raise an `InputError` for the first field of a configuration that has a `Setting.fault`."""
    for name, (declared, _) in settings(type(config)).items():
        if fault := declared.fault(value := getattr(config, name)):
            raise InputError(f"{name} is {value}: it {fault}")


def chosen_values(config: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a configuration's fields that a command's options give, by field name."""
    values = {}
    for name, (declared, _) in settings(config).items():
        value = options.get(declared.option)
        if value is not None:
            values[name] = tuple(value) if isinstance(value, list) else value
    return values
