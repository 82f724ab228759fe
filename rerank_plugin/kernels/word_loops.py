"""Compiled loops over the words of candidates (numba; compiled on first use and cached on disk).

Import this module only where candidates are scored: importing numba takes half a second.
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
        tokens: uint32 [T], of the index. starts: int64 [C]. lengths: int32 [C], the number of words to read.
        marks: int32 [V], zeros on entry and on return.
        places: int32 [C, N], filled with the number of each word. terms: int32 [U or more], filled with the words.

    Returns:
        U, the number of distinct words.
    """
    count = 0
    for candidate in range(len(starts)):
        if candidate + AHEAD < len(starts):
            prefetch_run(tokens, starts[candidate + AHEAD], lengths[candidate + AHEAD])
        start = starts[candidate]
        for position in range(lengths[candidate]):
            term = tokens[start + position]
            mark = marks[term]
            if mark == 0:
                terms[count] = term
                count += 1
                mark = count
                marks[term] = mark
            places[candidate, position] = mark - 1
    for number in range(count):
        marks[terms[number]] = 0
    return count


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def squares(numbers, dimension, sums):
    """The sum of the squares of each row's first ``dimension`` numbers, into ``sums``, float64 [V]."""
    for row in range(len(numbers)):
        total = 0.0
        for i in range(dimension):
            number = np.float64(numbers[row, i])
            total += number * number
        sums[row] = total


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def inner_products(numbers, ids, queries, products, start, stop):
    """The products of words start..stop and the query's, into ``products`` [U, m], whose type the sums have.

    Args:
        numbers: int8 or float32 [V, at least D]. ids: int32 [U].
        queries: int16, for exact sums in int32, or float32 [m, D].
    """
    kind, last = products.dtype.type, len(queries) - 1
    for word in range(start, stop):
        if word + AHEAD < stop:
            prefetch_row(numbers, ids[word + AHEAD])
        row = numbers[ids[word]]
        for column in range(0, last + 1, 4):  # four at once, as reading takes longer than multiplying
            query_0, query_1 = queries[column], queries[min(column + 1, last)]
            query_2, query_3 = queries[min(column + 2, last)], queries[min(column + 3, last)]
            sum_0 = sum_1 = sum_2 = sum_3 = kind(0)
            for i in range(queries.shape[1]):
                number = kind(row[i])
                sum_0 = kind(sum_0 + number * kind(query_0[i]))
                sum_1 = kind(sum_1 + number * kind(query_1[i]))
                sum_2 = kind(sum_2 + number * kind(query_2[i]))
                sum_3 = kind(sum_3 + number * kind(query_3[i]))
            products[word, min(column + 3, last)] = sum_3
            products[word, min(column + 2, last)] = sum_2
            products[word, min(column + 1, last)] = sum_1
            products[word, column] = sum_0


@njit(nogil=True, cache=True)
def similarities(numbers, factors, ids, terms, queries, query_factors, query_terms, products, table, start, stop):
    """Rows start..stop of a similarity table.

    Args:
        numbers, ids, queries, products: as those of :func:`inner_products`; the products are overwritten.
        factors: of each vector, float32 [V]: times the numbers they make a unit vector. query_factors: float32 [m].
        terms: int32 [U]. query_terms: int32 [m], -1 for a word of no document.
        table: float32 [U, m], to be filled.
    """
    inner_products(numbers, ids, queries, products, start, stop)
    for word in range(start, stop):
        factor = factors[ids[word]]
        for column in range(len(query_terms)):
            table[word, column] = np.float32(products[word, column]) * factor * query_factors[column]
        for column in range(len(query_terms)):
            if terms[word] == query_terms[column]:
                table[word, column] = 1.0


SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: the high bits of its multiples are spread evenly
MASK_64 = 2**64 - 1
SMALLEST_TABLE = 10  # bits: for a query of 10 words, 1 in 100 other words needs a second probe
ONE = np.uint64(1)  # unsigned: numba checks every signed index for negative values


class WordTable(NamedTuple):
    """A hash table of a query's words, small enough for the first-level cache, whatever the size of the vocabulary."""

    ids: np.ndarray  # distinct term ids, int64 [m]; negative ones are never found
    slots: np.ndarray  # int32 [a power of 2], 0 or 1 + position in ``ids``; linear probing
    shift: np.uint64  # slot = hash >> shift


def word_table(ids: np.ndarray) -> WordTable:
    """The table of distinct term ids, int64 [m]. Filled in Python: a query's few words are not worth a kernel."""
    bits = max(SMALLEST_TABLE, (16 * len(ids)).bit_length())
    slots, shift, last = np.zeros(1 << bits, np.int32), 64 - bits, (1 << bits) - 1
    for position, word in enumerate(ids.tolist()):
        if word >= 0:
            slot = (word * int(SPREAD) & MASK_64) >> shift
            while slots[slot]:
                slot = (slot + 1) & last
            slots[slot] = position + 1
    return WordTable(ids, slots, np.uint64(shift))


@njit(nogil=True, inline="always")
def _find(word, table):
    """Position of a word in ``table.ids``; -1 for a word that is not in the table."""
    slot = (np.uint64(word) * SPREAD) >> table.shift
    while table.slots[slot]:
        position = table.slots[slot] - 1
        if table.ids[position] == word:
            return position
        slot = (slot + ONE) & np.uint64(len(table.slots) - 1)
    return -1


def match_words(tokens, starts, lengths, title_lengths, table, bigrams, counts, bigrams_found):
    """Count a query's words and bigrams in the candidates.

    Args:
        tokens: uint32 [T], of the index. starts, lengths, title_lengths: int64 [C].
        table: of the distinct words of the query.
        bigrams: distinct pairs of positions in the table, int64 [b, 2], sorted.
        counts: int32 [C, 2, m] of zeros; occurrences of each word in title and abstract are added.
        bigrams_found: int32 [C, 3] of zeros; distinct bigrams in title, abstract and text are added.
    """
    offsets = np.searchsorted(bigrams[:, 0], np.arange(len(table.ids) + 1))  # of the bigrams that begin with each word
    last_seen = np.full((3, len(bigrams)), -1)  # the last candidate with a bigram in its title, abstract, text
    texts = tokens, starts, lengths, title_lengths
    _match_words(*texts, table, bigrams, offsets, last_seen, counts, bigrams_found)


@njit(nogil=True, cache=True)
def _match_words(tokens, starts, lengths, title_lengths, table, bigrams, offsets, last_seen, counts, bigrams_found):
    for candidate in range(len(starts)):
        if candidate + AHEAD < len(starts):
            prefetch_run(tokens, starts[candidate + AHEAD], lengths[candidate + AHEAD])
        words = tokens[starts[candidate] : starts[candidate] + lengths[candidate]]
        border = title_lengths[candidate]
        previous = -1
        for index in range(np.uint64(len(words))):
            word = _find(words[index], table)
            if word >= 0:
                position = np.int64(index)
                counts[candidate, 0 if position < border else 1, word] += 1
                if previous >= 0:
                    for bigram in range(offsets[previous], offsets[previous + 1]):
                        if bigrams[bigram, 1] == word:
                            _count_once(2, bigram, candidate, last_seen, bigrams_found)
                            if position != border:  # a bigram across the border is in neither title nor abstract
                                field = 0 if position < border else 1
                                _count_once(field, bigram, candidate, last_seen, bigrams_found)
            previous = word


@njit(nogil=True, inline="always")
def _count_once(field, bigram, candidate, last_seen, bigrams_found):
    """Count a bigram at most once per candidate and field."""
    if last_seen[field, bigram] != candidate:
        last_seen[field, bigram] = candidate
        bigrams_found[candidate, field] += 1


@njit(nogil=True, cache=True)
def distinct_weights(tokens, starts, lengths, weights, marks):
    """The sum of the weights of the distinct words of each candidate, float64 [C].

    Args:
        tokens: uint32 [T], of the index. starts, lengths: int64 [C], of the words to read.
        weights: float64 [V], of each term. marks: int32 [V] of zeros, overwritten.
    """
    sums = np.zeros(len(starts))
    for candidate in range(len(starts)):
        if candidate + AHEAD < len(starts):
            prefetch_run(tokens, starts[candidate + AHEAD], lengths[candidate + AHEAD])
        for word in tokens[starts[candidate] : starts[candidate] + lengths[candidate]]:
            sums[candidate] += weights[word] * (marks[word] != candidate + 1)  # a branch would be mispredicted often
            marks[word] = candidate + 1
    return sums


@njit(nogil=True, cache=True)
def common_words(counts, first, last, weights):
    """The query words that parts first..last of each candidate hold.

    Args:
        counts: int32 [C, parts, m]. weights: float64 [m].

    Returns:
        their number and the sum of their weights, float64 [C] each.
    """
    numbers, mass = np.zeros(len(counts)), np.zeros(len(counts))
    for candidate in range(len(counts)):
        for word in range(len(weights)):
            if _count(counts, candidate, first, last, word):
                numbers[candidate] += 1
                mass[candidate] += weights[word]
    return numbers, mass


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
        for position in range(offsets[document], offsets[document + 1]):
            word = tokens[position]
            field = 0 if position - offsets[document] < title_lengths[document] else 1
            for part in (field, 2):
                if seen[part, word] != document + 1:
                    seen[part, word] = document + 1
                    counts[part, document] += 1
    return counts


@njit(nogil=True, cache=True)
def copy_words(tokens, starts, lengths, numbers, target, places):
    """Copy the words of documents, with the numbers that they have in another vocabulary.

    Args:
        tokens: uint32 [T]. starts, lengths: of each document, int64 [n].
        numbers: of terms in the other vocabulary, uint32 [V]; empty if they are the same.
        target: uint32, filled from ``places`` int64 [n] on.
    """
    for document in range(len(starts)):
        start, place = starts[document], places[document]
        if document + AHEAD < len(starts):
            prefetch_run(tokens, starts[document + AHEAD], lengths[document + AHEAD])
        for position in range(lengths[document]):
            term = tokens[start + position]
            target[place + position] = numbers[term] if len(numbers) else term
