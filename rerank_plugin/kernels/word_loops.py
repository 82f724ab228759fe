"""Compiled loops over the words of candidates (numba; compiled on first use and kept on disk).

Import this module only where candidates are scored: numba takes half a second to load.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.compiling import njit
from rerank_plugin.kernels.intrinsics import AHEAD, prefetch_row, prefetch_run


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
        if candidate + AHEAD < len(starts):
            prefetch_run(tokens, starts[candidate + AHEAD], lengths[candidate + AHEAD])
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
    dimension, last = vectors.shape[1], len(query_ids) - 1
    for word in range(start, stop):
        if word + AHEAD < stop:
            prefetch_row(vectors, ids[word + AHEAD])
        row = vectors[ids[word]]
        for column in range(0, last + 1, 4):  # four at once, as reading takes longer than multiplying
            one, two = vectors[query_ids[column]], vectors[query_ids[min(column + 1, last)]]
            three, four = vectors[query_ids[min(column + 2, last)]], vectors[query_ids[min(column + 3, last)]]
            first = second = third = fourth = np.float32(0.0)
            for i in range(dimension):
                first += row[i] * one[i]
                second += row[i] * two[i]
                third += row[i] * three[i]
                fourth += row[i] * four[i]
            table[word, min(column + 3, last)] = fourth
            table[word, min(column + 2, last)] = third
            table[word, min(column + 1, last)] = second
            table[word, column] = first
        for column in range(last + 1):
            if terms[word] == query_terms[column]:
                table[word, column] = 1.0
            elif ids[word] == 0 or query_ids[column] == 0:
                table[word, column] = 0.0


SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: the high bits of its multiples are spread evenly
MOST = 2**64 - 1
SMALLEST_TABLE = 10  # bits: of 100 words that are not in a query of 10 one needs a second look
ONE = np.uint64(1)  # numba checks indices of signed type for being negative, once a word of every candidate


class WordTable(NamedTuple):
    """A hash table of words. It is small enough for the first-level cache, whatever the size of the vocabulary."""

    ids: np.ndarray  # distinct term ids, int64 [m]; those below 0 are not found
    slots: np.ndarray  # int32 [a power of 2], 0 or 1 + place in ``ids``; linear probing
    shift: np.uint64  # the right shift of a hash that leaves its slot


def word_table(ids: np.ndarray) -> WordTable:
    """The table of distinct term ids, int64 [m]. Python fills it: a query's few words are not worth a kernel."""
    bits = max(SMALLEST_TABLE, (16 * len(ids)).bit_length())
    slots, shift, last = np.zeros(1 << bits, np.int32), 64 - bits, (1 << bits) - 1
    for place, word in enumerate(ids.tolist()):
        if word >= 0:
            slot = (word * int(SPREAD) & MOST) >> shift
            while slots[slot]:
                slot = (slot + 1) & last
            slots[slot] = place + 1
    return WordTable(ids, slots, np.uint64(shift))


@njit(nogil=True, inline="always")
def _find(word, table):
    """Place of a word in ``table.ids``; -1 for one that is not there."""
    slot = (np.uint64(word) * SPREAD) >> table.shift
    while table.slots[slot]:
        place = table.slots[slot] - 1
        if table.ids[place] == word:
            return place
        slot = (slot + ONE) & np.uint64(len(table.slots) - 1)
    return -1


def match_words(tokens, starts, lengths, title_lengths, table, bigrams, counts, bigrams_found):
    """Count a query's words and bigrams in the candidates.

    Args:
        tokens: uint32 [T], the index's. starts, lengths, title_lengths: int64 [C].
        table: of the distinct words of the query.
        bigrams: distinct pairs of places in the table, int64 [b, 2], sorted.
        counts: int32 [C, 2, m] of zeros; occurrences of each word in title and abstract are added.
        bigrams_found: int32 [C, 3] of zeros; distinct bigrams in title, abstract and text are added.
    """
    first_of = np.searchsorted(bigrams[:, 0], np.arange(len(table.ids) + 1))  # the bigrams that begin with each word
    last_seen = np.full((3, len(bigrams)), -1)  # the candidate in whose title, abstract, text a bigram was last
    given = tokens, starts, lengths, title_lengths
    _match_words(*given, table, bigrams, first_of, last_seen, counts, bigrams_found)


@njit(nogil=True, cache=True)
def _match_words(tokens, starts, lengths, title_lengths, table, bigrams, first_of, last_seen, counts, bigrams_found):
    for candidate in range(len(starts)):
        if candidate + AHEAD < len(starts):
            prefetch_run(tokens, starts[candidate + AHEAD], lengths[candidate + AHEAD])
        words = tokens[starts[candidate] : starts[candidate] + lengths[candidate]]
        border = title_lengths[candidate]
        before = -1
        for position in range(np.uint64(len(words))):
            place = _find(words[position], table)
            if place >= 0:
                here = np.int64(position)
                counts[candidate, 0 if here < border else 1, place] += 1
                if before >= 0:
                    for bigram in range(first_of[before], first_of[before + 1]):
                        if bigrams[bigram, 1] == place:
                            _see(2, bigram, candidate, last_seen, bigrams_found)
                            if here != border:  # across the border it is in neither title nor abstract
                                _see(0 if here < border else 1, bigram, candidate, last_seen, bigrams_found)
            before = place


@njit(nogil=True, inline="always")
def _see(field, bigram, candidate, last_seen, bigrams_found):
    """Count a bigram at most once per candidate and field."""
    if last_seen[field, bigram] != candidate:
        last_seen[field, bigram] = candidate
        bigrams_found[candidate, field] += 1


@njit(nogil=True, cache=True)
def distinct_weights(tokens, starts, lengths, weights, marks):
    """The sum of the weights of the distinct words of each candidate, float64 [C].

    Args:
        tokens: uint32 [T], the index's. starts, lengths: int64 [C], of the words to look at.
        weights: float64 [V], of each term. marks: int32 [V] of zeros, which is changed.
    """
    sums = np.zeros(len(starts))
    for candidate in range(len(starts)):
        if candidate + AHEAD < len(starts):
            prefetch_run(tokens, starts[candidate + AHEAD], lengths[candidate + AHEAD])
        for word in tokens[starts[candidate] : starts[candidate] + lengths[candidate]]:
            sums[candidate] += weights[word] * (marks[word] != candidate + 1)  # a branch would be guessed wrong often
            marks[word] = candidate + 1
    return sums


@njit(nogil=True, cache=True)
def common_words(counts, first, last, weights):
    """The query words that parts first..last of each candidate hold.

    Args:
        counts: int32 [C, parts, m]. weights: float64 [m].

    Returns:
        (how many, the sum of their weights), float64 [C] each.
    """
    found, mass = np.zeros(len(counts)), np.zeros(len(counts))
    for candidate in range(len(counts)):
        for word in range(len(weights)):
            if _count(counts, candidate, first, last, word):
                found[candidate] += 1
                mass[candidate] += weights[word]
    return found, mass


@njit(nogil=True, cache=True)
def saturated_counts(counts, first, last, norms, weights, k1):
    """Okapi's sum of weight * tf (k1 + 1) / (tf + norm) over the query words in parts first..last, float64 [C].

    Args:
        counts: int32 [C, parts, m]. norms: float64 [C]. weights: float64 [m].
    """
    sums = np.zeros(len(counts))
    for candidate in range(len(counts)):
        for word in range(len(weights)):
            count = _count(counts, candidate, first, last, word)
            if count:
                sums[candidate] += count * (k1 + 1) / (count + norms[candidate]) * weights[word]
    return sums


@njit(nogil=True, inline="always")
def _count(counts, candidate, first, last, word):
    """Occurrences of a query word in parts first..last of a candidate."""
    total = 0
    for part in range(first, last):
        total += counts[candidate, part, word]
    return total


@njit(nogil=True, cache=True)
def distinct_in_fields(tokens, offsets, title_lengths, words):
    """The number of distinct words of each document's title, abstract and whole text, float64 [3, R].

    Args:
        tokens: uint32 [T]. offsets: int64 [R + 1]. title_lengths: uint32 [R]. words: V.
    """
    counts = np.zeros((3, len(title_lengths)))
    seen = np.zeros((3, words), np.int32)  # 1 + the last document that has the word in the field
    for document in range(len(title_lengths)):
        for place in range(offsets[document], offsets[document + 1]):
            word = tokens[place]
            field = 0 if place - offsets[document] < title_lengths[document] else 1
            for part in (field, 2):
                if seen[part, word] != document + 1:
                    seen[part, word] = document + 1
                    counts[part, document] += 1
    return counts
