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

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from rerank_plugin.files.errors import InputError
from rerank_plugin.kernels.parallel import available_threads, split
from rerank_plugin.knowledge import normalization
from rerank_plugin.knowledge.knowledge_base import KnowledgeBase

TEXTS_AT_ONCE = 64  # of a thread: what they need at a time stays small
OVERLAPS = ("score", "length")


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
        from rerank_plugin.knowledge import matching, term_arrays

        self.knowledge, self.config = knowledge, config
        self.threads = threads or available_threads()
        self.settings = {**asdict(config), "rules": normalization.VERSION, "knowledge": knowledge.checksum}
        self._terms = term_arrays.open_terms(knowledge)
        self._index = matching.index(self._terms, config.threshold)
        self._settings = matching.MatchingSettings(
            config.candidates,
            config.threshold,
            config.window,
            config.shortest,
            config.approximate,
            config.overlap == "length",
        )

    def annotate(self, text: str) -> list[Mention]:
        """The mentions of a text, in its order; they do not overlap."""
        return self.annotate_all([text])[0]

    def annotate_all(self, texts: Sequence[str]) -> list[list[Mention]]:
        """The mentions of each text; several threads."""
        results: list[list[Mention]] = [[] for _ in texts]

        def work(start: int, stop: int) -> None:
            prepared, found = self._find(texts[start:stop])
            for text in range(stop - start):
                results[start + text] = _mentions(prepared, found, text)

        self._split(work, len(texts))
        return results

    def concepts(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The concepts of all mentions of each text, one after another, those of a mention best first; several threads.

        Returns:
            Rows of the knowledge base, uint32 [n] a text.
        """
        results = [np.zeros(0, np.uint32)] * len(texts)

        def work(start: int, stop: int) -> None:
            _, found = self._find(texts[start:stop])
            rows, borders = found.concepts.astype(np.uint32), found.of_mention[found.of_text].tolist()
            for text in range(stop - start):
                results[start + text] = rows[borders[text] : borders[text + 1]].copy()

        self._split(work, len(texts))
        return results

    def _split(self, work, count: int) -> None:
        def in_steps(start: int, stop: int) -> None:
            for step in range(start, stop, TEXTS_AT_ONCE):
                work(step, min(step + TEXTS_AT_ONCE, stop))

        split(in_steps, count, self.threads, smallest=8)

    def _find(self, texts: Sequence[str]):
        """The words of some texts, and the mentions in them: Texts and Found."""
        from rerank_plugin.knowledge import matching

        prepared = _prepared(texts)
        found = matching.find_mentions(prepared, self._terms, self._index, self._settings)
        return prepared, matching.Found(*found)


def _prepared(texts: Sequence[str]):
    """The words of some texts as arrays, matching.Texts."""
    from rerank_plugin.knowledge import matching

    all_words = list(map(normalization.words, texts))
    counts = [len(words.forms) for words in all_words]
    forms = list(chain.from_iterable(words.forms for words in all_words))
    lengths = np.fromiter(map(len, forms), np.int64, len(forms)) + 1  # a space follows
    spans = [_spans(words) for words in all_words]
    breaks = [bytes(map(normalization.BREAKS.__getitem__, words.separators[:-1])) for words in all_words]
    bounds = [bytes(map(normalization.BOUNDS.__getitem__, words.written)) for words in all_words]
    return matching.Texts(
        characters=np.frombuffer(" ".join([*forms, ""]).encode("utf-32-le"), np.uint32),
        words=np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]),
        starts=np.concatenate([starts for starts, _ in spans] or [np.zeros(0, np.int64)]),
        ends=np.concatenate([ends for _, ends in spans] or [np.zeros(0, np.int64)]),
        breaks=np.frombuffer(b"".join(breaks), np.uint8),
        bounds=np.frombuffer(b"".join(bounds), np.uint8),
        texts=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)]),
    )


def _spans(words: normalization.Words) -> tuple[np.ndarray, np.ndarray]:
    """Where the words of a text begin and end, int64 [n] each."""
    written = np.fromiter(map(len, words.written), np.int64, len(words.written))
    separators = np.fromiter(map(len, words.separators), np.int64, len(words.separators))
    ends = np.cumsum(written + separators[:-1])
    return ends - written, ends


def _mentions(prepared, found, text: int) -> list[Mention]:
    """The mentions of one text of those that were searched together."""
    mentions = []
    for mention in range(int(found.of_text[text]), int(found.of_text[text + 1])):
        candidates = slice(int(found.of_mention[mention]), int(found.of_mention[mention + 1]))
        mentions.append(
            Mention(
                int(prepared.starts[found.first[mention]]),
                int(prepared.ends[found.last[mention]]),
                tuple(found.concepts[candidates].tolist()),
                tuple(found.similarities[candidates].tolist()),
            )
        )
    return mentions
