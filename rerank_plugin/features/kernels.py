"""Compiled loops over the words of candidates (numba; compiled on first use and kept on disk).

Import this module only where candidates are scored: numba takes half a second to load.
"""

from __future__ import annotations

import numpy as np
from numba import njit

REASSOCIATE = {"reassoc", "contract", "nsz"}  # sums may be split over vector lanes; NaN and infinity keep their meaning


def plain(array: np.ndarray) -> np.ndarray:
    """A memory map as the plain array that numba knows; nothing is copied."""
    return array.view(np.ndarray)


@njit(nogil=True, cache=True)
def distinct_words(tokens, starts, lengths, marks, places, terms):
    """Number the distinct words of the candidates.

    Args:
        tokens: uint32 [T], the index's. starts: int64 [C]. lengths: int32 [C], words of each candidate to look at.
        marks: int32 [V], zeros on entry and on return.
        places: int32 [C, N], filled with the number of each word. terms: int32 [U or more], filled with the words.

    Returns:
        U, the number of distinct words.
    """
    found = 0
    for candidate in range(len(starts)):
        start = starts[candidate]
        for position in range(lengths[candidate]):
            term = tokens[start + position]
            mark = marks[term]
            if mark == 0:
                terms[found] = term
                found += 1
                mark = found
                marks[term] = mark
            places[candidate, position] = mark - 1
    for place in range(found):
        marks[terms[place]] = 0
    return found


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def similarities(vectors, ids, terms, query_ids, query_terms, table, start, stop):
    """Rows start..stop of a similarity table.

    Args:
        vectors: unit vectors, float32 [V, D]. ids: int32 [U]. terms: int32 [U].
        query_ids: int32 [m]. query_terms: int32 [m], -1 for a word that no document holds.
        table: float32 [U, m], to be filled.
    """
    dimension = vectors.shape[1]
    for word in range(start, stop):
        row = vectors[ids[word]]
        for column in range(len(query_ids)):
            if terms[word] == query_terms[column]:
                table[word, column] = 1.0
            elif ids[word] == 0 or query_ids[column] == 0:
                table[word, column] = 0.0
            else:
                other = vectors[query_ids[column]]
                total = np.float32(0.0)
                for i in range(dimension):
                    total += row[i] * other[i]
                table[word, column] = total
