"""Writes a vocabulary as the folder that `knowledge_base` describes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

import numpy as np

from rerank_plugin import __version__
from rerank_plugin.base.errors import InputError
from rerank_plugin.files.arrays import ArrayWriter, OffsetsWriter, save_array
from rerank_plugin.files.fingerprints import describe_file
from rerank_plugin.files.outputs import replacing_folder
from rerank_plugin.files.string_table import StringTableWriter, hash_strings
from rerank_plugin.knowledge.entries import Concept, Relation, Source
from rerank_plugin.knowledge.knowledge_base import DESCRIPTION, FORMAT_VERSION, KNOWLEDGE_BASE, fold

BATCH = 10_000  # concepts or relations that are written at once
T = TypeVar("T")


def compile_knowledge(
    source: Source,
    folder: Path,
    spec: str,
    edition: str = "",
    kept_types: frozenset[str] | None = None,
    overwrite: bool = False,
    progress: Callable[[Iterable[T], str], Iterable[T]] = lambda records, unit: records,
) -> dict:
    """Compile a vocabulary to ``folder``, in a temporary sibling that is renamed when everything is written.

    Args:
        spec: the name of the source as given, for the description; not part of the checksum.
        kept_types: a concept is kept if it has one of these semantic types; None keeps all concepts.
        progress: wraps the concepts and the relations, for a progress bar; its second argument tells which.

    Returns:
        The content of knowledge.json.

    Raises:
        InputError: something exists there that must not be replaced, an id occurs twice, or no concept is left.
    """
    with replacing_folder(Path(folder), KNOWLEDGE_BASE, overwrite) as writing:
        concepts = _batches(progress(source.concepts, "concepts"))
        rows, type_names, terms, concepts_left_out = _write_concepts(concepts, kept_types, writing)
        if not rows:
            raise InputError(f"{spec}: no concept to compile" + (" with the types to keep" if kept_types else ""))
        relations = _batches(progress(source.relations, "relations"))
        relation_names, relation_count, relations_left_out = _write_relations(relations, rows, writing)
        files = {path.name: describe_file(path) for path in sorted(writing.iterdir())}
        # Of the content alone, independent of its source's name and of the time of compiling.
        content = [{name: described["blake2b"] for name, described in files.items()}, relation_names, type_names]
        description = {
            "format_version": FORMAT_VERSION,
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
            "checksum": blake2b(json.dumps(content).encode(), digest_size=16).hexdigest(),
            "files": files,
        }
        (writing / DESCRIPTION).write_text(json.dumps(description, indent=1, ensure_ascii=False), encoding="utf-8")
    return description


def _write_concepts(
    batches: Iterable[list[Concept]], kept_types: frozenset[str] | None, folder: Path
) -> tuple[dict[str, int], list[str], int, int]:
    """Write the arrays of concepts.

    Returns the concepts' rows by id; the names of types; how many terms there are; and how many concepts were left out.
    """
    rows: dict[str, int] = {}
    type_numbers: dict[str, int] = {}
    left_out = 0
    ids = StringTableWriter(folder, "ids", searchable=True)
    names, terms = (StringTableWriter(folder, name, searchable=False) for name in ("names", "terms"))
    types = ArrayWriter(folder / "types.npy", np.uint16)
    term_offsets, type_offsets = (OffsetsWriter(folder / f"{of}_offsets.npy") for of in ("term", "type"))
    folded = [np.zeros(0, np.uint64)]  # hashes, 8 bytes a term
    for batch in batches:
        kept = [one for one in batch if kept_types is None or not kept_types.isdisjoint(one.semantic_types)]
        left_out += len(batch) - len(kept)
        for one in kept:
            if one.id in rows:
                raise InputError(f"the concept {one.id} ({one.name}) occurs twice; remove one from the source")
            rows[one.id] = len(rows)
        ids.extend([one.id for one in kept])
        names.extend([one.name for one in kept])
        of_concepts = [[one.name, *one.synonyms] for one in kept]
        flat = list(chain.from_iterable(of_concepts))
        term_offsets.extend([len(one) for one in of_concepts])
        terms.extend(flat)
        folded.append(hash_strings([fold(term) for term in flat]))
        type_offsets.extend([len(one.semantic_types) for one in kept])
        flat_types = chain.from_iterable(one.semantic_types for one in kept)
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
    """Write the relations between kept concepts, but for those of a concept to itself, sorted and without duplicates.

    Returns the names of relations, sorted, so that the order in which a source lists its relations does not matter; how
    many relations were written; and how many were left out.
    """
    numbers: dict[str, int] = {}
    left_out = 0
    arrays = [np.zeros((0, 3), np.int32)]  # head, relation, tail
    for batch in batches:
        found = []
        for head, relation, tail in batch:
            head_row, tail_row = rows.get(head), rows.get(tail)
            if head_row is None or tail_row is None or head_row == tail_row:
                left_out += 1
            else:
                found.append((head_row, numbers.setdefault(relation, len(numbers)), tail_row))
        arrays.append(np.array(found, np.int32).reshape(-1, 3))
    names = sorted(numbers)
    triples = np.concatenate(arrays)
    triples[:, 1] = np.array([names.index(name) for name in numbers], np.int32)[triples[:, 1]]
    triples = np.unique(triples, axis=0)
    for column, name in enumerate(("heads", "relations", "tails")):
        save_array(folder / f"{name}.npy", np.ascontiguousarray(triples[:, column]))
    return names, len(triples), left_out


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    source = iter(items)
    while batch := list(islice(source, BATCH)):
        yield batch
