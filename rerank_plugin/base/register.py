"""Registers of extensions: built-in entries come from the modules of one folder, others from entry points.

A register imports the modules of its folder on first use, and each module registers its entries. The entry point of
another package is loaded when its name is looked up.
"""

from __future__ import annotations

import os
import pkgutil
import sys
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, Protocol, TypeVar

from rerank_plugin.base.errors import InputError, one_line
from rerank_plugin.base.lazily import cached_property


class Named(Protocol):
    """An entry of a register."""

    @property
    def name(self) -> str: ...


Entry = TypeVar("Entry", bound=Named)


class Register(Generic[Entry]):
    """Entries by name.

    Args:
        what: the kind of the entries, for messages, such as ``first stage``.
        folder: the package whose modules register entries.
        group: the entry-point group of other packages. An entry point has the name of its entry.
        kind: the class of the entries.
        of_folders: whether only the sub-packages of ``folder`` register entries, not its modules.
        others: whether an entry point may also name a class or a function, which `find` returns unchanged.
    """

    def __init__(
        self, what: str, folder: str, group: str, kind: type[Entry], of_folders: bool = False, others: bool = False
    ):
        self.what, self.folder, self.group, self.kind = what, folder, group, kind
        self.of_folders, self.others = of_folders, others
        self.entries: dict[str, Entry] = {}

    def add(self, entry: Entry) -> Entry:
        """Register and return an entry; an `InputError` if its class is wrong or its name is taken."""
        if not isinstance(entry, self.kind):
            raise InputError(f"only a {self.kind.__name__} can be registered, not {entry!r}")
        if self.entries.setdefault(entry.name, entry) != entry:
            raise InputError(f"the name '{entry.name}' is taken by another {self.what}")
        return entry

    def built_in(self) -> list[Entry]:
        """The entries of the folder's modules and those added by :meth:`add`, sorted by name."""
        self._listed  # noqa: B018 (imports them)
        return [self.entries[name] for name in sorted(self.entries)]

    def installed(self) -> list[str]:
        """The names that other packages declare, sorted; nothing is loaded."""
        return sorted({point.name for point in self._points})

    def find(self, name: str) -> Any:
        """The entry of a name, or the object of another package's entry point; None for an unknown name.

        Raises:
            InputError: another package's entry point cannot be loaded or is not an entry, or its name is taken.
        """
        self.built_in()
        return self._loaded(name) if name in self.installed() else self.entries.get(name)

    def package_of(self, name: str) -> str | None:
        """The package that declares a name; None for a built-in name."""
        return next((_package(point) for point in self._points if point.name == name), None)

    def check_not_taken(self, name: str) -> None:
        """An `InputError` if another package declares this name, which is reserved outside this register."""
        if package := self.package_of(name):
            raise InputError(
                f"the package '{package}' declares the {self.what} '{name}', but the name is taken: uninstall it"
            )

    @cached_property
    def _listed(self) -> None:
        for module in pkgutil.iter_modules(import_module(self.folder).__path__, self.folder + "."):
            if module.ispkg or not self.of_folders:
                import_module(module.name)

    @property
    def _points(self) -> tuple[EntryPoint, ...]:
        return _declared(self.group, tuple(map(_listing, sys.path)))

    def _loaded(self, name: str) -> Any:
        declared = [point for point in self._points if point.name == name]
        packages = sorted({_package(point) for point in declared})
        if len(packages) > 1:
            raise InputError(
                f"the packages {' and '.join(packages)} declare the same {self.what} '{name}': uninstall one"
            )
        fault = f"the package '{packages[0]}' declares the {self.what} '{name}' as {declared[0].value}, but"
        try:
            entry = declared[0].load()
        except Exception as error:  # any exception that the package raises on import
            raise InputError(f"{fault} it cannot be loaded: {type(error).__name__}: {one_line(error)}") from error
        if isinstance(entry, self.kind):
            if entry.name != name:
                raise InputError(f"{fault} that is the entry of a {self.what} named '{entry.name}'")
        elif not (self.others and callable(entry)):
            expected = f"{self.kind.__name__}, class or function" if self.others else self.kind.__name__
            raise InputError(f"{fault} that is not a {expected}: {entry!r}")
        if self.entries.get(name, entry) != entry:
            raise InputError(f"{fault} the name is taken by another {self.what}")
        return entry


@lru_cache(maxsize=32)
def _declared(group: str, listings: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    """The entry points of a group: all installed packages are read, in milliseconds, once for these listings."""
    return tuple(entry_points(group=group))


def _listing(folder: str) -> tuple[str, int]:
    """A folder of ``sys.path``, and when a package was last added to it or removed; 0 where there is none."""
    try:
        return folder, os.stat(folder or ".").st_mtime_ns
    except OSError:
        return folder, 0


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module
