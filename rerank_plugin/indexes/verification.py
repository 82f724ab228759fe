"""Verifies an index: the checksums of all files, and the statistics in its description."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from rerank_plugin.files.errors import InputError
from rerank_plugin.files.fingerprints import describe_file
from rerank_plugin.indexes.forward import FIELDS
from rerank_plugin.indexes.index_folder import (
    CHECKSUM,
    DESCRIPTION,
    ENCODINGS,
    INDEX,
    Index,
    checksum_of,
    describe_files,
)  # fmt: skip


def verify(index: Index) -> int:
    """Verify an index; returns the number of files compared, those of encodings included.

    Raises:
        InputError: a file is damaged, missing, or not listed in the description; or the description does not match its
            checksum or the files.
    """
    folder, description = index.folder, index.description
    if description.get(CHECKSUM, checksum_of(description)) != checksum_of(description):
        raise InputError(f"{folder / DESCRIPTION} does not match its checksum: rebuild the index")
    found = describe_files(folder)
    _compare(folder, found, description["files"])
    _check_statistics(index)
    return len(found) + sum(_verify_encodings(index))


def _compare(folder: Path, found: dict, expected: dict) -> None:
    for name in sorted(found.keys() | expected.keys()):
        if name not in expected:
            raise InputError(f"{folder / name} is not on the list of {DESCRIPTION}: rebuild the index, or remove it")
        if found.get(name) != expected[name]:
            raise InputError(f"{folder / name} does not match its checksum: rebuild the index")


def _check_statistics(index: Index) -> None:
    """Compare the description's statistics with the arrays, since older descriptions have no checksum."""
    forward = index.forward
    titles = int(forward.title_lengths.sum(dtype="int64"))
    tokens = {"title": titles, "abstract": len(forward.tokens) - titles, "text": len(forward.tokens)}
    for field in FIELDS:
        expected = {"tokens": tokens[field], "mean_length": tokens[field] / max(len(forward), 1)}
        if index.description["fields"].get(field) != expected:
            raise InputError(
                f"{index.folder / DESCRIPTION}: the field {field} has {index.description['fields'].get(field)}, but its "
                f"documents {expected}: rebuild the index"
            )
    if index.description.get("documents") != len(forward):
        raise InputError(f"{index.folder / DESCRIPTION} does not say that there are {len(forward)} documents: rebuild")


def _verify_encodings(index: Index) -> Iterator[int]:
    """Verify the encodings that models have added to the index; returns the number of files of each kind."""
    of_documents = {"forward_index": index.forward.checksum}
    for encodings in _folders(index.folder / ENCODINGS):
        yield _verify_part(encodings / "encodings.json", {"weights": encodings.name, **of_documents})
        made_of = {"encodings": describe_file(encodings / "encodings.json")["blake2b"]}
        for part in _folders(encodings):
            if part.name == "judged":
                yield _verify_part(part / "judged.json", of_documents)
            else:
                yield _verify_part(part / "ann.json", {"kind": part.name, **made_of})
    if fault := INDEX.fault(index.folder):
        raise InputError(f"{index.folder} {fault}")


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _verify_part(path: Path, expected: dict) -> int:
    """Compare a description with the files beside it; returns the number of files, the description included.

    Args:
        expected: what the description must say.
    """
    try:
        described = json.loads(path.read_bytes())
        said, files = {name: described[name] for name in expected}, described["files"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} does not tell what belongs to it ({error!r}): encode the index again") from None
    if described.get(CHECKSUM) != checksum_of(described) or said != expected:
        raise InputError(f"{path} is damaged, or of another index: encode the index again")
    found = {one.name: one for one in path.parent.iterdir() if one.is_file() and one != path}
    for name in sorted(found.keys() | files.keys()):
        if name not in found or name not in files or describe_file(found[name]) != files[name]:
            raise InputError(f"{path.parent / name} does not match its checksum: encode the index again")
    return 1 + len(files)
