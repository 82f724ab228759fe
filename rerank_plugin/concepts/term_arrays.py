"""The forms of a knowledge base's terms as arrays, in which the annotator looks up mentions.

They are built once for a knowledge base, for all settings of the annotator, and stored in its folder ``annotation``;
they are rebuilt when the knowledge base or the rules of `word_forms` have changed. Nothing is pickled.

Letters in shapes: F distinct forms, U distinct trigrams of all forms, s trigrams of a form.

* Forms are numbered by their number of distinct trigrams, so the forms of a size range have a range of numbers.
* Trigrams are numbered by their number of forms, the rarest first, as the prefix filter needs.
* A form of fewer than three characters is a shorter trigram, as in simstring.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError, SystemFailure
from rerank_plugin.concepts import word_forms
from rerank_plugin.concepts.knowledge_base import KnowledgeBase
from rerank_plugin.files.arrays import ranges, save_array
from rerank_plugin.files.artifact import Array, Artifact
from rerank_plugin.files.outputs import replacing_folder
from rerank_plugin.kernels.compiling import njit

log = logging.getLogger(__name__)

FOLDER = "annotation"
GRAM, CODE_POINT_BITS = 3, 21
BATCH = 10_000  # terms to read at once

SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio
FNV_START, FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
SPACE = 32
MOST_WORDS = 255  # largest number of words of a form that can match


class TermArrays(NamedTuple):
    """The F forms; everything is read-only."""

    characters: np.ndarray  # code points of all forms, uint32; a form's words are joined by a space
    character_offsets: np.ndarray  # int64 [F+1]
    concepts: np.ndarray  # rows of the knowledge base for each form, ascending, int32
    concept_offsets: np.ndarray  # int64 [F+1]
    grams: np.ndarray  # distinct trigrams of each form, ascending, int32
    gram_offsets: np.ndarray  # int64 [F+1]
    gram_keys: np.ndarray  # the trigrams, three code points of 21 bits each, uint64 [U]
    form_slots: np.ndarray  # hash table with linear probing, 0 or 1 + form, int32 [a power of 2]
    gram_slots: np.ndarray  # the same for trigrams
    reach: np.ndarray  # words of the longest form, by the hash of its first word, uint8 [a power of 2]
    first_of_size: np.ndarray  # the first form with at least each number of trigrams, int64 [largest size + 2]


def _have_room(arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> bool:
    """Whether each hash table ends a search of what it does not hold."""
    tables = (arrays[name] for name in ("form_slots", "gram_slots"))
    return bool(len(arrays["reach"])) and all(len(table) and not table.all() for table in tables)


ANNOTATION = Artifact(
    "a folder of a knowledge base's terms",
    "annotation.json",
    {"knowledge": str, "rules": int},
    arrays={
        "characters": Array(np.uint32, "N"),
        "character_offsets": Array(np.int64, "F+1", offsets="N"),
        "concepts": Array(np.int32, "K", below="C"),
        "concept_offsets": Array(np.int64, "F+1", offsets="K"),
        "grams": Array(np.int32, "G", below="U"),
        "gram_offsets": Array(np.int64, "F+1", offsets="G"),
        "gram_keys": Array(np.uint64, "U"),
        "form_slots": Array(np.int32, "S", below="F+1"),
        "gram_slots": Array(np.int32, "H", below="U+1"),
        "reach": Array(np.uint8, "W"),
        "first_of_size": Array(np.int64, "L", below="F+1", increasing=True),
    },
    check=_have_room,
    version=3,
)


def open_terms(knowledge: KnowledgeBase) -> TermArrays:
    """The arrays of a knowledge base, read from its folder; built and stored there if missing.

    If the folder is not writable, every call builds them in memory.
    """
    folder = knowledge.folder / FOLDER
    if (arrays := _opened(folder, knowledge)) is not None:
        return arrays
    arrays = build(_forms_of(knowledge))
    try:
        with replacing_folder(folder, ANNOTATION, overwrite=True) as writing:
            for name, array in arrays._asdict().items():
                save_array(writing / f"{name}.npy", array)
            ANNOTATION.seal(writing, {"rules": word_forms.RULES_VERSION, "knowledge": knowledge.checksum})
    except InputError as error:
        log.warning("%s: the terms are rebuilt at every use", error)
        return arrays
    return _opened(folder, knowledge) or arrays


def _opened(folder: Path, knowledge: KnowledgeBase) -> TermArrays | None:
    """The arrays on disk; None if they are missing, outdated or damaged."""
    try:
        opened = ANNOTATION.open(folder, C=len(knowledge))
    except SystemFailure:
        raise
    except InputError:
        return None
    rules, made_of = opened.description["rules"], opened.description["knowledge"]
    is_current = rules == word_forms.RULES_VERSION and made_of == knowledge.checksum
    return TermArrays(**opened.arrays) if is_current else None


def _forms_of(knowledge: KnowledgeBase) -> dict[str, list[int]]:
    """The concepts of each form, as distinct ascending rows."""
    verbatim: dict[str, list[int]] = {}  # concepts with a term of this spelling
    changed: dict[str, list[int]] = {}  # concepts with a term that the rules change to this form
    for start in range(0, len(knowledge.terms), BATCH):
        terms = np.arange(start, min(start + BATCH, len(knowledge.terms)))
        rows = knowledge.concepts_of_terms(terms).tolist()
        for row, term in zip(rows, knowledge.terms.take(terms)):
            for form, is_verbatim in word_forms.term_forms(term).items():
                concepts = (verbatim if is_verbatim else changed).setdefault(form, [])
                if not concepts or concepts[-1] != row:  # terms are ordered by concept
                    concepts.append(row)
    return {**changed, **verbatim}


def build(concepts: Mapping[str, Sequence[int]]) -> TermArrays:
    """Build the arrays from the concepts of each form."""
    sizes = _grams(_characters(concepts))[2]
    # By size, then by the form itself, so that the order of the source does not matter.
    forms = [form for _, form in sorted(zip(sizes.tolist(), concepts))]
    characters = _characters(forms)
    gram_keys, grams, sizes = _grams(characters)
    form_slots, reach = _table(len(forms), 2, np.int32), _table(len(forms), 4, np.uint8)
    _fill_forms(*characters, form_slots, reach)
    gram_slots = _table(len(gram_keys), 2, np.int32)
    _fill_grams(gram_keys, gram_slots)
    arrays = TermArrays(
        *characters,
        concepts=np.array([row for form in forms for row in concepts[form]], np.int32),
        concept_offsets=offsets_of([len(concepts[form]) for form in forms]),
        grams=grams,
        gram_offsets=offsets_of(sizes),
        gram_keys=gram_keys,
        form_slots=form_slots,
        gram_slots=gram_slots,
        reach=reach,
        first_of_size=np.searchsorted(sizes, np.arange(int(sizes.max(initial=0)) + 2)).astype(np.int64),
    )
    for array in arrays:
        array.flags.writeable = False  # like memory-mapped arrays, since numba compiles each kind separately
    return arrays


def _characters(forms: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
    """Code points of strings, uint32, and their offsets, int64 [n+1]."""
    encoded = "".join(forms).encode("utf-32-le")
    return np.frombuffer(encoded, np.uint32), offsets_of([len(form) for form in forms])


def offsets_of(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    """The offsets of n concatenated lists with these lengths, int64 [n+1]."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def _grams(forms: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct trigrams of forms, from their characters and offsets.

    Returns:
        The trigrams by their number of forms, the rarest first, uint64 [U]; the trigrams of each form as ascending
        positions in the first array, int32 [n]; and their number in each form, int64 [F].
    """
    characters, offsets = forms
    counts = np.maximum(np.diff(offsets) - (GRAM - 1), 1)  # trigrams of each form, with repetitions
    form = np.repeat(np.arange(len(counts)), counts)
    place = ranges(offsets[:-1], counts)
    padded = np.concatenate([characters, np.zeros(GRAM, np.uint32)]).astype(np.uint64)
    keys = np.zeros(len(place), np.uint64)
    for i in range(GRAM):
        inside = place + i < offsets[1:][form]
        keys = (keys << np.uint64(CODE_POINT_BITS)) | np.where(inside, padded[place + i], np.uint64(0))
    distinct, numbers = np.unique(keys, return_inverse=True)
    pairs = np.unique((form << 32) | numbers.ravel())
    numbers, form = pairs & 0xFFFFFFFF, pairs >> 32
    order = np.argsort(np.bincount(numbers, minlength=len(distinct)), kind="stable")  # ties by key
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    grams = np.sort((form << 32) | ranks[numbers]) & 0xFFFFFFFF
    return distinct[order], grams.astype(np.int32), np.bincount(form, minlength=len(counts))


# ---- hash tables, filled by compiled loops ----


def _table(count: int, factor: int, dtype: type[np.generic]) -> np.ndarray:
    """Zeros; the length is a power of 2 above ``factor * count``."""
    return np.zeros(1 << max(factor * count, 1).bit_length(), dtype)


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
