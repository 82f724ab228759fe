"""Opens an index by its location: a folder, or ``SCHEME://...`` of a register (``ray://ADDRESS/FOLDER``).

Another package declares an entry point of the group ``rerank_plugin.openers`` with the scheme as its name, which points
at an :class:`Opener`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rerank_plugin.base.errors import InputError, unknown
from rerank_plugin.base.register import Register

if TYPE_CHECKING:
    from rerank_plugin.indexes.index_folder import Index


class Location(Protocol):
    """Where processes have the parts of an index: a configuration, whose first field is an address."""

    @classmethod
    def parse(cls, url: str) -> tuple[Path, Location]:
        """The folder and the configuration of a location as `url` writes it; an `InputError` if it is none."""

    def url(self, folder: str | Path) -> str:
        """The location of an index, as `open_index` takes it."""

    def open(self, folder: Path) -> Index:
        """An index whose documents are searched there; an `InputError` if it cannot be opened."""

    def encoding(self, encoder: Any, batch_size: int | None) -> Callable[..., Any]:
        """What encodes batches of rows there, for :meth:`IndexEncoder.encode`."""

    def builder(self, lag: int) -> Callable[..., Any]:
        """What builds a shard there, as a ``ShardBuilder`` does here.

        Args:
            lag: batches of documents that may wait for a shard's process.
        """

    def with_own_heap(self) -> Location:
        """The same, whose processes have the Java heap that the user set for this one's Java."""


@dataclass(frozen=True)
class Opener:
    """The register entry of a kind of location.

    Attributes:
        name: the scheme of its locations.
        config: ``module:class`` of its configuration, a :class:`Location`.
        option: the name of the commands' option that takes an address.
        addresses: what an address may be, for the help.
    """

    name: str
    config: str
    option: str
    addresses: str

    def location(self) -> Any:
        """The class of its configuration."""
        module, _, name = self.config.partition(":")
        return getattr(import_module(module), name)


OPENERS = Register("kind of location", "rerank_plugin.cluster", "rerank_plugin.openers", Opener, of_folders=True)


def named_location(index: Any) -> tuple[Path, Location] | None:
    """The folder and the configuration of ``SCHEME://...``; None for a folder, or what is no location at all.

    Raises:
        InputError: an unknown scheme, or as `Location.parse`.
    """
    scheme, separator, _ = index.partition("://") if isinstance(index, str) else ("", "", "")
    if not separator or not scheme.isalnum():
        return None
    if (opener := OPENERS.find(scheme)) is None:
        known = [entry.name for entry in OPENERS.built_in()]
        raise InputError(unknown("kind of location", scheme, [*known, *OPENERS.installed()]))
    folder, location = opener.location().parse(index)
    return folder, location


def open_index(index: str | Path | Index) -> Index:
    """The index of a location; an open index stays the same.

    Raises:
        InputError: there is no such index, or it cannot be opened there.
    """
    from rerank_plugin.indexes.index_folder import Index

    if isinstance(index, Index):
        return index
    if not isinstance(index, (str, os.PathLike)):
        raise InputError(f"an index is the path of its folder or an open Index, not {type(index).__name__}")
    if (found := named_location(index)) is None:
        return Index(index)
    folder, location = found
    return location.open(folder)
