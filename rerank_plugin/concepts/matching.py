"""Compiled loops of the annotator (numba; compiled on first use and cached on disk).

Import this module lazily: numba takes half a second to load.

The search for forms similar to an n-gram is an all-pairs similarity search (Bayardo et al., WWW 2007; Xiao et al.,
PPJoin, WWW 2008), with the same result as a comparison with all forms. For a Jaccard similarity of at least t between
an n-gram of n distinct trigrams and a form of s distinct trigrams:

* s is between t n and n / t: *the length filter*;
* they share at least o = t / (1 + t) (n + s) trigrams;
* so, with trigrams in a global order, the first n - ceil(t n) + 1 trigrams of the n-gram and the first
  s - ceil(t s) + 1 of the form have a common trigram: *the prefix filter*. Rare trigrams come first, so few forms are
  candidates;
* if the first common trigram has positions p and q, at most min(n - p, s - q) are common: *the position filter*;
* every trigram has one of 64 bits. Each bit of the n-gram alone stands for at least one trigram that the form lacks,
  and the reverse: *the bit filter*. The remaining forms are compared trigram by trigram.

Letters in shapes: F forms, U distinct trigrams, W words of all texts of a call, D texts, K candidates of a mention.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rerank_plugin.concepts.term_arrays import (
    CODE_POINT_BITS,
    FNV_START,
    GRAM,
    SPREAD,
    TermArrays,
    continued_hash,
    first_slot,
)
from rerank_plugin.kernels.compiling import njit

BITS = np.uint64(CODE_POINT_BITS)
ROUNDING = 1e-9  # keeps rounding errors of a product from increasing a count by one
LARGEST_SIZE = (1 << 16) - 1  # distinct trigrams of a form that is compared approximately


class TextBatch(NamedTuple):
    """The words of D texts, one after another."""

    characters: np.ndarray  # code points of the words' forms, each followed by a space, uint32
    word_offsets: np.ndarray  # the first character of each word's form, int64 [W+1]
    starts: np.ndarray  # starts of the words as written, in their own text, int64 [W]
    ends: np.ndarray  # ends of the words as written, int64 [W]
    breaks: np.ndarray  # whether no mention spans the previous word and this word, uint8 [W]
    bounds: np.ndarray  # whether an approximate match may begin and end with this word, uint8 [W]
    text_offsets: np.ndarray  # the first word of each text, int64 [D+1]


class TrigramIndex(NamedTuple):
    """Inverted index of trigrams for one threshold."""

    # Postings of each trigram: the forms with it in their prefix; number, size and position in an int64, ascending.
    postings: np.ndarray
    offsets: np.ndarray  # the first posting of each trigram, int64 [U+1]
    bits: np.ndarray  # the bits of each form's trigrams, uint64 [F]
    needed: np.ndarray  # the smallest number of common trigrams, by the sum of both sizes, int64
    largest: int  # the largest number of trigrams of an n-gram that can be similar to a form


class NgramMatches(NamedTuple):
    """The matching n-grams of a text, which may overlap; the arrays have space for n."""

    first: np.ndarray  # first word, int64 [n]
    last: np.ndarray  # last word, int64 [n]
    length: np.ndarray  # number of characters, int64 [n]
    counts: np.ndarray  # number of candidates, int64 [n]
    concepts: np.ndarray  # candidates, best first, int32 [n, K]
    similarities: np.ndarray  # similarities of the candidates, float64 [n, K]


class Mentions(NamedTuple):
    """The M mentions of D texts in order."""

    first: np.ndarray  # first word, counted over all texts, int64 [M]
    last: np.ndarray  # last word, likewise, int64 [M]
    text_offsets: np.ndarray  # the first mention of each text, int64 [D+1]
    concepts: np.ndarray  # candidates of all mentions, best first, int32
    similarities: np.ndarray  # similarities of the candidates, float64
    candidate_offsets: np.ndarray  # the first candidate of each mention, int64 [M+1]


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
    """The trigram at a position as a number; shorter at the end."""
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
    """The bit of a trigram."""
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
    """The number of a form's first trigrams that are in the postings."""
    return size - _least(threshold, size) + 1 if size <= LARGEST_SIZE else 0


@njit(nogil=True, cache=True)
def _postings(grams, gram_offsets, gram_count, threshold):
    """The postings, offsets and bits of a `TrigramIndex`."""
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


def build_index(terms: TermArrays, threshold: float) -> TrigramIndex:
    """Build the index of the forms for a threshold; not stored, since it takes a fraction of a second for MeSH."""
    most = min(len(terms.first_of_size) - 2, LARGEST_SIZE)
    largest = int(most / threshold + ROUNDING)
    needed = np.ceil(threshold / (1 + threshold) * np.arange(most + largest + 1) - ROUNDING).astype(np.int64)
    postings, offsets, bits = _postings(terms.grams, terms.gram_offsets, len(terms.gram_keys), threshold)
    return TrigramIndex(postings, offsets, bits, needed, largest)


@njit(nogil=True, cache=True)
def _number_grams(characters, terms):
    """The number of the trigram at each position, int64 [n]; negative for a trigram of no form."""
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
    """The form equal to characters start..end; -1 for none."""
    slot = first_slot(hashed, terms.form_slots)
    while terms.form_slots[slot]:
        form = terms.form_slots[slot] - 1
        first = terms.character_offsets[form]
        if terms.character_offsets[form + 1] - first == end - start:
            equal = 0
            while equal < end - start and terms.characters[first + equal] == characters[start + equal]:
                equal += 1
            if equal == end - start:
                return np.int64(form)
        slot = (slot + 1) & (len(terms.form_slots) - 1)
    return np.int64(-1)


@njit(nogil=True, cache=True)
def _add_gram(grams, count, gram):
    """Insert a trigram into the first ``count`` distinct ascending numbers; returns the new count."""
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
def _add_candidate(concept, similarity, matches, match):
    """Add a concept to the distinct candidates of a match: by decreasing similarity, then by row."""
    rows, similarities, count, most = (
        matches.concepts[match], matches.similarities[match], matches.counts[match], matches.concepts.shape[1],
    )  # fmt: skip
    for i in range(count):
        if rows[i] == concept:
            if similarities[i] >= similarity:
                return
            for k in range(i, count - 1):
                rows[k], similarities[k] = rows[k + 1], similarities[k + 1]
            count -= 1
            break
    place = count
    while place > 0 and (
        similarities[place - 1] < similarity or (similarities[place - 1] == similarity and rows[place - 1] > concept)
    ):
        place -= 1
    if place < most:
        for k in range(min(count, most - 1), place, -1):
            rows[k], similarities[k] = rows[k - 1], similarities[k - 1]
        rows[place], similarities[place] = concept, similarity
        count = min(count + 1, most)
    matches.counts[match] = count


@njit(nogil=True, cache=True)
def _add_form(form, similarity, terms, matches, match):
    """Add the concepts of a form to the candidates of a match."""
    for i in range(terms.concept_offsets[form], terms.concept_offsets[form + 1]):
        _add_candidate(terms.concepts[i], similarity, matches, match)


@njit(nogil=True, cache=True)
def _common(grams, place, count, form_grams, form_place, form_end, needed):
    """The number of common elements of grams[place:count] and form_grams[form_place:form_end], both ascending.

    A smaller number is returned early when ``needed`` cannot be reached.
    """
    common = 0
    while place < count and form_place < form_end:
        if common + min(count - place, form_end - form_place) < needed:
            return common
        gram, form_gram = grams[place], np.int64(form_grams[form_place])
        if gram == form_gram:
            common += 1
        place += gram <= form_gram
        form_place += form_gram <= gram
    return common


@njit(nogil=True, cache=True)
def _add_similar(grams, count, bits, terms, index, threshold, seen, stamp, matches, match):
    """Add the concepts of all forms with at least the threshold's similarity to an n-gram to the candidates.

    Args:
        grams: the n-gram's distinct trigrams, ascending, int64 [count or more], with their ``bits``.
        seen: int64 [F], the stamp of the last n-gram that each form was compared with; ``stamp`` is a new one.
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
            form, size, form_place = posting >> 32, (posting >> 16) & 0xFFFF, posting & 0xFFFF
            needed = index.needed[count + size]
            if min(count - place, size - form_place) < needed:
                continue
            form_bits = index.bits[form]
            if count - _ones(bits & ~form_bits) < needed or size - _ones(form_bits & ~bits) < needed:
                continue
            if seen[form] == stamp:
                continue
            seen[form] = stamp
            start, stop = terms.gram_offsets[form], terms.gram_offsets[form + 1]
            common = 1 + _common(grams, place + 1, count, terms.grams, start + form_place + 1, stop, needed - 1)
            similarity = common / (count + size - common)
            if similarity >= threshold:
                _add_form(form, similarity, terms, matches, match)


@njit(nogil=True, cache=True)
def _grown(array, count):
    """A longer copy of an array, with space for at least ``count`` entries."""
    longer = np.empty((2 * count,) + array.shape[1:], array.dtype)
    longer[: len(array)] = array
    return longer


@njit(nogil=True, cache=True)
def _with_space(matches, count):
    """The matches, with space for ``count``."""
    if count <= len(matches.first):
        return matches
    return NgramMatches(
        _grown(matches.first, count),
        _grown(matches.last, count),
        _grown(matches.length, count),
        _grown(matches.counts, count),
        _grown(matches.concepts, count),
        _grown(matches.similarities, count),
    )


@njit(nogil=True, cache=True)
def _match_from(i, stop, texts, numbers, terms, index, settings, grams, seen, matches, matched):
    """Add the matching n-grams that begin with word i and end before word ``stop``.

    Args:
        numbers: the trigrams of all texts. grams: int64 [index.largest + 2], a buffer.
        seen: int64 [F + 1]; the last entry counts n-grams.

    Returns:
        The matches, possibly as longer arrays, and their number.
    """
    start = texts.word_offsets[i]
    bounded = texts.bounds[i] > 0
    hashed = continued_hash(texts.characters, start, texts.word_offsets[i + 1] - 1, FNV_START)
    reach = np.int64(terms.reach[first_slot(hashed, terms.reach)])
    window = settings.window if settings.approximate and bounded else 0
    count, bits, done = 0, np.uint64(0), start
    for j in range(i, min(i + max(reach, window), stop)):
        if j > i and texts.breaks[j]:
            break
        end = texts.word_offsets[j + 1] - 1
        if j > i:
            hashed = continued_hash(texts.characters, texts.word_offsets[j] - 1, end, hashed)
        similar = j - i < window
        while similar and done < end - GRAM + 1 and count <= index.largest:
            count = _add_gram(grams, count, numbers[done])
            bits |= _bit(numbers[done])
            done += 1
        similar = similar and 0 < count <= index.largest and texts.bounds[j] > 0
        length = texts.ends[j] - texts.starts[i]
        if length < settings.shortest or (j == i and not bounded):
            continue
        matches = _with_space(matches, matched + 1)
        matches.counts[matched] = 0
        if j - i < reach:
            equal = _equal_form(texts.characters, start, end, hashed, terms)
            if equal >= 0:
                _add_form(equal, 1.0, terms, matches, matched)
        if similar:
            seen[-1] += 1
            _add_similar(
                grams, count, bits, terms, index, settings.threshold, seen, seen[-1], matches, matched
            )  # fmt: skip
        if matches.counts[matched]:
            matches.first[matched], matches.last[matched], matches.length[matched] = i, j, length
            matched += 1
    return matches, matched


@njit(nogil=True, cache=True)
def _preferred(matches, i, j, longest_first):
    """Whether match i is preferred to an overlapping match j."""
    similarity = matches.similarities[i, 0] - matches.similarities[j, 0]
    length = matches.length[i] - matches.length[j]
    if longest_first and length != 0:
        return length > 0
    if similarity != 0.0:
        return similarity > 0.0
    return i < j if length == 0 else length > 0


@njit(nogil=True, cache=True)
def _best_first(matches, matched, longest_first):
    """The matches in the order of :func:`_preferred`, int64 [matched]; a shell sort, since it compiles fast."""
    order = np.arange(matched)
    gap = matched // 2
    while gap > 0:
        for i in range(gap, matched):
            match, place = order[i], i
            while place >= gap and _preferred(matches, match, order[place - gap], longest_first):
                order[place] = order[place - gap]
                place -= gap
            order[place] = match
        gap = 1 if gap == 2 else gap * 5 // 11
    return order


@njit(nogil=True, cache=True)
def _kept(matches, matched, words, longest_first):
    """Whether each match is kept, bool [matched]: best first, unless it overlaps with a kept match.

    Args:
        words: the first word of the text and the first word after it.
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
    """The mentions of all texts, as Mentions: n-grams with an equal or similar form, the best of overlapping n-grams.

    ``texts`` are Texts, ``terms`` TermArrays, and ``index`` their TrigramIndex for the threshold in ``settings``.
    """
    numbers = _number_grams(texts.characters, terms)
    grams = np.empty(index.largest + 2, np.int64)
    seen = np.zeros(len(index.bits) + 1, np.int64)
    most = settings.candidates
    matches = NgramMatches(
        np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64),
        np.empty((64, most), np.int32), np.empty((64, most), np.float64),
    )  # fmt: skip
    first, last, candidate_offsets = np.empty(256, np.int64), np.empty(256, np.int64), np.zeros(257, np.int64)
    concepts, similarities = np.empty(1024, np.int32), np.empty(1024, np.float64)
    text_offsets = np.zeros(len(texts.text_offsets), np.int64)
    mentions = candidates = 0
    for text in range(len(texts.text_offsets) - 1):
        matched, stop = 0, texts.text_offsets[text + 1]
        for i in range(texts.text_offsets[text], stop):
            matches, matched = _match_from(
                i, stop, texts, numbers, terms, index, settings, grams, seen, matches, matched
            )  # fmt: skip
        kept = _kept(matches, matched, texts.text_offsets[text : text + 2], settings.longest_first)
        for match in range(matched):  # by first word, which is text order, since kept matches do not overlap
            if not kept[match]:
                continue
            if mentions + 1 >= len(first):
                first, last = _grown(first, mentions), _grown(last, mentions)
                candidate_offsets = _grown(candidate_offsets, mentions)
            if candidates + most > len(concepts):
                concepts, similarities = _grown(concepts, candidates + most), _grown(similarities, candidates + most)
            first[mentions], last[mentions] = matches.first[match], matches.last[match]
            count = matches.counts[match]
            concepts[candidates : candidates + count] = matches.concepts[match, :count]
            similarities[candidates : candidates + count] = matches.similarities[match, :count]
            candidates += count
            mentions += 1
            candidate_offsets[mentions] = candidates
        text_offsets[text + 1] = mentions
    return Mentions(
        first[:mentions].copy(), last[:mentions].copy(), text_offsets,
        concepts[:candidates].copy(), similarities[:candidates].copy(), candidate_offsets[: mentions + 1].copy(),
    )  # fmt: skip
