"""What the readers of vocabularies hand over."""

from __future__ import annotations

from typing import Iterator, NamedTuple


class Concept(NamedTuple):
    """A concept and its names.

    ``synonyms`` are all names but the preferred one, without duplicates, in the order of the source.
    ``semantic_types`` are what a concept is: in UMLS type identifiers such as T047, in MeSH the letters of the trees
    that a descriptor stands in (C for diseases), in the sample words; empty where the source gives none.
    """

    id: str
    name: str
    synonyms: tuple[str, ...] = ()
    semantic_types: tuple[str, ...] = ()


class Relation(NamedTuple):
    """``head`` has ``relation`` to ``tail``, both ids; a child has ``parent`` to its parent."""

    head: str
    relation: str
    tail: str


class Source(NamedTuple):
    """A vocabulary that is being read. Both streams are read once, the concepts first and to their end.

    ``kept_types`` are the semantic types that are kept by default, None for all concepts.
    """

    format: str
    concepts: Iterator[Concept]
    relations: Iterator[Relation]
    kept_types: frozenset[str] | None = None


def distinct(name: str, others: Iterator[str] | tuple[str, ...] | list[str]) -> tuple[str, tuple[str, ...]]:
    """A preferred name and its synonyms, white space made plain, without the empty and those that are there already."""
    name = " ".join(name.split())
    names = dict.fromkeys(" ".join(other.split()) for other in others)
    return name, tuple(other for other in names if other and other != name)
