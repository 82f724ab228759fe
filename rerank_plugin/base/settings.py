"""Configuration fields that commands offer as options: name, help and default are declared once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, NamedTuple

SHARED = ""  # the help of an option that another configuration of the same command declares


class Setting(NamedTuple):
    """The command-line option of a configuration field."""

    help: str
    option: str = ""  # its name as a Python identifier; empty for the name of the field
    metavar: str | None = None  # placeholder of the value in the help
    choices: tuple | None = None  # the allowed values; None for any
    type: type | None = None  # of the value, if not that of the default


def setting(default: Any, help: str, **more: Any) -> Any:
    """A configuration field with a default that commands offer as an option; ``more`` as in :class:`Setting`."""
    return field(default=default, metadata={"setting": Setting(help, **more)})


def settings(config: type) -> dict[str, tuple[Setting, Any]]:
    """The fields of a configuration made by :func:`setting`: for each name its :class:`Setting` and its default."""
    declared = {}
    for entry in fields(config):
        if "setting" in entry.metadata:
            option: Setting = entry.metadata["setting"]
            declared[entry.name] = option._replace(option=option.option or entry.name), entry.default
    return declared


def chosen(config: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a configuration's fields that a command's options give, by field name."""
    values = {}
    for name, (declared, _) in settings(config).items():
        value = options.get(declared.option)
        if value is not None:
            values[name] = tuple(value) if isinstance(value, list) else value
    return values
