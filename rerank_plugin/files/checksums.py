"""What a description says of the files beside it and of itself, compared when they are opened, but once.

A small file is compared with the checksum of all its bytes; a large one with those of its beginning, its end and some
blocks between them, as reading all of it would take as long as the work that follows. What was found sound is
remembered by sizes and times, and where a check is dear by checksums, too, in ``~/.cache/rerank_plugin/sound``
(``XDG_CACHE_HOME``), so that the next process reads nothing; so are digests of files with known checksums. Where that
file cannot be written, every process compares again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.outputs import INNER, replacing

CHECKSUM = "checksum"  # of the other entries, in a description
SAMPLED = "sample"  # of the entries of a file: the checksum of blocks of it
SEAL = "seal"  # the same where that name is taken, or users may change entries
END = 4096  # bytes at either end of a file, and of a block, with a checksum of their own
BLOCKS = 32  # between the ends
SMALL = 1 << 20  # bytes; smaller files are compared whole
KEPT = 8192  # files, or groups of them, that are remembered
RECENT = 2.0  # seconds, in which a file may change again with the same time


def describe_file(path: Path) -> dict[str, Any]:
    """Size and BLAKE2b checksum of a file."""
    digest, size = blake2b(digest_size=16), 0
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
            size += len(block)
    return {"bytes": size, "blake2b": digest.hexdigest()}


def describe_parts(path: Path, size: int) -> dict[str, str]:
    """Checksums of the beginning, the end and a sample of the first ``size`` bytes of a file.

    Beginning and end overlap in a short file, and a small one needs no sample.
    """
    parts = {"head": [0], "tail": [max(size - END, 0)]}
    if size > SMALL:
        parts[SAMPLED] = [size * number // (BLOCKS + 1) // END * END for number in range(1, BLOCKS + 1)]
    description = {}
    with open(path, "rb") as file:
        for name, places in parts.items():
            digest = blake2b(digest_size=8)
            for place in places:
                file.seek(place)
                digest.update(file.read(min(END, size - place)))
            description[name] = digest.hexdigest()
    return description


def checksum_of(description: Mapping[str, Any], name: str = CHECKSUM) -> str:
    """The checksum of a description's content, without its own checksum, the entry ``name``."""
    content = {key: value for key, value in description.items() if key != name}
    return blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


def sealed(description: Mapping[str, Any], name: str = CHECKSUM) -> dict[str, Any]:
    """A description with its checksum, the entry ``name``."""
    return {**description, name: checksum_of(description, name)}


def is_sound(description: Mapping[str, Any], name: str = CHECKSUM) -> bool:
    """Whether a description fits its checksum; those of earlier versions have none."""
    return name not in description or description[name] == checksum_of(description, name)


def fault(path: Path, description: Mapping[str, Any], whole: bool = False) -> str | None:
    """What is wrong with a file, by its description, as the end of a sentence; None for a file that is as described.

    Args:
        description: ``bytes``, and as far as they are known ``blake2b``, ``head``, ``tail`` and ``sample``.
        whole: compare all bytes, of a large file, too.
    """
    if not path.is_file():
        return "is not a regular file" if path.exists() else "is missing"
    size, expected = path.stat().st_size, description["bytes"]
    if size != expected:
        return f"has {size} bytes"

    def is_same() -> bool:
        known = describe_parts(path, expected)
        if any(description.get(part, found) != found for part, found in known.items()):
            return False
        if "blake2b" not in description or not (whole or expected <= SMALL):
            return True
        return describe_file(path)["blake2b"] == description["blake2b"]

    return None if check_once([path], is_same, dict(description), whole) else "has changed"


def check_once(paths: Iterable[Path], check: Callable[[], bool], *how: Any, by_content: bool = False) -> bool:
    """Whether files pass a check, which is called unless they have passed it before.

    Args:
        how: everything else that the check depends on, as JSON values.
        by_content: know files by a checksum of all their bytes, too, where a copy of them may have passed; for checks
            that take longer than reading the files.
    """
    paths = list(paths)
    states = [os.stat(path) for path in paths]
    state = _key([(one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for one in states], how)
    if state in _remembered():
        return True
    keys = {state}
    if by_content:
        keys.add(content := _key([describe_file(path) for path in paths], how))
    if not (by_content and content in _remembered()) and not check():
        return False
    if time.time() - max(max(one.st_mtime, one.st_ctime) for one in states) > RECENT:
        for key in keys - _remembered().keys():
            _remember(key)
    return True


def remembered(digest: Callable[[], str], *how: Any) -> str:
    """A digest of 16 bytes in hexadecimal, computed unless it was before.

    Args:
        how: all that it depends on, as JSON values, such as the checksums of files.
    """
    key = _key("digest", how)
    if not (value := _remembered().get(key)):
        _remember(key, value := digest())
    return value


def _key(files: Any, how: Any) -> str:
    return blake2b(json.dumps([files, how], sort_keys=True).encode(), digest_size=16).hexdigest()


def _memory() -> Path:
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(folder, "rerank_plugin", "sound")


@cache
def _remembered() -> dict[str, str]:
    """The checks that were passed, and digests by their keys; a line that was not written completely is neither."""
    with suppress(OSError):
        lines = _memory().read_text(errors="replace").splitlines()
        if len(lines) > 2 * KEPT:
            with suppress(InputError), replacing(_memory(), INNER, overwrite=True) as file:
                file.write("".join(f"{line}\n" for line in lines[-KEPT:]).encode())
        return {line[:32]: line[33:] for line in lines if len(line) in (32, 65)}
    return {}


def _remember(key: str, value: str = "") -> None:
    _remembered()[key] = value
    with suppress(OSError):
        _memory().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(_memory(), "ab", buffering=0) as file:
            file.write(f"{key} {value}".rstrip().encode() + b"\n")  # at once: lines of several processes do not mix
