"""Generations of an index: the lock of the process that writes, the switch to a new one, and the removal of old ones.

An update writes the files of a new generation beside those of the current one, and then replaces ``index.json``. Until
then no reader sees them; what an interrupted update has left is removed by the next update. Open indexes hold a shared
lock on the file of their generation, which ends with their process. After the switch, and before the next update, the
files of all generations that nobody has open are removed.

No other module removes or shortens a file of an index.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.outputs import OutputLockedError, is_same_file, locked, remove_leftovers, writing_to
from rerank_plugin.indexes.forward import FORWARD, is_appended, numbered
from rerank_plugin.indexes.index_folder import (
    ADDITIONS,
    GENERATIONS,
    Index,
    describe_generation,
    switch_generation,
)
from rerank_plugin.indexes.sharding import REST

# Files that a generation lists, or that an interrupted update has left; others are of the user or of other commands.
# Commits are removed before their segments: Lucene opens nothing beside a commit that lacks files.
LUCENE = ("segments_*", "pending_segments_*", "_*")
OWN = (
    f"{FORWARD}/*/*.npy",
    "lucene_rows.*.npy",
    *(f"lucene/{name}" for name in LUCENE),
    *(f"{REST}/*/{name}" for name in (*LUCENE, "write.lock")),
)


class NextGeneration:
    """The generation after the current one of an index, while an update writes it.

    Args:
        index: the current one. descriptor: of its locked folder, whose real path is ``folder``.
        entries: what its description says besides what the update writes.
    """

    def __init__(self, index: Index, descriptor: int, folder: Path, entries: Mapping[str, Any]):
        self.index, self.descriptor, self.folder, self.entries = index, descriptor, folder, entries

    @contextmanager
    def described(self, description: dict, files: dict[str, dict], shards: Sequence[Index] = ()) -> Iterator[Index]:
        """Write its description and those of its files; what follows in the block are its additions.

        At the end of the block it becomes the current generation.

        Args:
            shards: in this generation.
        """
        written = describe_generation(self.index.folder, {**description, **self.entries}, files)
        with closing(self.index.following(written, shards)) as following:
            yield following
        if not is_same_file(self.descriptor, self.folder):
            raise InputError(f"{self.index.folder} was replaced or removed while it was being updated: start again")
        switch_generation(self.index.folder, written)


@contextmanager
def updating(
    folder: str | Path, entries: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[tuple[Index, NextGeneration]]:
    """The current generation of an index, for an update by this process alone, and the next one.

    Args:
        entries: what the description of the next one says besides what the update writes.

    Raises:
        InputError: the index cannot be opened or written; as an `OutputLockedError` if another process updates it.
    """
    before = Index(folder)  # an InputError before anything is locked
    before.close()
    with _locked_index(folder) as (index, descriptor, real):
        yield index, NextGeneration(index, descriptor, real, entries)


@contextmanager
def _locked_index(folder: str | Path) -> Iterator[tuple[Index, int, Path]]:
    """The current generation of an index, for this process alone; the descriptor of its folder, and its real path."""
    real = Path(os.path.realpath(folder))  # a link is followed
    with writing_to(folder), locked(real) as descriptor:
        index = Index(folder)
        try:
            _remove_others(index)
            yield index, descriptor, real
        finally:
            index.close()
            with suppress(InputError, OSError), closing(Index(folder)) as current:
                _remove_others(current)  # otherwise the next update does


@contextmanager
def adding_to(index: Index | None) -> Iterator[None]:
    """Write additions to the generation of an open index, by this process alone.

    Args:
        index: None, and that of an update of this process, need no lock.

    Raises:
        InputError: as `updating`; or the index was updated since it was opened.
    """
    if index is None or index.is_written:
        yield
        return
    with _locked_index(index.folder) as (current, _, _):
        if current.generation != index.generation:
            raise InputError(f"{index.folder} was updated since it was opened: open it again, or start again")
        yield


def _remove_others(index: Index, whole: Collection[str] = ()) -> None:
    """Remove what neither the current generation nor any that is open needs.

    Args:
        whole: the files that an index needs, if this is a shard of it; shards keep the generations that it keeps.
    """
    folder, needed = index.folder, {*index.description["files"], index.generation_file}
    remove_leftovers(folder)
    for path in (folder / GENERATIONS).glob("*.json"):
        name = f"{GENERATIONS}/{path.name}"
        if name not in needed and (name in whole or _is_open(path)):
            with suppress(ValueError):
                needed |= {name, *json.loads(path.read_bytes())["files"]}
    for pattern in (f"{GENERATIONS}/*.json", *OWN):
        for path in folder.glob(pattern):
            if path.relative_to(folder).as_posix() not in needed:
                path.unlink()
    for addition in ADDITIONS:
        for path in (folder / addition).glob("[0-9]" * len(numbered(0))):
            if f"{GENERATIONS}/{path.name}.json" not in needed:
                shutil.rmtree(path)
    for empty in (path for parent in (FORWARD, REST) for path in (folder / parent).glob("*")):
        with suppress(OSError):
            empty.rmdir()
    for name, file in index.description["files"].items():
        if is_appended(name) and (folder / name).stat().st_size > file["bytes"]:
            os.truncate(folder / name, file["bytes"])
    for shard in index.shards:
        _remove_others(shard, needed)


def _is_open(path: Path) -> bool:
    """Whether an open index holds the lock of a generation's file."""
    try:
        with locked(path):
            return False
    except (OutputLockedError, OSError):  # a file system without locks does not tell
        return True
