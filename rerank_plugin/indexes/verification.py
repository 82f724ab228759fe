"""Verifies an index: the checksums of all files, and the statistics in its description."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.checksums import CHECKSUM, checksum_of
from rerank_plugin.files.outputs import TEMPORARY
from rerank_plugin.files.regular_files import regular
from rerank_plugin.indexes.forward import field_statistics, together
from rerank_plugin.indexes.index_folder import (
    COMMIT_FILE,
    DESCRIPTION,
    ENCODINGS,
    INDEX,
    JUDGED,
    Index,
    addition,
    described_again,
    reading,
)
from rerank_plugin.indexes.sharding import COLLECTION
from rerank_plugin.indexes.vector_store import FORMAT_VERSION
from rerank_plugin.indexes.vector_store_writer import PIECES


def verify(index: Index) -> int:
    """Verify an index and its encodings; returns the number of files compared.

    Raises:
        InputError: a file is damaged, missing, or not listed in the description; or the description does not match its
            checksum or the files.
    """
    description = index.description
    for name, file in description["files"].items():
        if not _agree(described_again(index.folder, name, file), file):
            raise InputError(f"{index.folder / name} does not match its checksum: rebuild the index")
    if (commit := description["lucene"].get(COMMIT_FILE)) and f"lucene/{commit}" not in description["files"]:
        raise InputError(f"{index.lucene_folder / commit} is not on the list of {DESCRIPTION}: rebuild the index")
    _check_statistics(index)
    if json.loads(regular(index.folder / index.generation_file).read_bytes()) != description:
        raise InputError(f"{index.folder / index.generation_file} differs from {DESCRIPTION}: rebuild the index")
    count = len(description["files"]) + sum(map(verify, index.shards))
    for part, expected in _parts(index):
        count += 1 + _verify_part(part, expected)
    if COLLECTION not in description and (fault := INDEX.fault(index.folder)):
        raise InputError(f"{index.folder} {fault}")
    return count


def _agree(found: dict, listed: dict) -> bool:
    """Whether a file is as it is listed; descriptions of earlier versions have fewer checksums."""
    return {name: found.get(name) for name in listed} == listed


def _compare(path: Path, files: dict, listed: dict, repair: str) -> None:
    """Compare the files beside a description with the listed ones."""
    for name in sorted(files.keys() | listed.keys()):
        if name not in listed:
            raise InputError(f"{path.parent / name} is not on the list of {path.name}: {repair}, or remove it")
        if name not in files or not _agree(files[name], listed[name]):
            raise InputError(f"{path.parent / name} does not match its checksum: {repair}")


def _check_statistics(index: Index) -> None:
    """Compare the description's statistics with the arrays, since older descriptions have no checksum."""
    if COLLECTION in index.description:
        return  # a shard has the statistics of its collection, which are compared there
    forward, path = index.forward, index.folder / DESCRIPTION
    parts = [shard.forward for shard in index.shards] or [forward]
    of_parts = [field_statistics(part.offsets, part.title_lengths, part.deleted) for part in parts]
    for field, statistics in together(of_parts, forward.documents).items():
        described, expected = index.description["fields"].get(field), asdict(statistics)
        if described != expected:
            raise InputError(
                f"{path}: the field {field} has {described}, but its documents {expected}: rebuild the index"
            )
    if (count := index.description.get("documents")) != forward.documents:
        raise InputError(f"{path} has {count} documents, but its files {forward.documents}: rebuild the index")


def _parts(index: Index) -> Iterator[tuple[Path, dict]]:
    """The path of each description of encodings, and its expected entries."""
    forward = {"forward_index": index.forward.checksum}
    for encodings in _folders(addition(index, ENCODINGS)):
        if not encodings.name.endswith(PIECES):
            entries = {"format_version": FORMAT_VERSION, "weights": encodings.name}
            yield encodings / "encodings.json", {**entries, **forward}
    for judged in _folders(addition(index, JUDGED)):
        yield judged / "judged.json", forward


def _folders(folder: Path) -> list[Path]:
    """The folders in a folder, which need not exist, but for those of killed processes."""
    return sorted(path for path in folder.glob("*") if path.is_dir() and not TEMPORARY.fullmatch(path.name))


def _verify_part(path: Path, expected: dict) -> int:
    """Compare a description with its expected entries and the files beside it; returns the number of files."""
    repair = "encode the index again"
    with reading(path, repair):
        description = json.loads(regular(path).read_bytes())
        entries, listed = {name: description[name] for name in expected}, dict(description["files"])
    if description.get(CHECKSUM) != checksum_of(description) or entries != expected:
        raise InputError(f"{path} is damaged, of another index, or of an earlier version: {repair}")
    names = [file.name for file in path.parent.iterdir() if file.is_file() and file != path]
    files = {name: described_again(path.parent, name, listed.get(name, {})) for name in names}
    _compare(path, files, listed, repair)
    return len(listed)
