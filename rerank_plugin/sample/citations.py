"""Texts of citations whose vocabulary and lengths grow and spread as those of real abstracts do.

Each citation has random numbers of its own, so any of them can be written without the others. The words of a citation
are those of the sample's phrases, and invented ones: n draws give about n ** `GROWTH` distinct words. How well the
figures fit real abstracts: ``python -m experiments vocabulary``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from rerank_plugin.sample.contents import AGENTS, CONDITIONS, KINDS, OUTCOMES, POPULATIONS, SHARED, Kind, Template
from rerank_plugin.sample.generator import NEUTRAL_OPENING, NEUTRAL_TITLE, Writer, invented_word, pick

WITH_ABSTRACT = 2 / 3
WORDS, SPREAD = 190.0, 0.46  # the median of an abstract's words, and the standard deviation of its logarithm
SHORTEST, LONGEST = 20, 700  # words
GROWTH, FIRST_RANKS = 0.52, 1600.0  # exponent of the distinct invented words, and the ranks that are about as common
OF_SENTENCE = 0.95  # share of the sentences with an aside of invented words
ONE_SYLLABLE = 4000  # invented words before this number are too short to be new
ASIDES = (
    " in {0}, {1} and {2}", " and {0}", ", as with {0} and {1}", " ({0}, {1}, {2})", " after {0} and {1}",
    ", {0}, {1}, {2} and {3}", " near {0} or {1}", " by {0}, {1} and {2}",
)  # fmt: skip


class Citations(Writer):
    """Writes titles and abstracts; the same for the same seed and number, whatever was written before."""

    def __init__(self, seed: int):
        super().__init__(seed)
        self._seed = seed

    def text(self, number: int, edition: int = 0) -> tuple[str, list[tuple[str, str]]]:
        """The title and the abstract of a citation.

        Args:
            edition: of the abstract: another number gives other sentences after the first.

        Returns:
            The title, and the sentences of the abstract, each with the section that it belongs to; none for a third.
        """
        rng = self._rng = Random(f"{self._seed} {number}")
        slots = self._citation_slots()
        kind = pick(rng, KINDS)
        title = pick(rng, SHARED["neutral_titles"] if rng.random() < NEUTRAL_TITLE else kind.titles)
        written = title.fill(rng, slots) + (self._aside() if rng.random() < 0.6 else "")
        if rng.random() >= WITH_ABSTRACT:
            return written, []
        wanted = min(max(rng.lognormvariate(0.0, SPREAD) * WORDS, SHORTEST), LONGEST)
        opening = pick(rng, SHARED["neutral_openings"] if rng.random() < NEUTRAL_OPENING else kind.openings)
        sentences = [("BACKGROUND", self._sentence(opening, slots))]
        if edition:
            rng = self._rng = Random(f"{self._seed} {number} {edition}")
        last = self._sentence(pick(rng, kind.conclusions), slots)
        count = sum(len(sentence.split()) for sentence in (sentences[0][1], last))
        for section, templates in self._middle(kind):
            if count >= wanted:
                break
            sentences.append((section, self._sentence(pick(rng, templates), slots)))
            count += len(sentences[-1][1].split())
        return written, [*sentences, ("CONCLUSIONS", last)]

    def _middle(self, kind: Kind) -> Iterator[tuple[str, Sequence[Template]]]:
        """The sections between the first sentence and the last, and the templates of their sentences, without end."""
        yield "BACKGROUND", SHARED["background"]
        yield "METHODS", kind.methods
        yield "METHODS", SHARED["about_agent"]
        while True:
            yield "RESULTS", SHARED["common"]

    def _citation_slots(self) -> dict[str, Sequence[str]]:
        """The words of a citation's slots: two invented subjects, and real concepts as their company."""
        rng = self._rng
        slots: dict[str, Sequence[str]] = {**self._general}
        agent, condition = self._invented(), self._invented()
        slots["a"] = (agent, agent, f"{agent} {pick(rng, ('therapy', 'gene', 'testing', 'levels'))}")
        slots["c"] = (f"{condition} disease", f"{condition} syndrome")
        for slot, concept in (("as", pick(rng, AGENTS)), ("cs", pick(rng, CONDITIONS))):
            slots[slot] = (pick(rng, concept.company), pick(rng, slots["noun"]), pick(rng, concept.forms))
        slots["pop"], slots["out"] = pick(rng, POPULATIONS).forms, pick(rng, OUTCOMES).forms
        slots["rare"] = (self._invented(), self._invented())
        slots["place"], slots["x"] = (self._invented().capitalize(),), (pick(rng, slots["x"]),)
        return slots

    def _sentence(self, template: Template, slots: dict[str, Sequence[str]]) -> str:
        written = template.fill(self._rng, slots)
        return f"{written[:-1]}{self._aside()}{written[-1]}" if self._rng.random() < OF_SENTENCE else written

    def _aside(self) -> str:
        return pick(self._rng, ASIDES).format(*(self._invented() for _ in range(4)))

    def _invented(self) -> str:
        """An invented word: the k-th most common is drawn in proportion to k ** (-1 / `GROWTH`), beyond the first."""
        rank = (1.0 - self._rng.random()) ** (-GROWTH / (1 - GROWTH))
        return invented_word(ONE_SYLLABLE + int(rank * FIRST_RANKS) % 10**10)
