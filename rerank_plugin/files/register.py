"""Registers of what the package can be extended by: ours by the modules of one folder, others by entry points.

A register imports the modules of its folder when it is first asked, and each module registers what it adds. Another
package adds an entry through an entry point, which is loaded only when its name is asked for: listing names imports
none of it.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Callable, Generic, TypeVar

from rerank_plugin.files.errors import InputError

Entry = TypeVar("Entry")


class Register(Generic[Entry]):
    """Entries by name.

    Args:
        what: an entry is, for messages, such as ``first stage``.
        folder: the package whose modules register entries.
        group: the entry-point group of other packages; an entry point names an entry, or a module's attribute that is
            one, and has the entry's name.
        kind: the class of the entries, which have a ``name``.
    """

    def __init__(self, what: str, folder: str, group: str, kind: type[Entry]):
        self.what, self.folder, self.group, self.kind = what, folder, group, kind
        self._entries: dict[str, Entry] = {}
        self._listed = False

    def add(self, entry: Entry) -> None:
        """Register an entry of ours; called at the end of a module."""
        if entry.name in self._entries:
            raise ValueError(f"two {self.what}s are called {entry.name}")
        self._entries[entry.name] = entry

    def ours(self) -> list[Entry]:
        """The entries of the folder's modules, by name."""
        if not self._listed:
            for module in pkgutil.iter_modules(importlib.import_module(self.folder).__path__):
                importlib.import_module(f"{self.folder}.{module.name}")
            self._listed = True
        return [self._entries[name] for name in sorted(self._entries)]

    def installed(self) -> list[str]:
        """The names that other packages add, sorted. None of them is loaded."""
        return sorted(self._points())

    def find(self, name: str) -> Entry | None:
        """The entry of a name; None for an unknown one. A name of ours cannot be taken by another package.

        Raises:
            InputError: another package adds the name, but its entry cannot be loaded or is none.
        """
        self.ours()
        if name in self._entries:
            return self._entries[name]
        point = self._points().get(name)
        return None if point is None else self._loaded(name, point.load, point.value)

    def all(self) -> list[Entry]:
        """Every entry, ours first. Loads those of other packages.

        Raises:
            InputError: one of them cannot be loaded or is none.
        """
        return self.ours() + [self.find(name) for name in self.installed()]

    def _points(self) -> dict:
        from importlib.metadata import entry_points

        ours = {entry.name for entry in self.ours()}
        return {point.name: point for point in entry_points(group=self.group) if point.name not in ours}

    def _loaded(self, name: str, load: Callable[[], Entry], where: str) -> Entry:
        try:
            entry = load()
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise InputError(f"cannot load the {self.what} '{name}' from {where}: {error}") from None
        if not isinstance(entry, self.kind):
            raise InputError(f"cannot load the {self.what} '{name}': {where} is no {self.kind.__name__}")
        if entry.name != name:
            raise InputError(f"cannot load the {self.what} '{name}': {where} is called '{entry.name}'")
        return entry
