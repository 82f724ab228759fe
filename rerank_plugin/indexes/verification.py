"""Verifies an index: the checksums of all files, and the statistics in its description."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.fingerprints import describe_file
from rerank_plugin.indexes.forward import field_statistics
from rerank_plugin.indexes.index_folder import (
    CHECKSUM,
    DESCRIPTION,
    ENCODINGS,
    INDEX,
    Index,
    checksum_of,
    describe_files,
    reading,
)
from rerank_plugin.indexes.stored_encodings import PIECES


def verify(index: Index) -> int:
    """Verify an index; returns the number of files compared, those of encodings included.

    Raises:
        InputError: a file is damaged, missing, or not listed in the description; or the description does not match its
            checksum or the files.
    """
    path, description = index.folder / DESCRIPTION, index.description
    if description.get(CHECKSUM, checksum_of(description)) != checksum_of(description):  # older ones have none
        raise InputError(f"{path} does not match its checksum: rebuild the index")
    _compare(path, describe_files(index.folder), description["files"], "rebuild the index")
    _check_statistics(index)
    count = len(description["files"])
    for part, expected in _parts(index):
        count += 1 + _verify_part(part, expected)
    if fault := INDEX.fault(index.folder):
        raise InputError(f"{index.folder} {fault}")
    return count


def _compare(path: Path, found: dict, listed: dict, repair: str) -> None:
    """Compare the files beside a description with those that it lists."""
    for name in sorted(found.keys() | listed.keys()):
        if name not in listed:
            raise InputError(f"{path.parent / name} is not on the list of {path.name}: {repair}, or remove it")
        if name not in found or listed[name].items() - found[name].items():  # older ones list fewer checksums
            raise InputError(f"{path.parent / name} does not match its checksum: {repair}")


def _check_statistics(index: Index) -> None:
    """Compare the description's statistics with the arrays, since older descriptions have no checksum."""
    forward, path = index.forward, index.folder / DESCRIPTION
    for field, statistics in field_statistics(forward.tokens, forward.title_lengths).items():
        said, expected = index.description["fields"].get(field), asdict(statistics)
        if said != expected:
            raise InputError(f"{path}: the field {field} has {said}, but its documents {expected}: rebuild the index")
    if index.description.get("documents") != len(forward):
        raise InputError(f"{path} does not say that there are {len(forward)} documents: rebuild")


def _parts(index: Index) -> Iterator[tuple[Path, dict]]:
    """The description of each addition to the index, and what it must say."""
    of_documents = {"forward_index": index.forward.checksum}
    for encodings in _folders(index.folder / ENCODINGS):
        if encodings.name.endswith(PIECES):
            continue
        described = encodings / "encodings.json"
        yield described, {"weights": encodings.name, **of_documents}
        for part in _folders(encodings):
            if part.name == "judged":
                yield part / "judged.json", of_documents
            else:
                yield part / "ann.json", {"kind": part.name, "encodings": describe_file(described)["blake2b"]}


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _verify_part(path: Path, expected: dict) -> int:
    """Compare a description with the files beside it; returns their number."""
    again = "encode the index again"
    with reading(path, again):
        described = json.loads(path.read_bytes())
        said, listed = {name: described[name] for name in expected}, dict(described["files"])
    if described.get(CHECKSUM) != checksum_of(described) or said != expected:
        raise InputError(f"{path} is damaged, or of another index: {again}")
    names = [one.name for one in path.parent.iterdir() if one.is_file() and one != path]
    _compare(path, describe_files(path.parent, names), listed, again)
    return len(listed)
