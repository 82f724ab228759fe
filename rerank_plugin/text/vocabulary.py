"""A model's vocabulary: the words it has vectors for, with one entry for all others ([D18] 3.1), or some by hash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.string_table import hash_strings
from rerank_plugin.text.stop_words import STOP_WORDS
from rerank_plugin.text.tokenizer import SETTINGS

CONTENT_LETTERS = 4  # of the shortest word that counts as content: other languages' articles are shorter
UNKNOWN = "<unk>"  # entry 0: every rare or unseen word
HASHED = "<hash>"  # the beginning of entries that rare and unseen words share by their hashes; no token has brackets


class Vocabulary:
    """Words by id and ids by word; id 0 is UNK.

    Args:
        words: the words from id 1 on, without repetition. The last may be entries for hashes (`HASHED`): another word
            then has the entry of its hash, so that two rare words differ, and a rare word equals itself.
        tokenizer: the settings of the tokenizer whose tokens they are.

    Attributes:
        hashed: number of the entries for hashes.
    """

    def __init__(self, words: Sequence[str], tokenizer: dict = SETTINGS):
        self.words, self.tokenizer = [UNKNOWN, *words], tokenizer
        self.ids = {word: id for id, word in enumerate(self.words)}
        if len(self.ids) != len(self.words):
            repeated = next(word for word, count in Counter(self.words).items() if count > 1)
            raise InputError(f"the vocabulary holds '{repeated}' twice")
        self.hashed = sum(word.startswith(HASHED) for word in self.words)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return self.ids.get(word, 0) > 0

    def knows_few(self, tokens: Iterable[str], in_texts: bool = True) -> bool:
        """Whether at most half of a query's distinct content words are known, and two or more are not.

        Content words are plain words of four letters or more that are no English stop-words; numbers and symbols such
        as genes do not count. A single unknown word is a name that texts have or have not. The rule was measured with
        the bundled vocabulary (docs/models/README.md). Of a model that reads pieces of words, whose vocabulary has no
        words, nothing can be said: the answer is no.

        Args:
            in_texts: whether a text has a word of the query; where none has, one unknown word is enough.
        """
        if len(self) == 1:
            return False
        content = {one for one in tokens if len(one) >= CONTENT_LETTERS and one.isalpha() and one not in STOP_WORDS}
        unknown = sum(one not in self for one in content)
        return unknown > in_texts and 2 * unknown >= len(content)

    def lookup(self, tokens: Iterable[str]) -> list[int]:
        """Ids of tokens; a word outside the vocabulary has 0 (UNK), or the entry of its hash."""
        tokens = list(tokens)
        ids = [self.ids.get(token, 0) for token in tokens]
        if self.hashed and 0 in ids:
            others = self.of_hashes(hash_strings(tokens)).tolist()
            ids = [id or other for id, other in zip(ids, others)]
        return ids

    def of_hashes(self, hashes: np.ndarray) -> np.ndarray:
        """Ids of the entries for hashes uint64 [n] as of :func:`hash_strings`, int64 [n]."""
        return len(self.words) - self.hashed + (hashes % np.uint64(self.hashed)).astype(np.int64)

    def save(self, path: Path) -> None:
        """One word a line in id order."""
        path.write_text("".join(f"{word}\n" for word in self.words), encoding="utf-8")

    @classmethod
    def load(cls, path: Path, tokenizer: dict = SETTINGS) -> Vocabulary:
        """An `InputError` if the file is missing, does not start with UNK, or has an empty or repeated line."""
        lines = read_lines(path)
        if lines[:1] != [UNKNOWN]:
            raise InputError(f"{path}:1: a vocabulary starts with '{UNKNOWN}'")
        for number, line in enumerate(lines, 1):
            if line.split() != [line]:
                raise InputError(f"{path}:{number}: expected one word, found '{line}'")
        try:
            return cls(lines[1:], tokenizer)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None


def read_lines(path: Path) -> list[str]:
    """The lines of a small file of UTF-8, without their ends; an `InputError` if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    return text.removesuffix("\n").split("\n") if text else []
