"""Compiled loops of the annotator (numba; compiled on first use and kept on disk).

Import this module only where texts are annotated: numba takes half a second to load.

Which forms are similar to an n-gram is found as in all-pairs similarity search (Bayardo et al., WWW 2007; Xiao et al.,
PPJoin, WWW 2008), which gives exactly the forms that a comparison with all of them would give. For a Jaccard similarity
of t between an n-gram of n distinct trigrams and a form of s:

* s is between t n and n / t: *the length filter*;
* they share at least o = t / (1 + t) (n + s) trigrams;
* so, with trigrams in one global order, the first n - ceil(t n) + 1 of the n-gram and the first s - ceil(t s) + 1 of
  the form have one in common: *the prefix filter*. Rare trigrams come first, so few forms are looked at;
* the first common trigram, at places p and q, leaves at most min(n - p, s - q) in common: *the position filter*;
* every trigram has one of 64 bits. Bits that only the n-gram has are trigrams that the form lacks, at least as many,
  and the reverse: *the bit filter*. What passes it is compared trigram by trigram.

Letters in shapes: F forms, U distinct trigrams, W words of all texts of a call, D texts, K candidates of a mention.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rerank_plugin.kernels.compiling import njit
from rerank_plugin.knowledge.term_arrays import (
    CODE_POINT_BITS,
    FNV_START,
    GRAM,
    SPREAD,
    TermArrays,
    continued_hash,
    first_slot,
)

BITS = np.uint64(CODE_POINT_BITS)
ROUNDING = 1e-9  # a count that should be whole is not made one larger by the last digit of a product
LARGEST_SIZE = (1 << 16) - 1  # distinct trigrams of a form that is compared approximately


class Texts(NamedTuple):
    """The words of D texts, one after another."""

    characters: np.ndarray  # code points of the words' forms, each followed by a space, uint32
    words: np.ndarray  # where each form begins, int64 [W+1]
    starts: np.ndarray  # of the words as they are written, in their own text, int64 [W]
    ends: np.ndarray  # likewise
    breaks: np.ndarray  # no mention spans from the word before to this one, uint8 [W]
    bounds: np.ndarray  # an approximate match may begin and end with this word, uint8 [W]
    texts: np.ndarray  # the first word of each text, int64 [D+1]


class Index(NamedTuple):
    """What similar forms are found by, for one threshold."""

    # For each trigram the forms that have it within their prefix: number, size and place in one int64, ascending.
    postings: np.ndarray
    offsets: np.ndarray  # of each trigram's postings, int64 [U+1]
    bits: np.ndarray  # of the trigrams of each form, uint64 [F]
    needed: np.ndarray  # the trigrams that must be shared, by the sum of both sizes, int64
    largest: int  # trigrams of an n-gram that can be similar to any form, at most


class Matches(NamedTuple):
    """The n-grams of one text that match, of any number up to the arrays' length n; they may overlap."""

    first: np.ndarray  # word, int64 [n]
    last: np.ndarray  # word, int64 [n]
    length: np.ndarray  # in characters, int64 [n]
    filled: np.ndarray  # number of candidates, int64 [n]
    concepts: np.ndarray  # candidates, best first, int32 [n, K]
    similarities: np.ndarray  # float64 [n, K]


class Found(NamedTuple):
    """The M mentions of D texts in their order."""

    first: np.ndarray  # word, counted over all texts, int64 [M]
    last: np.ndarray  # likewise
    of_text: np.ndarray  # the first mention of each text, int64 [D+1]
    concepts: np.ndarray  # candidates of all mentions, best first, int32
    similarities: np.ndarray  # of the candidates, float64
    of_mention: np.ndarray  # the first candidate of each mention, int64 [M+1]


class MatchingSettings(NamedTuple):
    """See `annotation.AnnotatorConfig`."""

    candidates: int
    threshold: float
    window: int
    shortest: int
    approximate: bool
    longest_first: bool


@njit(nogil=True, cache=True)
def _key(characters, place, end):
    """The trigram at a place as one number; shorter at the end."""
    key = np.uint64(0)
    for i in range(GRAM):
        character = np.uint64(characters[place + i]) if place + i < end else np.uint64(0)
        key = (key << BITS) | character
    return key


@njit(nogil=True, cache=True)
def _least(share, count):
    """share * count, rounded up."""
    return np.int64(np.ceil(share * count - ROUNDING))


@njit(nogil=True, cache=True)
def _bit(gram):
    return np.uint64(1) << ((np.uint64(gram) * SPREAD) >> np.uint64(58))


@njit(nogil=True, cache=True)
def _ones(bits):
    """The number of set bits; compilers turn this sum into one instruction."""
    bits = bits - ((bits >> np.uint64(1)) & np.uint64(0x5555555555555555))
    bits = (bits & np.uint64(0x3333333333333333)) + ((bits >> np.uint64(2)) & np.uint64(0x3333333333333333))
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((bits * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(nogil=True, cache=True)
def _prefix(size, threshold):
    """How many of a form's first trigrams are in the postings."""
    return size - _least(threshold, size) + 1 if size <= LARGEST_SIZE else 0


@njit(nogil=True, cache=True)
def _postings(grams, gram_offsets, gram_count, threshold):
    """Index's postings, offsets and bits."""
    forms = len(gram_offsets) - 1
    offsets = np.zeros(gram_count + 1, np.int64)
    for form in range(forms):
        start, size = gram_offsets[form], gram_offsets[form + 1] - gram_offsets[form]
        for place in range(_prefix(size, threshold)):
            offsets[grams[start + place] + 1] += 1
    offsets = np.cumsum(offsets)
    ends, postings, bits = offsets[:-1].copy(), np.empty(offsets[-1], np.int64), np.zeros(forms, np.uint64)
    for form in range(forms):
        start, size = gram_offsets[form], gram_offsets[form + 1] - gram_offsets[form]
        for place in range(size):
            bits[form] |= _bit(grams[start + place])
        for place in range(_prefix(size, threshold)):
            gram = grams[start + place]
            postings[ends[gram]] = (form << 32) | (size << 16) | place
            ends[gram] += 1
    return postings, offsets, bits


def index(terms: TermArrays, threshold: float) -> Index:
    """The index of the forms for a threshold; not stored, since building it takes a fraction of a second for MeSH."""
    most = min(len(terms.first_of_size) - 2, LARGEST_SIZE)
    largest = int(most / threshold + ROUNDING)
    needed = np.ceil(threshold / (1 + threshold) * np.arange(most + largest + 1) - ROUNDING).astype(np.int64)
    return Index(*_postings(terms.grams, terms.gram_offsets, len(terms.gram_keys), threshold), needed, largest)


@njit(nogil=True, cache=True)
def _number_grams(characters, terms):
    """The number of the trigram that begins at each place, int64 [n]; negative for a trigram that no form has."""
    numbers = np.empty(len(characters), np.int64)
    for place in range(len(characters)):
        key = _key(characters, place, len(characters))
        slot = first_slot(key, terms.gram_slots)
        number = -1 - np.int64(key)
        while terms.gram_slots[slot]:
            gram = terms.gram_slots[slot] - 1
            if terms.gram_keys[gram] == key:
                number = np.int64(gram)
                break
            slot = (slot + 1) & (len(terms.gram_slots) - 1)
        numbers[place] = number
    return numbers


@njit(nogil=True, cache=True)
def _equal_form(characters, start, end, hashed, terms):
    """The form that is equal to characters start..end; -1 if there is none."""
    slot = first_slot(hashed, terms.form_slots)
    while terms.form_slots[slot]:
        form = terms.form_slots[slot] - 1
        first = terms.character_offsets[form]
        if terms.character_offsets[form + 1] - first == end - start:
            same = 0
            while same < end - start and terms.characters[first + same] == characters[start + same]:
                same += 1
            if same == end - start:
                return np.int64(form)
        slot = (slot + 1) & (len(terms.form_slots) - 1)
    return np.int64(-1)


@njit(nogil=True, cache=True)
def _add_gram(grams, count, gram):
    """Insert into the first ``count`` ascending distinct numbers; returns the new count."""
    place = count
    while place > 0 and grams[place - 1] > gram:
        place -= 1
    if place > 0 and grams[place - 1] == gram:
        return count
    for i in range(count, place, -1):
        grams[i] = grams[i - 1]
    grams[place] = gram
    return count + 1


@njit(nogil=True, cache=True)
def _offer(concept, similarity, matches, match):
    """Enter a concept among the candidates of a match: the most similar first, then by row, each once."""
    rows, values, count, most = (
        matches.concepts[match], matches.similarities[match], matches.filled[match], matches.concepts.shape[1],
    )  # fmt: skip
    for i in range(count):
        if rows[i] == concept:
            if values[i] >= similarity:
                return
            for k in range(i, count - 1):
                rows[k], values[k] = rows[k + 1], values[k + 1]
            count -= 1
            break
    place = count
    while place > 0 and (
        values[place - 1] < similarity or (values[place - 1] == similarity and rows[place - 1] > concept)
    ):
        place -= 1
    if place < most:
        for k in range(min(count, most - 1), place, -1):
            rows[k], values[k] = rows[k - 1], values[k - 1]
        rows[place], values[place] = concept, similarity
        count = min(count + 1, most)
    matches.filled[match] = count


@njit(nogil=True, cache=True)
def _offer_form(form, similarity, terms, matches, match):
    for i in range(terms.concept_offsets[form], terms.concept_offsets[form + 1]):
        _offer(terms.concepts[i], similarity, matches, match)


@njit(nogil=True, cache=True)
def _common(grams, place, count, others, other, end, needed):
    """The number of common elements of grams[place:count] and others[other:end], both ascending.

    It stops early, with a smaller number, once ``needed`` cannot be reached.
    """
    common = 0
    while place < count and other < end:
        if common + min(count - place, end - other) < needed:
            return common
        mine, theirs = grams[place], np.int64(others[other])
        if mine == theirs:
            common += 1
        place += mine <= theirs
        other += theirs <= mine
    return common


@njit(nogil=True, cache=True)
def _offer_similar(grams, count, bits, terms, index, threshold, seen, stamp, matches, match):
    """Enter the concepts of all forms whose similarity to an n-gram is not below the threshold.

    Args:
        grams: the n-gram's distinct trigrams, ascending, int64 [count or more]; ``bits`` are theirs.
        seen: int64 [F]; forms that were compared get ``stamp``, which no earlier n-gram had.
    """
    sizes = len(terms.first_of_size) - 1
    smallest, largest = _least(threshold, count), min(np.int64(count / threshold + ROUNDING), sizes - 1)
    if largest < smallest:
        return
    low, high = terms.first_of_size[smallest] << 32, terms.first_of_size[largest + 1] << 32
    for place in range(count - smallest + 1):
        gram = grams[place]
        if gram < 0:
            continue
        postings = index.postings[index.offsets[gram] : index.offsets[gram + 1]]
        for posting in postings[np.searchsorted(postings, low) :]:
            if posting >= high:
                break
            form, size, other = posting >> 32, (posting >> 16) & 0xFFFF, posting & 0xFFFF
            needed = index.needed[count + size]
            if min(count - place, size - other) < needed:
                continue
            theirs = index.bits[form]
            if count - _ones(bits & ~theirs) < needed or size - _ones(theirs & ~bits) < needed or seen[form] == stamp:
                continue
            seen[form] = stamp
            start, stop = terms.gram_offsets[form], terms.gram_offsets[form + 1]
            common = 1 + _common(grams, place + 1, count, terms.grams, start + other + 1, stop, needed - 1)
            similarity = common / (count + size - common)
            if similarity >= threshold:
                _offer_form(form, similarity, terms, matches, match)


@njit(nogil=True, cache=True)
def _grown(array, count):
    """A longer copy of an array, with room for at least ``count`` entries."""
    longer = np.empty((2 * count,) + array.shape[1:], array.dtype)
    longer[: len(array)] = array
    return longer


@njit(nogil=True, cache=True)
def _with_room(matches, count):
    """The matches, with room for ``count``."""
    if count <= len(matches.first):
        return matches
    return Matches(
        _grown(matches.first, count),
        _grown(matches.last, count),
        _grown(matches.length, count),
        _grown(matches.filled, count),
        _grown(matches.concepts, count),
        _grown(matches.similarities, count),
    )


@njit(nogil=True, cache=True)
def _match_from(i, stop, texts, numbers, terms, index, settings, grams, seen, matches, matched):
    """Enter the n-grams that begin with word i and match, of the words before ``stop``.

    Args:
        numbers: of the trigrams of all texts. grams: int64 [index.largest + 2], any content.
        seen: int64 [F + 1]; the last entry counts n-grams.

    Returns:
        (matches, perhaps longer ones; how many are filled)
    """
    start = texts.words[i]
    bounded = texts.bounds[i] > 0
    hashed = continued_hash(texts.characters, start, texts.words[i + 1] - 1, FNV_START)
    reach = np.int64(terms.reach[first_slot(hashed, terms.reach)])
    window = settings.window if settings.approximate and bounded else 0
    count, bits, done = 0, np.uint64(0), start
    for j in range(i, min(i + max(reach, window), stop)):
        if j > i and texts.breaks[j]:
            break
        end = texts.words[j + 1] - 1
        if j > i:
            hashed = continued_hash(texts.characters, texts.words[j] - 1, end, hashed)
        similar = j - i < window
        while similar and done < end - GRAM + 1 and count <= index.largest:
            count = _add_gram(grams, count, numbers[done])
            bits |= _bit(numbers[done])
            done += 1
        similar = similar and 0 < count <= index.largest and texts.bounds[j] > 0
        length = texts.ends[j] - texts.starts[i]
        if length < settings.shortest or (j == i and not bounded):
            continue
        matches = _with_room(matches, matched + 1)
        matches.filled[matched] = 0
        if j - i < reach:
            equal = _equal_form(texts.characters, start, end, hashed, terms)
            if equal >= 0:
                _offer_form(equal, 1.0, terms, matches, matched)
        if similar:
            seen[-1] += 1
            _offer_similar(
                grams, count, bits, terms, index, settings.threshold, seen, seen[-1], matches, matched
            )  # fmt: skip
        if matches.filled[matched]:
            matches.first[matched], matches.last[matched], matches.length[matched] = i, j, length
            matched += 1
    return matches, matched


@njit(nogil=True, cache=True)
def _before(matches, one, other, longest_first):
    """Whether a match is preferred to another that overlaps with it."""
    better = matches.similarities[one, 0] - matches.similarities[other, 0]
    longer = matches.length[one] - matches.length[other]
    if longest_first and longer != 0:
        return longer > 0
    if better != 0.0:
        return better > 0.0
    return one < other if longer == 0 else longer > 0


@njit(nogil=True, cache=True)
def _best_first(matches, matched, longest_first):
    """The matches in the order of :func:`_before`, int64 [matched]; a shell sort, since it compiles fast."""
    order = np.arange(matched)
    gap = matched // 2
    while gap > 0:
        for i in range(gap, matched):
            one, place = order[i], i
            while place >= gap and _before(matches, one, order[place - gap], longest_first):
                order[place] = order[place - gap]
                place -= gap
            order[place] = one
        gap = 1 if gap == 2 else gap * 5 // 11
    return order


@njit(nogil=True, cache=True)
def _kept(matches, matched, words, longest_first):
    """Whether each match is kept, bool [matched]: best first, each unless it overlaps with a kept match.

    Args:
        words: the first word of the text and the one after its last.
    """
    kept, taken = np.zeros(matched, np.bool_), np.zeros(words[1] - words[0], np.bool_)
    for match in _best_first(matches, matched, longest_first):
        first, last = matches.first[match] - words[0], matches.last[match] - words[0]
        free = True
        for word in range(first, last + 1):
            free = free and not taken[word]
        if free:
            taken[first : last + 1] = True
            kept[match] = True
    return kept


@njit(nogil=True, cache=True)
def find_mentions(texts, terms, index, settings):
    """The mentions of all texts: n-grams with an equal or similar form, of overlapping ones the best, as Found.

    ``terms`` are TermArrays, and ``index`` that of the same threshold as in ``settings``.
    """
    numbers = _number_grams(texts.characters, terms)
    grams = np.empty(index.largest + 2, np.int64)
    seen = np.zeros(len(index.bits) + 1, np.int64)
    most = settings.candidates
    matches = Matches(
        np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64),
        np.empty((64, most), np.int32), np.empty((64, most), np.float64),
    )  # fmt: skip
    first, last, of_mention = np.empty(256, np.int64), np.empty(256, np.int64), np.zeros(257, np.int64)
    concepts, similarities = np.empty(1024, np.int32), np.empty(1024, np.float64)
    of_text = np.zeros(len(texts.texts), np.int64)
    mentions = entries = 0
    for text in range(len(texts.texts) - 1):
        matched, stop = 0, texts.texts[text + 1]
        for i in range(texts.texts[text], stop):
            matches, matched = _match_from(
                i, stop, texts, numbers, terms, index, settings, grams, seen, matches, matched
            )  # fmt: skip
        kept = _kept(matches, matched, texts.texts[text : text + 2], settings.longest_first)
        for match in range(matched):  # by first word: in text order, as those that are kept do not overlap
            if not kept[match]:
                continue
            if mentions + 1 >= len(first):
                first, last, of_mention = _grown(first, mentions), _grown(last, mentions), _grown(of_mention, mentions)
            if entries + most > len(concepts):
                concepts, similarities = _grown(concepts, entries + most), _grown(similarities, entries + most)
            first[mentions], last[mentions] = matches.first[match], matches.last[match]
            filled = matches.filled[match]
            concepts[entries : entries + filled] = matches.concepts[match, :filled]
            similarities[entries : entries + filled] = matches.similarities[match, :filled]
            entries += filled
            mentions += 1
            of_mention[mentions] = entries
        of_text[text + 1] = mentions
    return Found(
        first[:mentions].copy(), last[:mentions].copy(), of_text,
        concepts[:entries].copy(), similarities[:entries].copy(), of_mention[: mentions + 1].copy(),
    )  # fmt: skip
