"""Checksums of a command's inputs, compared when an interrupted command is resumed."""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path
from typing import Any, Iterator, Mapping

LARGEST = 1 << 26  # bytes of a file that is compared by its content; a larger one is by size and time


def fingerprints(settings: Mapping[str, Any]) -> dict[str, str]:
    """Fingerprints of the files and folders that are named in settings, by the text that names them.

    Args:
        settings: JSON values. A text may be a path (``runs/a.run``), a path after a prefix (``delta:checkpoints/d``) or
            a path before a split (``data/nfcorpus:test``). Texts without an existing path are left out.
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
    for one in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if one.is_file():
            status = one.stat()
            large = status.st_size > LARGEST
            content = f"{status.st_size} {status.st_mtime_ns}".encode() if large else one.read_bytes()
            digest.update(f"{one.relative_to(path)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _texts(one)
