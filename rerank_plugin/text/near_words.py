"""Words that differ by one letter: one is another, missing or more, or two neighbors are exchanged; the first stays.

Letters in shapes: n words, L letters of the word that is looked for.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

SHORTEST = 6  # letters of a word that is looked for: one letter makes a shorter word another one


class NearWords:
    """Finds those among some words that differ by one letter from a word; words with other signs are left out."""

    def __init__(self, words: Iterable[str]):
        groups: dict[tuple[str, int], list[str]] = defaultdict(list)
        for word in words:
            if len(word) >= SHORTEST - 1 and word.isascii() and word.isalpha():
                groups[word[0], len(word)].append(word)
        self.letters = {key: _letters(group) for key, group in groups.items()}  # uint8 [n, length]

    def find(self, word: str) -> list[str]:
        """The words that differ by one letter, in no order; none of a word with fewer than `SHORTEST` letters.

        >>> sorted(NearWords(["asthma", "asthmas", "isthmus"]).find("asthmaa")), NearWords(["asthma"]).find("astham")
        (['asthma', 'asthmas'], ['asthma'])
        """
        if len(word) < SHORTEST or not (word.isascii() and word.isalpha()):
            return []
        wanted, found = _letters([word])[0], list[str]()
        for length, differ in ((len(word), _one_other), (len(word) + 1, _one_more), (len(word) - 1, _one_less)):
            others = self.letters.get((word[0], length))
            if others is not None:
                found += [row.tobytes().decode() for row in others[differ(others, wanted)]]
        return found


def replaced(text: str, word: str, other: str) -> str:
    """The text with another word for a word, in any case.

    >>> replaced("Assthma, not assthmatic", "assthma", "asthma")
    'asthma, not assthmatic'
    """
    return re.sub(rf"(?i)(?<!\w){re.escape(word)}(?!\w)", other, text)


def _letters(words: list[str]) -> np.ndarray:
    """Words of L letters each, uint8 [n, L]."""
    return np.frombuffer("".join(words).encode(), np.uint8).reshape(len(words), -1)


def _one_other(others: np.ndarray, word: np.ndarray) -> np.ndarray:
    """Of uint8 [n, L], which differ from the word, uint8 [L], in one letter or two exchanged neighbors; bool [n]."""
    wrong = others != word
    number, first = wrong.sum(axis=1), wrong.argmax(axis=1)
    at, after = np.arange(len(others)), np.minimum(first + 1, len(word) - 1)
    exchanged = (others[at, first] == word[after]) & (others[at, after] == word[first])
    return (number == 1) | ((number == 2) & wrong[at, after] & exchanged)


def _one_more(others: np.ndarray, word: np.ndarray) -> np.ndarray:
    """Of uint8 [n, L + 1], which have one letter more than the word, uint8 [L]; bool [n]."""
    begins = np.logical_and.accumulate(others[:, :-1] == word, axis=1).sum(axis=1)
    ends = np.logical_and.accumulate((others[:, 1:] == word)[:, ::-1], axis=1).sum(axis=1)
    return begins + ends >= len(word)


def _one_less(others: np.ndarray, word: np.ndarray) -> np.ndarray:
    """Of uint8 [n, L - 1], which have one letter less than the word, uint8 [L]; bool [n]."""
    begins = np.logical_and.accumulate(others == word[:-1], axis=1).sum(axis=1)
    ends = np.logical_and.accumulate((others == word[1:])[:, ::-1], axis=1).sum(axis=1)
    return begins + ends >= len(word) - 1
