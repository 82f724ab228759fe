"""What the sample is about (concepts.tsv) and how its documents put it (phrases.json).

Both were written for this project from general knowledge; nothing is copied from a vocabulary or a publication.

Concepts: the forms are synonyms, interchangeable in every sentence, the commonest first. The *company* of a concept
(signs, mechanisms, settings) appears next to any of its forms, so that word vectors trained on the sample can bring
synonyms together.

Kinds of documents: a kind is *wanted* where searchers of the literature would open it (studies of patients, reviews,
guidance), and not wanted otherwise (animal and cell work, protocols, letters, corrections, passing mention). No single
word tells which: every kind has many wordings, shares neutral titles and openings with the others and has asides in
words of the other side (``lab_asides`` in wanted documents, ``clinic_asides`` in the others).

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
    """``broader`` names something wider; ``conditions`` are the keys of those that an agent is plausible for."""

    type: str  # condition, drug, gene, procedure, population or outcome
    key: str
    forms: tuple[str, ...]
    company: tuple[str, ...]
    broader: str
    conditions: tuple[str, ...]


def _concepts() -> tuple[Concept, ...]:
    found = []
    for _, line in list(lines(Path(__file__).with_name("concepts.tsv")))[1:]:
        type, key, forms, company, broader, conditions = line.split("\t")
        parts = (tuple(filter(None, text.split("; "))) for text in (forms, company))
        found.append(Concept(type, key, *parts, broader, tuple(conditions.split())))
    return tuple(found)


CONCEPTS = _concepts()


def _of_type(*types: str) -> tuple[Concept, ...]:
    return tuple(one for one in CONCEPTS if one.type in types)


CONDITIONS, AGENTS = _of_type("condition"), _of_type("drug", "gene", "procedure")
POPULATIONS, OUTCOMES = _of_type("population"), _of_type("outcome")


class Template(NamedTuple):
    """A sentence with ``%s`` for each of its slots."""

    text: str
    slots: tuple[str, ...]

    def fill(self, rng: Random, words: dict[str, Sequence[str]]) -> str:
        """The sentence with a word drawn for each slot, and a capital at its beginning."""
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
    """``agents`` are the types of agents that it can be about."""

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
