"""Hash tables of the forms and the trigrams of a vocabulary, built by compiled loops (numba).

Import this module only where tables are built or searched: numba takes half a second to load.
"""

from __future__ import annotations

import numpy as np
from numba import njit

SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio
FNV_START, FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
SPACE = 32
MOST_WORDS = 255  # of a form that is found


@njit(nogil=True, cache=True)
def first_slot(hashed, slots):
    """The first slot of a hash in a table."""
    return np.int64(((hashed * SPREAD) >> np.uint64(20)) & np.uint64(len(slots) - 1))


@njit(nogil=True, cache=True)
def continued_hash(characters, start, end, hashed):
    """A hash, continued by more characters (FNV-1a over code points)."""
    for place in range(start, end):
        hashed = (hashed ^ np.uint64(characters[place])) * FNV_PRIME
    return hashed


@njit(nogil=True, cache=True)
def _fill_forms(characters, offsets, slots, reach):
    for form in range(len(offsets) - 1):
        slot = first_slot(continued_hash(characters, offsets[form], offsets[form + 1], FNV_START), slots)
        while slots[slot]:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = form + 1
        end, words = offsets[form + 1], 1
        for place in range(offsets[form + 1] - 1, offsets[form], -1):
            if characters[place] == SPACE:
                end, words = place, words + 1
        slot = first_slot(continued_hash(characters, offsets[form], end, FNV_START), reach)
        reach[slot] = max(reach[slot], min(words, MOST_WORDS))


@njit(nogil=True, cache=True)
def _fill_grams(keys, slots):
    for gram in range(len(keys)):
        slot = first_slot(keys[gram], slots)
        while slots[slot]:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = gram + 1


def _table(count: int, free: int, dtype) -> np.ndarray:
    """Zeros, a power of 2 of at least ``free`` times ``count``."""
    return np.zeros(1 << max(free * count, 1).bit_length(), dtype)


def form_tables(characters: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The hash table of forms, int32, and the words of the longest form by its first word, uint8; powers of 2.

    Shapes: characters uint32 [n], offsets int64 [F+1].
    """
    forms = len(offsets) - 1
    slots, reach = _table(forms, 2, np.int32), _table(forms, 4, np.uint8)
    _fill_forms(characters, offsets, slots, reach)
    return slots, reach


def gram_table(keys: np.ndarray) -> np.ndarray:
    """The hash table of trigrams, int32 [a power of 2]. Shapes: keys uint64 [U]."""
    slots = _table(len(keys), 2, np.int32)
    _fill_grams(keys, slots)
    return slots
