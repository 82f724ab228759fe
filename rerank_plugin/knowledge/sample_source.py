"""The bundled vocabulary: the concepts that the bundled collection is made of, with their lay and expert names.

It holds every concept of `sample.concepts`, and every broader concept that one of them names. The relations are
``broader``, from a concept to the broader one, and ``concerns``, from a drug, gene or procedure to its conditions.
"""

from __future__ import annotations

from collections.abc import Iterator

from rerank_plugin.knowledge.entries import Concept, Relation, Source, distinct
from rerank_plugin.sample import concepts as sample_concepts

BROADER, CONCERNS = "broader", "concerns"


def source() -> Source:
    return Source("sample", concepts(), relations())


def _bundled() -> tuple[sample_concepts.Concept, ...]:
    return (
        *sample_concepts.CONDITIONS,
        *sample_concepts.AGENTS,
        *sample_concepts.POPULATIONS,
        *sample_concepts.OUTCOMES,
    )


def _ids() -> dict[str, str]:
    """Ids by key, in the order of the bundled concepts; then those of the wider ones, by name."""
    bundled = _bundled()
    wider = dict.fromkeys(one.broader for one in bundled if one.broader)
    return {key: f"S{number:03}" for number, key in enumerate([*(one.key for one in bundled), *wider], 1)}


def concepts() -> Iterator[Concept]:
    ids = _ids()
    types: dict[str, str] = {}
    for one in _bundled():
        if one.broader:
            types.setdefault(one.broader, one.type)
        name, synonyms = distinct(one.forms[0], one.forms[1:])
        yield Concept(ids[one.key], name, synonyms, (one.type,))
    for wider, type in types.items():
        yield Concept(ids[wider], wider, (), (type,))


def relations() -> Iterator[Relation]:
    ids = _ids()
    for one in _bundled():
        if one.broader:
            yield Relation(ids[one.key], BROADER, ids[one.broader])
        for condition in one.conditions:
            yield Relation(ids[one.key], CONCERNS, ids[condition])
