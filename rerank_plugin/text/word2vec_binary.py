"""Reads the binary format of word2vec: a header with the numbers of words and dimensions, then words and vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rerank_plugin.base.errors import InputError, damage
from rerank_plugin.files.text_files import BUFFER, DAMAGED, open_bytes

LONGEST_WORD = 10_000  # bytes; phrases are words, too


def read_binary(path: Path) -> tuple[list[str], np.ndarray]:
    """The n words and vectors, float32 [n, D], in the order of the file; a word may be repeated.

    Memory grows with the data that are read, not with the numbers of the header, and the file may be a pipe.

    Raises:
        InputError: the file is not in this format, is damaged, or holds more or fewer words than its header says.
    """
    words: list[str] = []
    vectors = bytearray()
    try:
        with open_bytes(path) as file:
            header = file.readline(100).split()
            if len(header) != 2 or not all(number.isdigit() for number in header):
                raise InputError(f"{path} cannot be read as word2vec binary: it does not begin with two numbers")
            count, dimension = map(int, header)
            width = 4 * dimension
            buffer, start = b"", 0
            while len(words) < count:
                space = buffer.find(b" ", start, start + LONGEST_WORD)
                if space < 0 and len(buffer) - start >= LONGEST_WORD:
                    raise _mismatch(path, count, f"something else after {len(words):,}")
                if space < 0 or len(buffer) < space + 1 + width:
                    if not (more := file.read(BUFFER)):
                        break
                    buffer, start = buffer[start:] + more, 0
                    continue
                vectors += buffer[space + 1 : space + 1 + width]
                words.append(buffer[start:space].lstrip(b"\n").decode(errors="replace"))
                start = space + 1 + width
            rest = (buffer[start:] + file.read(BUFFER)).strip(b"\n")
    except (OSError, *DAMAGED) as error:
        raise InputError(f"{path} cannot be read as word2vec binary: {damage(error)}") from None
    if not width or not words or len(words) < count or rest:
        raise _mismatch(path, count, f"{len(words):,} of {dimension:,} numbers" + (" and more" if rest else ""))
    return words, np.frombuffer(vectors, "<f4").reshape(-1, dimension)


def _mismatch(path: Path, count: int, found: str) -> InputError:
    return InputError(
        f"{path} cannot be read as word2vec binary: its header says {count:,} words, but it holds {found}: "
        "fetch or write it again"
    )
