"""Marks the concepts of a knowledge base in texts ([K] 4.2: as QuickUMLS with its defaults, K = 8 candidates).

QuickUMLS (Soldaini and Goharian, MedIR 2016) compares every n-gram of up to 5 words with all terms: by the Jaccard
similarity of their sets of character trigrams, without padding, of at least a threshold. Of n-grams that overlap it
keeps the most similar, then the longest. [K] 3 and Shen et al. keep the K best concepts of an n-gram: a term may be
ambiguous.

What is decided here:

* Texts and terms are compared by their forms (`normalization`).
* Exact matches are looked up in a hash table of whole forms, with any number of words. An approximate match neither
  begins nor ends with a stop-word or a number; an exact match may ("vitamin A", "type 2 diabetes"), but a stop-word or
  a number alone is no mention.
* QuickUMLS uses part-of-speech tags to exclude determiners and prepositions; here stop-words serve instead.
* No mention spans the end of a line, or punctuation beside white space (`normalization.breaks`).
* Candidates are ordered by decreasing similarity, ties by increasing row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.kernels.parallel import available_threads, split
from rerank_plugin.knowledge import matching, normalization, term_arrays
from rerank_plugin.knowledge.knowledge_base import KnowledgeBase

TEXTS_AT_ONCE = 64  # of a thread: what they need at a time stays small
OVERLAPS = ("score", "length")
T = TypeVar("T")


@dataclass(frozen=True)
class AnnotatorConfig:
    """How texts are annotated; the defaults are QuickUMLS's, and [K]'s for ``candidates``, but for ``threshold``.

    Attributes:
        candidates: the largest number of concepts of a mention, K.
        threshold: smallest similarity of an approximate match. QuickUMLS has 0.7; 0.8 was chosen on gold annotations
            (docs/concept-annotation.md).
        window: the largest number of words of an approximate match.
        similarity: of the sets of character trigrams.
        shortest: the fewest characters of a mention.
        approximate: whether to find similar forms, too, and not only equal ones.
        overlap: which of overlapping mentions is kept: "score" the most similar, then the longest; "length" the
            longest, then the most similar.

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

    def __post_init__(self):
        for name in ("candidates", "window", "shortest"):
            if getattr(self, name) < 1:
                raise InputError(f"annotator: {name} is {getattr(self, name)}, it must be at least 1")
        if not 0 < self.threshold <= 1:
            raise InputError(f"annotator: the threshold is {self.threshold}, it must be above 0 and at most 1")
        if self.similarity != "jaccard":
            raise InputError(f"annotator: no similarity is called {self.similarity!r}: there is jaccard")
        if self.overlap not in OVERLAPS:
            raise InputError(f"annotator: overlap is {self.overlap!r}, it must be {' or '.join(OVERLAPS)}")


class Mention(NamedTuple):
    """A mention: characters ``start`` to ``end`` of the text, and its candidates.

    ``concepts`` are rows of the knowledge base, the best first, at most K; ``similarities`` are theirs.
    """

    start: int
    end: int
    concepts: tuple[int, ...]
    similarities: tuple[float, ...]


class Annotator:
    """Marks concepts in texts.

    Args:
        knowledge: the knowledge base; the look-up arrays are stored in its folder (`term_arrays`).
        threads: that share the texts of a call; by default all available.

    Attributes:
        settings: all settings that an annotation depends on, as JSON values.
    """

    def __init__(
        self, knowledge: KnowledgeBase, config: AnnotatorConfig = AnnotatorConfig(), threads: int | None = None
    ):
        self.knowledge, self.config = knowledge, config
        self.threads = threads or available_threads()
        self.settings = {**asdict(config), "rules": normalization.VERSION, "knowledge": knowledge.checksum}
        self._terms = term_arrays.open_terms(knowledge)
        self._index = matching.index(self._terms, config.threshold)
        self._settings = matching.MatchingSettings(
            config.candidates, config.threshold, config.window, config.shortest, config.approximate,
            longest_first=config.overlap == "length",
        )  # fmt: skip

    def annotate(self, text: str) -> list[Mention]:
        """The mentions of a text, in its order; they do not overlap."""
        return self.annotate_all([text])[0]

    def annotate_all(self, texts: Sequence[str]) -> list[list[Mention]]:
        """The mentions of each text; several threads."""
        return self._each(texts, _mentions)

    def concepts(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The concepts of all mentions of each text, one after another, those of a mention best first; several threads.

        Returns:
            Rows of the knowledge base, uint32 [n] a text.
        """
        return self._each(texts, _concepts)

    def _each(self, texts: Sequence[str], take: Callable[[matching.Texts, matching.Found], list[T]]) -> list[T]:
        """One result a text, made by ``take`` of the words and mentions of a few texts; several threads."""
        results: list = [None] * len(texts)

        def work(start: int, stop: int) -> None:
            for step in range(start, stop, TEXTS_AT_ONCE):
                end = min(step + TEXTS_AT_ONCE, stop)
                prepared = _prepared(texts[step:end])
                found = matching.find_mentions(prepared, self._terms, self._index, self._settings)
                results[step:end] = take(prepared, found)

        split(work, len(texts), self.threads, smallest=8)
        return results


def _prepared(texts: Sequence[str]) -> matching.Texts:
    """The words of some texts as arrays."""
    all_words = list(map(normalization.words, texts))
    forms = list(chain.from_iterable(words.forms for words in all_words))
    lengths = np.fromiter(map(len, forms), np.int64, len(forms)) + 1  # a space follows
    starts, ends = np.concatenate([np.zeros((2, 0), np.int64), *map(_spans, all_words)], axis=1)
    breaks = [bytes(map(normalization.BREAKS.__getitem__, words.separators[:-1])) for words in all_words]
    bounds = [bytes(map(normalization.BOUNDS.__getitem__, words.written)) for words in all_words]
    return matching.Texts(
        characters=np.frombuffer(" ".join([*forms, ""]).encode("utf-32-le"), np.uint32),
        words=term_arrays.offsets_of(lengths),
        starts=starts,
        ends=ends,
        breaks=np.frombuffer(b"".join(breaks), np.uint8),
        bounds=np.frombuffer(b"".join(bounds), np.uint8),
        texts=term_arrays.offsets_of([len(words.forms) for words in all_words]),
    )


def _spans(words: normalization.Words) -> np.ndarray:
    """Where the words of a text begin and end, int64 [2, n]."""
    written = np.fromiter(map(len, words.written), np.int64, len(words.written))
    separators = np.fromiter(map(len, words.separators), np.int64, len(words.separators))
    ends = np.cumsum(written + separators[:-1])
    return np.stack([ends - written, ends])


def _mentions(prepared: matching.Texts, found: matching.Found) -> list[list[Mention]]:
    """The mentions of each text."""
    starts, ends = prepared.starts[found.first].tolist(), prepared.ends[found.last].tolist()
    borders = found.of_mention.tolist()
    mentions = [
        Mention(start, end, tuple(found.concepts[one:other].tolist()), tuple(found.similarities[one:other].tolist()))
        for start, end, one, other in zip(starts, ends, borders, borders[1:])
    ]
    of_text = found.of_text.tolist()
    return [mentions[one:other] for one, other in zip(of_text, of_text[1:])]


def _concepts(prepared: matching.Texts, found: matching.Found) -> list[np.ndarray]:
    """The candidates of all mentions of each text, uint32 [n]."""
    rows, borders = found.concepts.astype(np.uint32), found.of_mention[found.of_text].tolist()
    return [rows[one:other].copy() for one, other in zip(borders, borders[1:])]
