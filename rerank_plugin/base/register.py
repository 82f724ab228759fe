"""Registers of extensions: our own entries come from the modules of one folder, others from entry points.

A register imports the modules of its folder on first use, and each module registers its entries. The entry point of
another package is loaded only when its name is looked up.
"""

from __future__ import annotations

import pkgutil
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from rerank_plugin.base.errors import InputError

Entry = TypeVar("Entry")


class Register(Generic[Entry]):
    """Entries by name.

    Args:
        what: what an entry is, for messages, such as ``first stage``.
        folder: the package whose modules register entries.
        group: the entry-point group of other packages. An entry point has the name of the entry that it gives.
        kind: the class of the entries, which have a ``name``.
        of_folders: whether only the sub-packages of ``folder`` register entries, not its modules.
        others: whether an entry point may also give a class or a function, which `find` returns as it is.
    """

    def __init__(
        self, what: str, folder: str, group: str, kind: type[Entry], of_folders: bool = False, others: bool = False
    ):
        self.what, self.folder, self.group, self.kind = what, folder, group, kind
        self.of_folders, self.others = of_folders, others
        self.entries: dict[str, Entry] = {}

    def add(self, entry: Entry) -> Entry:
        """Register an entry, and return it; an `InputError` if it is of another class, or another has its name."""
        if not isinstance(entry, self.kind):
            raise InputError(f"only a {self.kind.__name__} can be registered, not {entry!r}")
        if self.entries.setdefault(entry.name, entry) != entry:
            raise InputError(f"the name '{entry.name}' is taken by another {self.what}")
        return entry

    def ours(self) -> list[Entry]:
        """The entries of the folder's modules and other entries added by :meth:`add`, sorted by name."""
        self._listed  # noqa: B018 (imports them)
        return [self.entries[name] for name in sorted(self.entries)]

    def installed(self) -> list[str]:
        """The names that other packages declare, sorted. None of them is loaded."""
        return sorted({point.name for point in self._points})

    def find(self, name: str) -> Any:
        """The entry of a name, or the object that another package's entry point gives; None for an unknown name.

        Raises:
            InputError: another package's entry point cannot be loaded or gives no entry, or its name is taken.
        """
        self.ours()
        return self._loaded(name) if name in self.installed() else self.entries.get(name)

    def package_of(self, name: str) -> str | None:
        """The package that declares a name; None for our own names."""
        return next((_package(point) for point in self._points if point.name == name), None)

    def check_not_taken(self, name: str) -> None:
        """An `InputError` if another package declares this name, which is in use outside this register."""
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
    def _points(self) -> list[EntryPoint]:
        return list(entry_points(group=self.group))

    def _loaded(self, name: str) -> Any:
        declared = [point for point in self._points if point.name == name]
        packages = sorted({_package(point) for point in declared})
        if len(packages) > 1:
            raise InputError(
                f"the packages {' and '.join(packages)} declare the same {self.what} '{name}': uninstall one"
            )
        fault = f"the package '{packages[0]}' declares the {self.what} '{name}' as {declared[0].value}, but"
        try:
            found = declared[0].load()
        except Exception as error:  # whatever the package does when it is imported
            raise InputError(f"{fault} it cannot be loaded: {type(error).__name__}: {one_line(error)}") from error
        if isinstance(found, self.kind):
            if found.name != name:
                raise InputError(f"{fault} that is the entry of a {self.what} named '{found.name}'")
        elif not (self.others and callable(found)):
            either = f"{self.kind.__name__}, no class and no function" if self.others else self.kind.__name__
            raise InputError(f"{fault} that is no {either}: {found!r}")
        if self.entries.get(name, found) != found:
            raise InputError(f"{fault} the name is taken by another {self.what}")
        return found


def one_line(error: Exception) -> str:
    """The message of an error, on one line."""
    return " ".join(str(error).split())


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module
