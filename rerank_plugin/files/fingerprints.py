"""Checksums of a command's inputs, compared when an interrupted command is resumed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

LARGEST = 1 << 26  # bytes of a file or folder that is compared by its content; a larger one by sizes and times


def describe_file(path: Path) -> dict:
    """Size and BLAKE2b checksum of a file."""
    digest = blake2b(digest_size=16)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return {"bytes": path.stat().st_size, "blake2b": digest.hexdigest()}


def fingerprints(settings: Mapping[str, Any]) -> dict[str, str]:
    """Fingerprints of the files and folders that settings, JSON values, name, by the texts that name them.

    A text may be a path (``runs/a.run``), a path after a prefix (``delta:checkpoints/d``) or a path before a split
    (``data/nfcorpus:test``). Other texts are left out.
    """
    found = {}
    for text in sorted(set(_texts(settings))):
        head, _, tail = text.partition(":")
        path = next((one for one in (text, tail, text.rpartition(":")[0], head) if one and os.path.exists(one)), None)
        if path is not None:
            found[text] = fingerprint(path)
    return found


def fingerprint(path: str | Path) -> str:
    """A checksum of a file, or of all files of a folder with their names."""
    path, digest = Path(path), blake2b(digest_size=16)
    files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
    states = [one.stat() for one in files]
    by_content = sum(state.st_size for state in states) <= LARGEST
    for one, state in zip(files, states):
        content = one.read_bytes() if by_content else f"{state.st_size} {state.st_mtime_ns}".encode()
        digest.update(f"{one.relative_to(path)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(one)
