"""Marks the concepts of a knowledge base in texts ([K] 4.2: as QuickUMLS with its defaults, K = 8 candidates).

QuickUMLS (Soldaini and Goharian, MedIR 2016) compares every n-gram of up to 5 words with all terms; a match has at
least a threshold of Jaccard similarity between the sets of character trigrams, without padding. Among overlapping
n-grams it keeps the most similar, then the longest. [K] 3 and Shen et al. keep the K best concepts of an n-gram: a term
may be ambiguous.

Our choices:

* Texts and terms are compared by their forms (`word_forms`).
* Exact matches are looked up in a hash table of forms, with any number of words. An approximate match neither begins
  nor ends with a stop word or a number; an exact match may ("vitamin A", "type 2 diabetes"), but a stop word or a
  number alone is not a mention.
* Stop words replace the part-of-speech tags by which QuickUMLS excludes determiners and prepositions.
* No mention spans the end of a line, or punctuation beside white space (`normalization.breaks`).
* Candidates are ordered by decreasing similarity; ties by increasing row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.concepts import matching, term_arrays, word_forms
from rerank_plugin.concepts.knowledge_base import KnowledgeBase
from rerank_plugin.kernels.parallel import available_threads, split

TEXTS_AT_ONCE = 64  # texts that a thread annotates at once, to bound memory
OVERLAPS = ("score", "length")
T = TypeVar("T")


@dataclass(frozen=True)
class AnnotatorConfig:
    """Settings of the annotator. The defaults are QuickUMLS's, except for ``threshold``, and [K]'s for ``candidates``.

    Attributes:
        candidates: the largest number of concepts of a mention, K.
        threshold: the smallest similarity of an approximate match. QuickUMLS has 0.7; 0.8 was chosen on gold
            annotations (docs/concept-annotation.md).
        window: the largest number of words of an approximate match.
        similarity: the similarity of the sets of character trigrams.
        shortest: the smallest number of characters of a mention.
        approximate: whether to find similar forms as well as equal forms.
        overlap: the preference among overlapping mentions: "score" keeps the most similar, then the longest; "length"
            the longest, then the most similar.

    Raises:
        InputError: a value is invalid.
    """

    candidates: int = 8
    threshold: float = 0.8
    window: int = 5
    similarity: str = "jaccard"
    shortest: int = 3
    approximate: bool = True
    overlap: str = "score"

    def __post_init__(self) -> None:
        for name in ("candidates", "window", "shortest"):
            if getattr(self, name) < 1:
                raise InputError(f"annotator: {name} is {getattr(self, name)}, it must be at least 1")
        if not 0 < self.threshold <= 1:
            raise InputError(f"annotator: the threshold is {self.threshold}, it must be above 0 and at most 1")
        if self.similarity != "jaccard":
            raise InputError(f"annotator: unknown similarity {self.similarity!r}: use jaccard")
        if self.overlap not in OVERLAPS:
            raise InputError(f"annotator: overlap is {self.overlap!r}, it must be {' or '.join(OVERLAPS)}")


class Mention(NamedTuple):
    """A mention: characters ``start`` to ``end`` of the text, and its candidates.

    ``concepts`` are at most K rows of the knowledge base, the best first, with their ``similarities``.
    """

    start: int
    end: int
    concepts: tuple[int, ...]
    similarities: tuple[float, ...]


class Annotator:
    """Marks concepts in texts.

    Args:
        knowledge: the knowledge base; its folder stores the look-up arrays (`term_arrays`).
        threads: the number of threads that share the texts of a call; by default all available.

    Attributes:
        settings: all settings that determine an annotation, as JSON values.
    """

    def __init__(
        self, knowledge: KnowledgeBase, config: AnnotatorConfig = AnnotatorConfig(), threads: int | None = None
    ):
        self.knowledge, self.config = knowledge, config
        self.threads = threads or available_threads()
        self.settings = {**asdict(config), "rules": word_forms.RULES_VERSION, "knowledge": knowledge.checksum}
        self._terms = term_arrays.open_terms(knowledge)
        self._index = matching.build_index(self._terms, config.threshold)
        self._settings = matching.MatchingSettings(
            config.candidates, config.threshold, config.window, config.shortest, config.approximate,
            longest_first=config.overlap == "length",
        )  # fmt: skip

    def annotate(self, text: str) -> list[Mention]:
        """The mentions of a text, in order of occurrence; they do not overlap."""
        return self.annotate_all([text])[0]

    def annotate_all(self, texts: Sequence[str]) -> list[list[Mention]]:
        """The mentions of each text, annotated in parallel."""
        return self._annotated(texts, _mentions)

    def concepts(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The candidates of all mentions of each text in order, those of a mention best first; annotated in parallel.

        Returns:
            For each text rows of the knowledge base, uint32 [n].
        """
        return self._annotated(texts, _concepts)

    def _annotated(
        self, texts: Sequence[str], convert: Callable[[matching.TextBatch, matching.Mentions], list[T]]
    ) -> list[T]:
        """A result for each text, by ``convert`` from the words and mentions of several texts; in parallel."""
        results: list = [None] * len(texts)

        def work(start: int, stop: int) -> None:
            for begin in range(start, stop, TEXTS_AT_ONCE):
                end = min(begin + TEXTS_AT_ONCE, stop)
                batch = _word_arrays(texts[begin:end])
                mentions = matching.find_mentions(batch, self._terms, self._index, self._settings)
                results[begin:end] = convert(batch, mentions)

        split(work, len(texts), self.threads, smallest=8)
        return results


def _word_arrays(texts: Sequence[str]) -> matching.TextBatch:
    """The words of texts as arrays."""
    all_words = list(map(word_forms.words, texts))
    forms = list(chain.from_iterable(words.forms for words in all_words))
    lengths = np.fromiter(map(len, forms), np.int64, len(forms)) + 1  # with the space after it
    starts, ends = np.concatenate([np.zeros((2, 0), np.int64), *map(_spans, all_words)], axis=1)
    breaks = [bytes(map(word_forms.BREAKS.__getitem__, words.separators[:-1])) for words in all_words]
    bounds = [bytes(map(word_forms.BOUNDS.__getitem__, words.written)) for words in all_words]
    return matching.TextBatch(
        characters=np.frombuffer(" ".join([*forms, ""]).encode("utf-32-le"), np.uint32),
        word_offsets=term_arrays.offsets_of(lengths),
        starts=starts,
        ends=ends,
        breaks=np.frombuffer(b"".join(breaks), np.uint8),
        bounds=np.frombuffer(b"".join(bounds), np.uint8),
        text_offsets=term_arrays.offsets_of([len(words.forms) for words in all_words]),
    )


def _spans(words: word_forms.NormalizedWords) -> np.ndarray:
    """Starts and ends of the words of a text, int64 [2, n]."""
    written = np.fromiter(map(len, words.written), np.int64, len(words.written))
    separators = np.fromiter(map(len, words.separators), np.int64, len(words.separators))
    ends = np.cumsum(written + separators[:-1])
    return np.stack([ends - written, ends])


def _mentions(texts: matching.TextBatch, mentions: matching.Mentions) -> list[list[Mention]]:
    """The mentions of each text."""
    starts, ends = texts.starts[mentions.first].tolist(), texts.ends[mentions.last].tolist()
    offsets = mentions.candidate_offsets.tolist()
    result = [
        Mention(start, end, tuple(mentions.concepts[i:j].tolist()), tuple(mentions.similarities[i:j].tolist()))
        for start, end, i, j in zip(starts, ends, offsets, offsets[1:])
    ]
    text_offsets = mentions.text_offsets.tolist()
    return [result[i:j] for i, j in zip(text_offsets, text_offsets[1:])]


def _concepts(texts: matching.TextBatch, mentions: matching.Mentions) -> list[np.ndarray]:
    """The candidates of all mentions of each text, uint32 [n]."""
    rows, offsets = mentions.concepts.astype(np.uint32), mentions.candidate_offsets[mentions.text_offsets].tolist()
    return [rows[i:j].copy() for i, j in zip(offsets, offsets[1:])]
