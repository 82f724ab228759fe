"""MeSH descriptors, whatever file they come from, as concepts and relations.

MeSH: https://www.nlm.nih.gov/mesh (U.S. National Library of Medicine). A descriptor stands in one or more trees; a tree
number names its place, as C14.280.647 (Myocardial Ischemia) below C14.280 (Heart Diseases). The relations are

    parent                  one step up a tree number
    related                 "see related", to a descriptor that a reader may want instead
    pharmacological action  from a substance to what it does
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rerank_plugin.files.errors import InputError
from rerank_plugin.knowledge.entries import Concept, Relation, Source, distinct

log = logging.getLogger(__name__)

PARENT, RELATED, ACTION = "parent", "related", "pharmacological action"


class Descriptor(NamedTuple):
    """A record of MeSH. ``related`` and ``actions`` hold ids, or names where the format has names (``by_name``).

    ``parents`` are ids where the source names them itself, else None: they follow from the tree numbers.
    """

    where: str
    id: str
    name: str
    terms: list[str]
    tree_numbers: list[str]
    related: list[str] = []
    actions: list[str] = []
    parents: list[str] | None = None


def source(format: str, descriptors: Iterable[Descriptor], by_name: bool = False) -> Source:
    """The concepts and relations of descriptors, which are read once.

    Raises:
        InputError: (while reading) two descriptors have one id.
    """
    trees = _Trees(by_name)
    return Source(format, trees.concepts(descriptors), trees.relations())


class _Trees:
    """The ids, tree numbers and references of all descriptors, kept until the relations are read."""

    def __init__(self, by_name: bool):
        self.by_name = by_name
        self.places: dict[str, str] = {}  # id by tree number
        self.ids: dict[str, str] = {}  # id by name
        self.kept: list[Descriptor] = []
        self.seen: dict[str, str] = {}  # where, by id

    def concepts(self, descriptors: Iterable[Descriptor]) -> Iterator[Concept]:
        for one in descriptors:
            if one.id in self.seen:
                before = self.seen[one.id]
                raise InputError(
                    f"{one.where}: the descriptor {one.id} is there already ({before}); remove one of them"
                )
            self.seen[one.id] = one.where
            name, synonyms = distinct(one.name, one.terms)
            if one.parents is None:
                self._place(one)
            if self.by_name:
                self.ids.setdefault(name, one.id)
            self.kept.append(one._replace(terms=[]))
            yield Concept(one.id, name, synonyms, tuple(sorted({number[0] for number in one.tree_numbers})))

    def _place(self, one: Descriptor) -> None:
        for number in one.tree_numbers:
            other = self.places.setdefault(number, one.id)
            if other != one.id:
                log.warning("%s: the tree number %s belongs to %s, not also to %s", one.where, number, other, one.id)

    def relations(self) -> Iterator[Relation]:
        for one in self.kept:
            parents = one.parents
            if parents is None:
                above = (number.rpartition(".")[0] for number in one.tree_numbers)
                parents = [self.places[number] for number in above if number in self.places]
            for relation, others in ((PARENT, parents), (RELATED, one.related), (ACTION, one.actions)):
                named = self.by_name and relation is not PARENT
                for other in others:
                    yield Relation(one.id, relation, self.ids.get(other, "") if named else other)
