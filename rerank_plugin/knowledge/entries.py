"""The records that the readers of vocabularies return."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Concept(NamedTuple):
    """A concept and its names.

    ``synonyms`` are all names but the preferred one, without duplicates, in the order of the source.
    ``semantic_types`` are in UMLS type identifiers such as T047, in MeSH the letters of a descriptor's trees (C for
    diseases), in the sample words; empty if the source gives none.
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
    """A vocabulary as two streams. Each can be read once; the concepts must be read first, to their end.

    ``kept_types`` are the semantic types that are kept by default, None for all concepts.
    """

    format: str
    concepts: Iterator[Concept]
    relations: Iterator[Relation]
    kept_types: frozenset[str] | None = None


def distinct(name: str, others: Iterator[str] | tuple[str, ...] | list[str]) -> tuple[str, tuple[str, ...]]:
    """A preferred name and its synonyms with normalized white space, without empty names and duplicates."""
    name = " ".join(name.split())
    names = dict.fromkeys(" ".join(other.split()) for other in others)
    return name, tuple(other for other in names if other and other != name)
