"""Compares an index with what was written when it was built: every byte, and what follows from the bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Iterator

from rerank_plugin.files.errors import InputError
from rerank_plugin.indexes.forward import FIELDS
from rerank_plugin.indexes.index_folder import (
    CHECKSUM,
    DESCRIPTION,
    ENCODINGS,
    INDEX,
    Index,
    checksum_of,
    describe_file,
    describe_files,
)  # fmt: skip


def verify(index: Index) -> int:
    """How many files were compared, those of encodings included.

    Raises:
        InputError: a file is damaged, missing, or not on the list of those that were written; or the description says
            what was not written, or does not follow from the files.
    """
    folder, description = index.folder, index.description
    if description.get(CHECKSUM, checksum_of(description)) != checksum_of(description):
        raise InputError(f"{folder / DESCRIPTION} does not match its checksum: rebuild the index")
    found = describe_files(folder)
    _compare(folder, found, description["files"])
    _check_statistics(index)
    return len(found) + sum(_verify_encodings(folder))


def _compare(folder: Path, found: dict, expected: dict) -> None:
    for name in sorted(found.keys() | expected.keys()):
        if name not in expected:
            raise InputError(f"{folder / name} is not on the list of {DESCRIPTION}: rebuild the index, or remove it")
        if found.get(name) != expected[name]:
            raise InputError(f"{folder / name} does not match its checksum: rebuild the index")


def _check_statistics(index: Index) -> None:
    """What the description says of the documents must follow from the arrays: older ones have no checksum."""
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


def _verify_encodings(folder: Path) -> Iterator[int]:
    """Compare the files below the folder of encodings; how many there are of each description."""
    for path in sorted((folder / ENCODINGS).rglob("*.json")):
        try:
            described = json.loads(path.read_bytes())
            files = described["files"] if "files" in described else {"index.faiss": described["index"]}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} names no checksums ({error!r}): encode the index again") from None
        for name, expected in files.items():
            if not (path.parent / name).is_file() or describe_file(path.parent / name) != expected:
                raise InputError(f"{path.parent / name} does not match its checksum: encode the index again")
        yield 1 + len(files)
    if (folder / ENCODINGS).is_dir() and (fault := INDEX.fault(folder)):
        raise InputError(f"{folder} {fault}")
