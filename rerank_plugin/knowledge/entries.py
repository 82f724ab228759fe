"""The records of a vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Concept(NamedTuple):
    """A concept and its names.

    ``synonyms`` are all names except the preferred name, without duplicates, in the order of the source.
    ``semantic_types`` are type identifiers such as T047 in UMLS, the letters of a descriptor's trees in MeSH (C for
    diseases), and words in the sample; empty if the source has none.
    """

    id: str
    name: str
    synonyms: tuple[str, ...] = ()
    semantic_types: tuple[str, ...] = ()


class Relation(NamedTuple):
    """A relation from one concept to another, by their ids; ``parent`` is from the child to the parent."""

    head: str
    relation: str
    tail: str


class Source(NamedTuple):
    """A vocabulary as two streams. Each can be read once, and all concepts must be read before the relations.

    ``kept_types`` are the semantic types to keep by default; None keeps all concepts.
    """

    format: str
    concepts: Iterator[Concept]
    relations: Iterator[Relation]
    kept_types: frozenset[str] | None = None


def distinct(name: str, synonyms: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """A preferred name and its synonyms with normalized white space, without empty names and duplicates."""
    name = " ".join(name.split())
    names = dict.fromkeys(" ".join(synonym.split()) for synonym in synonyms)
    return name, tuple(synonym for synonym in names if synonym and synonym != name)
