"""The bundled vocabulary: the concepts that the bundled collection is made of, with their lay and expert names.

It holds every concept of `sample.contents`, and every broader concept that one of them names. The relations are
``broader``, from a concept to the broader one, and ``concerns``, from a drug, gene or procedure to its conditions.
"""

from __future__ import annotations

from rerank_plugin.knowledge.entries import Concept, Relation, Source, distinct
from rerank_plugin.sample.contents import CONCEPTS

BROADER, CONCERNS = "broader", "concerns"


def source() -> Source:
    wider: dict[str, str] = {}  # the type of each broader concept that is none of the bundled ones, by its name
    for one in CONCEPTS:
        if one.broader:
            wider.setdefault(one.broader, one.type)
    ids = {key: f"S{number:03}" for number, key in enumerate([*(one.key for one in CONCEPTS), *wider], 1)}
    concepts = [Concept(ids[one.key], *distinct(one.forms[0], one.forms[1:]), (one.type,)) for one in CONCEPTS]
    concepts += [Concept(ids[name], name, (), (type,)) for name, type in wider.items()]
    relations = []
    for one in CONCEPTS:
        if one.broader:
            relations.append(Relation(ids[one.key], BROADER, ids[one.broader]))
        relations += [Relation(ids[one.key], CONCERNS, ids[condition]) for condition in one.conditions]
    return Source("sample", iter(concepts), iter(relations))
