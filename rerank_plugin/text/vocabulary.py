"""A model's vocabulary: the words it has vectors for, with one entry for all others ([D18] 3.1)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from rerank_plugin.files.errors import InputError
from rerank_plugin.text.tokenizer import SETTINGS

UNKNOWN = "<unk>"  # entry 0: every rare or unseen word
_SPACE = re.compile(r"\s")


class Vocabulary:
    """Words by id and ids by word; id 0 is UNK.

    Args:
        words: the words from id 1 on, without repetition.
        tokenizer: the settings of the tokenizer whose tokens they are.
    """

    def __init__(self, words: Sequence[str], tokenizer: dict = SETTINGS):
        self.words, self.tokenizer = [UNKNOWN, *words], tokenizer
        self.ids = {word: id for id, word in enumerate(self.words)}
        if len(self.ids) != len(self.words):
            repeated = next(word for word, count in Counter(self.words).items() if count > 1)
            raise InputError(f"the vocabulary holds '{repeated}' twice")

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return self.ids.get(word, 0) > 0

    def lookup(self, tokens: Iterable[str]) -> list[int]:
        """Ids of tokens, 0 (UNK) for words outside the vocabulary."""
        return [self.ids.get(token, 0) for token in tokens]

    def save(self, path: Path) -> None:
        """One word a line in id order."""
        path.write_text("".join(f"{word}\n" for word in self.words), encoding="utf-8")

    @classmethod
    def load(cls, path: Path, tokenizer: dict = SETTINGS) -> Vocabulary:
        """
        Raises:
            InputError: the file is missing, does not start with UNK, or has an empty or repeated line.
        """
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read the vocabulary {path}: {error}") from None
        if lines and lines[-1] == "":
            lines.pop()
        if not lines or lines[0] != UNKNOWN:
            raise InputError(f"{path}:1: a vocabulary starts with '{UNKNOWN}'")
        for number, line in enumerate(lines, 1):
            if not line or _SPACE.search(line):
                raise InputError(f"{path}:{number}: expected one word, found '{line}'")
        try:
            return cls(lines[1:], tokenizer)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
