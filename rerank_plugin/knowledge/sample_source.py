"""The bundled vocabulary: the concepts of the bundled collection, with their lay and expert names.

It holds all concepts of `sample.contents` and their broader concepts. The relations are ``broader``, from a concept to
its broader concept, and ``concerns``, from a drug, gene or procedure to its conditions.
"""

from __future__ import annotations

from rerank_plugin.knowledge.entries import Concept, Relation, Source, distinct
from rerank_plugin.sample.contents import CONCEPTS

BROADER, CONCERNS = "broader", "concerns"


def source() -> Source:
    """The bundled vocabulary."""
    broader: dict[str, str] = {}  # the type of each broader concept that is not bundled, by its name
    for concept in CONCEPTS:
        if concept.broader:
            broader.setdefault(concept.broader, concept.type)
    keys = [*(concept.key for concept in CONCEPTS), *broader]
    ids = {key: f"S{number:03}" for number, key in enumerate(keys, 1)}
    concepts, relations = [], []
    for concept in CONCEPTS:
        id = ids[concept.key]
        concepts.append(Concept(id, *distinct(concept.forms[0], concept.forms[1:]), (concept.type,)))
        if concept.broader:
            relations.append(Relation(id, BROADER, ids[concept.broader]))
        relations += [Relation(id, CONCERNS, ids[condition]) for condition in concept.conditions]
    concepts += [Concept(ids[name], name, (), (type,)) for name, type in broader.items()]
    return Source("sample", iter(concepts), iter(relations))
