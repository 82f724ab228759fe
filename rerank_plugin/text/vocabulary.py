"""A model's vocabulary: the words with vectors, and one entry for all others ([D18] 3.1), or several, by hash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path

import numpy as np

from rerank_plugin.base.errors import InputError, damage
from rerank_plugin.base.lazily import cached_property
from rerank_plugin.files.string_table import hash_strings
from rerank_plugin.text.stop_words import STOP_WORDS
from rerank_plugin.text.tokenizer import SETTINGS

CONTENT_LETTERS = 4  # of the shortest content word: articles of other languages are shorter
UNKNOWN = "<unk>"  # entry 0: every rare or unseen word
HASHED = "<hash>"  # prefix of the entries that rare and unseen words share by hash; no token has brackets


class Vocabulary:
    """Words by id and ids by word; id 0 is UNK.

    Args:
        words: the distinct words from id 1 on. The last may be hash entries (`HASHED`): any other word then has the
            entry of its hash, so that most rare words differ, and a rare word equals itself.
        tokenizer: the settings of the tokenizer of the words.

    Attributes:
        hashed: the number of hash entries.
    """

    def __init__(self, words: Sequence[str], tokenizer: dict = SETTINGS):
        self.words, self.tokenizer = [UNKNOWN, *words], tokenizer
        self.ids = dict(zip(self.words, range(len(self.words))))
        if len(self.ids) != len(self.words):
            repeated = next(word for word, count in Counter(self.words).items() if count > 1)
            raise InputError(f"the vocabulary holds '{repeated}' twice")
        self.hashed = sum(1 for _ in takewhile(lambda word: word.startswith(HASHED), reversed(self.words)))

    @cached_property
    def hashes(self) -> np.ndarray:
        """Hashes of the words by :func:`hash_strings`, uint64 [V]."""
        return hash_strings(self.words)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return self.ids.get(word, 0) > 0

    def knows_few_words(self, tokens: Iterable[str], in_texts: bool = True) -> bool:
        """Whether at most half of a query's distinct content words are known, and two or more are not.

        Content words are plain words of four letters or more that are not English stop-words; numbers and symbols such
        as genes do not count. A single unknown word may be a name, which texts contain or not. The rule was measured
        with the bundled vocabulary (docs/models/README.md). False for models of word pieces, whose vocabulary is empty.

        Args:
            in_texts: whether any text has a word of the query; if not, one unknown word is enough.
        """
        if len(self) == 1:
            return False
        content = {
            token for token in tokens if len(token) >= CONTENT_LETTERS and token.isalpha() and token not in STOP_WORDS
        }
        unknown = sum(word not in self for word in content)
        return unknown > in_texts and 2 * unknown >= len(content)

    def lookup(self, tokens: Iterable[str]) -> list[int]:
        """Ids of tokens: 0 (UNK) or a hash entry for a word outside the vocabulary."""
        tokens = list(tokens)
        ids = [self.ids.get(token, 0) for token in tokens]
        if self.hashed and 0 in ids:
            hash_ids = self.hash_ids(hash_strings(tokens)).tolist()
            ids = [id or hash_id for id, hash_id in zip(ids, hash_ids)]
        return ids

    def hash_ids(self, hashes: np.ndarray) -> np.ndarray:
        """Ids of the hash entries, int64 [n], of hashes uint64 [n] by :func:`hash_strings`."""
        return len(self.words) - self.hashed + (hashes % np.uint64(self.hashed)).astype(np.int64)

    def save(self, path: Path) -> None:
        """Write one word a line, in the order of the ids."""
        path.write_text("".join(f"{word}\n" for word in self.words), encoding="utf-8")

    @classmethod
    def load(cls, path: Path, tokenizer: dict = SETTINGS) -> Vocabulary:
        """Read a saved vocabulary; an `InputError` for a missing file, one without UNK, an empty or a repeated line."""
        lines = read_lines(path)
        if lines[:1] != [UNKNOWN]:
            raise InputError(f"{path}:1: a vocabulary starts with '{UNKNOWN}'")
        if " ".join(lines).split() != lines:
            number, line = next((number, line) for number, line in enumerate(lines, 1) if line.split() != [line])
            raise InputError(f"{path}:{number}: expected one word, found '{line}'")
        try:
            return cls(lines[1:], tokenizer)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None


def read_lines(path: Path) -> list[str]:
    """The lines of a small UTF-8 file, without line ends; an `InputError` if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {damage(error)}") from None
    return text.removesuffix("\n").split("\n") if text else []
