"""The concepts of the sample (concepts.tsv) and the phrases of its documents (phrases.json).

Both were written for this project from general knowledge; nothing is copied from a vocabulary or a publication.

Concepts: the forms are synonyms, interchangeable in every sentence, the most common first. The *company* of a concept
(signs, mechanisms, settings) appears next to any of its forms, so that word vectors trained on the sample can bring
synonyms together.

Kinds of documents: a kind is *wanted* if searchers of the literature would open it (studies of patients, reviews,
guidance), and unwanted otherwise (animal and cell work, protocols, letters, corrections, passing mention). No single
word separates them: every kind has many wordings, shares neutral titles and openings with the others, and has asides in
words of the other side (``lab_asides`` in wanted documents, ``clinic_asides`` in unwanted ones).

Slots: {a} agent, {c} condition, {as} {cs} their company, {pop} population, {out} outcome, {x} another subject; {n} {N}
{pct} {p} {ci} {ratio} {r} {year} {months} {dose} numbers; {adj} {noun} general words; {gene} a gene symbol, {rare} an
invented word, {place} an invented town.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from rerank_plugin.files.text_files import lines


class Concept(NamedTuple):
    """``broader`` is a broader term; ``conditions`` are the keys of the plausible conditions of an agent."""

    type: str  # condition, drug, gene, procedure, population or outcome
    key: str
    forms: tuple[str, ...]
    company: tuple[str, ...]
    broader: str
    conditions: tuple[str, ...]


def _concepts() -> tuple[Concept, ...]:
    concepts = []
    for _, line in list(lines(Path(__file__).with_name("concepts.tsv")))[1:]:
        type, key, forms, company, broader, conditions = line.split("\t")
        concepts.append(Concept(type, key, _terms(forms), _terms(company), broader, tuple(conditions.split())))
    return tuple(concepts)


def _terms(cell: str) -> tuple[str, ...]:
    return tuple(filter(None, cell.split("; ")))


CONCEPTS = _concepts()


def _of_type(*types: str) -> tuple[Concept, ...]:
    return tuple(concept for concept in CONCEPTS if concept.type in types)


CONDITIONS, AGENTS = _of_type("condition"), _of_type("drug", "gene", "procedure")
POPULATIONS, OUTCOMES = _of_type("population"), _of_type("outcome")


class Template(NamedTuple):
    """A sentence with ``%s`` for each of its slots."""

    text: str
    slots: tuple[str, ...]

    def fill(self, rng: Random, words: dict[str, Sequence[str]]) -> str:
        """The sentence with a word drawn for each slot, beginning with a capital."""
        random = rng.random
        drawn = []
        for slot in self.slots:
            table = words[slot]
            drawn.append(table[int(random() * len(table))])
        text = self.text % tuple(drawn)
        return text[0].upper() + text[1:]


_SLOT = re.compile(r"\{(\w+)\}")


def _templates(texts: Iterable[str]) -> list[Template]:
    return [Template(_SLOT.sub("%s", text.replace("%", "%%")), tuple(_SLOT.findall(text))) for text in texts]


class Kind(NamedTuple):
    """A kind of document; ``agents`` are the types of agents that it can be about."""

    name: str
    wanted: bool
    agents: list[str]
    length: int  # common sentences that fill the abstract
    titles: list[Template]
    openings: list[Template]
    methods: list[Template]
    conclusions: list[Template]
    review: bool
    share: int  # how often it is drawn


_PHRASES = json.loads(Path(__file__).with_name("phrases.json").read_text(encoding="utf-8"))
SHARED = {name: _templates(texts) for name, texts in _PHRASES["shared"].items()}
WORDS = {name: text.split("; ") for name, text in _PHRASES["words"].items()}
KINDS = [
    Kind(**{**kind, **{part: _templates(kind[part]) for part in ("titles", "openings", "methods", "conclusions")}})
    for kind in _PHRASES["kinds"]
]
