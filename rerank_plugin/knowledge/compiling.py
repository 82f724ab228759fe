"""Compiles a vocabulary to a folder; `knowledge_base` describes its files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from rerank_plugin import __version__
from rerank_plugin.base.errors import InputError
from rerank_plugin.concepts.knowledge_base import KNOWLEDGE_BASE, content_checksum, fold
from rerank_plugin.files.arrays import ArrayWriter, OffsetsWriter, save_array
from rerank_plugin.files.outputs import replacing_folder
from rerank_plugin.files.string_table import StringTableWriter, hash_strings
from rerank_plugin.knowledge.entries import Concept, Relation, Source

BATCH = 10_000  # concepts or relations to write at once
T = TypeVar("T")


class Progress(Protocol):
    """Wraps records for a progress bar; ``unit`` is "concepts" or "relations"."""

    def __call__(self, records: Iterable[T], unit: str, /) -> Iterable[T]: ...


def compile_knowledge(
    source: Source,
    folder: Path,
    spec: str,
    edition: str = "",
    kept_types: frozenset[str] | None = None,
    overwrite: bool = False,
    progress: Progress = lambda records, unit: records,
) -> dict[str, Any]:
    """Compile a vocabulary to ``folder``, atomically.

    Args:
        spec: the name of the source, for the description; not part of the checksum.
        kept_types: keep only the concepts with one of these semantic types; None keeps all concepts.
        progress: wraps the concepts and the relations, for a progress bar.

    Returns:
        The content of knowledge.json.

    Raises:
        InputError: the folder exists and must not be replaced, an id occurs twice, or no concept is left.
    """
    with replacing_folder(Path(folder), KNOWLEDGE_BASE, overwrite) as writing:
        concepts = _batches(progress(source.concepts, "concepts"))
        rows, type_names, terms, concepts_left_out = _write_concepts(concepts, kept_types, writing)
        if not rows:
            raise InputError(f"{spec}: no concept to compile" + (" with the types to keep" if kept_types else ""))
        relations = _batches(progress(source.relations, "relations"))
        relation_names, relation_count, relations_left_out = _write_relations(relations, rows, writing)
        description = {
            "created_by": f"rerank_plugin {__version__}",
            "source": spec,
            "format": source.format,
            "edition": edition,
            "kept_types": None if kept_types is None else sorted(kept_types),
            "concepts": len(rows),
            "terms": terms,
            "relations": relation_count,
            "concepts_left_out": concepts_left_out,
            "relations_left_out": relations_left_out,
            "relation_names": relation_names,
            "type_names": type_names,
        }
        checksum = content_checksum({**description, "files": KNOWLEDGE_BASE.describe(writing)})
        return KNOWLEDGE_BASE.seal(writing, {**description, "checksum": checksum})


def _write_concepts(
    batches: Iterable[list[Concept]], kept_types: frozenset[str] | None, folder: Path
) -> tuple[dict[str, int], list[str], int, int]:
    """Write the arrays of concepts.

    Returns:
        The rows of concepts by id, the names of types, the number of terms, and the number of left-out concepts.
    """
    rows: dict[str, int] = {}
    type_numbers: dict[str, int] = {}
    left_out = 0
    ids = StringTableWriter(folder, "ids", searchable=True)
    names, terms = (StringTableWriter(folder, name, searchable=False) for name in ("names", "terms"))
    types = ArrayWriter(folder / "types.npy", np.uint16)
    term_offsets, type_offsets = (OffsetsWriter(folder / f"{kind}_offsets.npy") for kind in ("term", "type"))
    folded = [np.zeros(0, np.uint64)]  # hashes, 8 bytes a term
    for batch in batches:
        kept = [concept for concept in batch if kept_types is None or not kept_types.isdisjoint(concept.semantic_types)]
        left_out += len(batch) - len(kept)
        for concept in kept:
            if concept.id in rows:
                raise InputError(f"the concept {concept.id} ({concept.name}) occurs twice; remove one from the source")
            rows[concept.id] = len(rows)
        ids.extend([concept.id for concept in kept])
        names.extend([concept.name for concept in kept])
        terms_of_concepts = [[concept.name, *concept.synonyms] for concept in kept]
        flat_terms = list(chain.from_iterable(terms_of_concepts))
        term_offsets.extend([len(concept_terms) for concept_terms in terms_of_concepts])
        terms.extend(flat_terms)
        folded.append(hash_strings([fold(term) for term in flat_terms]))
        type_offsets.extend([len(concept.semantic_types) for concept in kept])
        flat_types = chain.from_iterable(concept.semantic_types for concept in kept)
        types.append([type_numbers.setdefault(type, len(type_numbers)) for type in flat_types])
    for writer in (ids, names, terms, term_offsets, types, type_offsets):
        writer.close()
    hashes = np.concatenate(folded)
    order = np.argsort(hashes, kind="stable")
    save_array(folder / "folded.hashes.npy", hashes[order])
    save_array(folder / "folded.rows.npy", order.astype(np.uint32))
    return rows, list(type_numbers), term_offsets.end, left_out


def _write_relations(
    batches: Iterable[list[Relation]], rows: dict[str, int], folder: Path
) -> tuple[list[str], int, int]:
    """Write the relations between different kept concepts, sorted and without duplicates.

    Returns:
        The sorted names of relations, so that their order in the source does not matter; the number of written
        relations; and the number of left-out relations.
    """
    numbers: dict[str, int] = {}
    left_out = 0
    arrays = [np.zeros((0, 3), np.int32)]  # head, relation, tail
    for batch in batches:
        kept = []
        for head, relation, tail in batch:
            head_row, tail_row = rows.get(head), rows.get(tail)
            if head_row is None or tail_row is None or head_row == tail_row:
                left_out += 1
            else:
                kept.append((head_row, numbers.setdefault(relation, len(numbers)), tail_row))
        arrays.append(np.array(kept, np.int32).reshape(-1, 3))
    names = sorted(numbers)
    triples = np.concatenate(arrays)
    triples[:, 1] = np.array([names.index(name) for name in numbers], np.int32)[triples[:, 1]]
    triples = np.unique(triples, axis=0)
    for column, name in enumerate(("heads", "relations", "tails")):
        save_array(folder / f"{name}.npy", np.ascontiguousarray(triples[:, column]))
    return names, len(triples), left_out


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    remaining = iter(items)
    while batch := list(islice(remaining, BATCH)):
        yield batch
