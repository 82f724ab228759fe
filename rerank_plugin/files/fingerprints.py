"""Checksums of a command's inputs, compared when an interrupted command is resumed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from rerank_plugin.files.text_files import STDIN, is_pipe

LARGEST = 1 << 26  # bytes; larger files and folders are compared by sizes and times, not by content


def fingerprints(settings: Mapping[str, Any]) -> dict[str, str]:
    """Checksums of the files and folders named in settings (JSON values), by the strings that name them.

    A string may be a path (``runs/a.run``), a path after a prefix (``delta:checkpoints/d``) or a path before a split
    (``data/nfcorpus:test``). Other strings are ignored. A pipe, whose content is unknown, never equals another.
    """
    checksums = {}
    for text in sorted(set(_strings(settings))):
        head, _, tail = text.partition(":")
        candidates = (text, tail, text.rpartition(":")[0], head)
        path = next((path for path in candidates if path in STDIN or path and os.path.exists(path)), None)
        if path is not None:
            unknown = f"a pipe, whose content was not kept ({secrets.token_hex(4)})"
            checksums[text] = unknown if is_pipe(path) else fingerprint(path)
    return checksums


def fingerprint(path: str | Path) -> str:
    """A checksum of a file, or of all files of a folder with their names."""
    path, digest = Path(path), blake2b(digest_size=16)
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    states = [file.stat() for file in files]
    by_content = sum(state.st_size for state in states) <= LARGEST
    for file, state in zip(files, states):
        content = file.read_bytes() if by_content else f"{state.st_size} {state.st_mtime_ns}".encode()
        digest.update(f"{file.relative_to(path)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(item)
