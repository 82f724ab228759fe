"""Fields of configurations that commands offer as options, so that each is declared, described and defaulted once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, NamedTuple


class Setting(NamedTuple):
    """The command-line option of a configuration field."""

    help: str
    option: str = ""  # its name as a Python identifier; empty for the name of the field
    metavar: str | None = None  # placeholder of the value in the help
    otherwise: str = ""  # name of the option whose value is used if this one is not given
    choices: tuple | None = None  # the values that are allowed; None for any
    type: type | None = None  # of the value, where the default does not tell it


def setting(default: Any, help: str, **more: Any) -> Any:
    """A field of a configuration, with a default value, that commands offer as an option; see :class:`Setting`."""
    return field(default=default, metadata={"setting": Setting(help, **more)})


def settings(config: type) -> dict[str, tuple[Setting, Any]]:
    """The fields of a configuration made by :func:`setting`: for each name its :class:`Setting` and its default."""
    declared = {one.name: (one.metadata["setting"], one.default) for one in fields(config) if "setting" in one.metadata}
    return {name: (one._replace(option=one.option or name), default) for name, (one, default) in declared.items()}


def chosen(config: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a configuration's settings, by field name, from a command's options; missing ones are left out."""
    values = {}
    for name, (declared, _) in settings(config).items():
        value = options.get(declared.option)
        if value is None:
            value = options.get(declared.otherwise)
        if value is not None:
            values[name] = tuple(value) if isinstance(value, list) else value
    return values
