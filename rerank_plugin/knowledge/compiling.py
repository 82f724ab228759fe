"""Writes a vocabulary as the folder that `knowledge_base` describes."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np

from rerank_plugin import __version__
from rerank_plugin.files.arrays import ArrayWriter, save_array
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.fingerprints import describe_file
from rerank_plugin.files.outputs import replacing_folder
from rerank_plugin.files.string_table import StringTableWriter, hash_strings
from rerank_plugin.knowledge.entries import Concept, Relation, Source
from rerank_plugin.knowledge.knowledge_base import DESCRIPTION, FORMAT_VERSION, KNOWLEDGE_BASE, fold

log = logging.getLogger(__name__)

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
    folder = Path(folder)
    with replacing_folder(folder, KNOWLEDGE_BASE, overwrite) as writing:
        concepts = _Concepts(writing, kept_types)
        for batch in _batches(progress(source.concepts, "concepts")):
            concepts.extend(batch)
        concepts.close()
        if not concepts.rows:
            raise InputError(f"{spec}: no concept to compile" + (" with the types to keep" if kept_types else ""))
        relations = _Relations(concepts.rows)
        for relation_batch in _batches(progress(source.relations, "relations")):
            relations.extend(relation_batch)
        relation_names = relations.save(writing)
        counts = {
            "concepts": len(concepts.rows),
            "terms": concepts.terms.offsets.length - 1,
            "relations": relations.kept,
            "concepts_left_out": concepts.left_out,
            "relations_left_out": relations.left_out,
        }
        files = {path.name: describe_file(path) for path in sorted(writing.iterdir())}
        description = {
            "format_version": FORMAT_VERSION,
            "created_by": f"rerank_plugin {__version__}",
            "source": spec,
            "format": source.format,
            "edition": edition,
            "kept_types": None if kept_types is None else sorted(kept_types),
            **counts,
            "relation_names": relation_names,
            "type_names": list(concepts.type_numbers),
            "checksum": _checksum(files, relation_names, list(concepts.type_numbers)),
            "files": files,
        }
        (writing / DESCRIPTION).write_text(json.dumps(description, indent=1, ensure_ascii=False), encoding="utf-8")
    return description


class _Concepts:
    """Writes concepts batch by batch; keeps their rows by id, since the relations name them by id."""

    def __init__(self, folder: Path, kept_types: frozenset[str] | None):
        self.folder, self.kept_types = folder, kept_types
        self.rows: dict[str, int] = {}
        self.left_out = 0
        self.type_numbers: dict[str, int] = {}
        self.ids = StringTableWriter(folder, "ids", searchable=True)
        self.names = StringTableWriter(folder, "names", searchable=False)
        self.terms = StringTableWriter(folder, "terms", searchable=False)
        self.term_offsets = _started(folder / "term_offsets.npy")
        self.types = ArrayWriter(folder / "types.npy", np.uint16)
        self.type_offsets = _started(folder / "type_offsets.npy")
        self.folded: list[np.ndarray] = []  # hashes uint64, 8 bytes a term

    def extend(self, batch: Sequence[Concept]) -> None:
        kept = [concept for concept in batch if self._keep(concept)]
        self.left_out += len(batch) - len(kept)
        for concept in kept:
            if concept.id in self.rows:
                raise InputError(f"the concept {concept.id} ({concept.name}) occurs twice; remove one from the source")
            self.rows[concept.id] = len(self.rows)
        terms = [[concept.name, *concept.synonyms] for concept in kept]
        flat = [term for one in terms for term in one]
        types = [self._numbers(concept.semantic_types) for concept in kept]
        self.ids.extend([concept.id for concept in kept])
        self.names.extend([concept.name for concept in kept])
        self.term_offsets.append(self.terms.offsets.length - 1 + np.cumsum([len(one) for one in terms], dtype=np.int64))
        self.terms.extend(flat)
        self.folded.append(hash_strings([fold(term) for term in flat]))
        self.type_offsets.append(self.types.length + np.cumsum([len(one) for one in types], dtype=np.int64))
        self.types.append([number for one in types for number in one])

    def _keep(self, concept: Concept) -> bool:
        return self.kept_types is None or not self.kept_types.isdisjoint(concept.semantic_types)

    def _numbers(self, types: tuple[str, ...]) -> list[int]:
        return [self.type_numbers.setdefault(type, len(self.type_numbers)) for type in types]

    def close(self) -> None:
        for writer in (self.ids, self.names, self.terms, self.term_offsets, self.types, self.type_offsets):
            writer.close()
        hashes = np.concatenate(self.folded) if self.folded else np.zeros(0, np.uint64)
        order = np.argsort(hashes, kind="stable")
        save_array(self.folder / "folded.hashes.npy", hashes[order])
        save_array(self.folder / "folded.rows.npy", order.astype(np.uint32))


class _Relations:
    """Collects relations between kept concepts, without relations of a concept to itself."""

    def __init__(self, rows: dict[str, int]):
        self.rows = rows
        self.numbers: dict[str, int] = {}
        self.batches: list[np.ndarray] = []  # int32 [n, 3]: head, relation, tail
        self.left_out = self.kept = 0

    def extend(self, batch: Sequence[Relation]) -> None:
        triples = []
        for head, relation, tail in batch:
            head_row, tail_row = self.rows.get(head), self.rows.get(tail)
            if head_row is None or tail_row is None or head_row == tail_row:
                self.left_out += 1
            else:
                triples.append((head_row, self.numbers.setdefault(relation, len(self.numbers)), tail_row))
        self.batches.append(np.array(triples, np.int32).reshape(-1, 3))

    def save(self, folder: Path) -> list[str]:
        """Write the three arrays, sorted and without duplicates; returns the names, sorted, so that the order in which
        a source lists its relations does not matter."""
        names = sorted(self.numbers)
        numbers = np.array([names.index(name) for name in self.numbers], np.int32)
        triples = np.concatenate([*self.batches, np.zeros((0, 3), np.int32)])
        triples[:, 1] = numbers[triples[:, 1]] if len(triples) else 0
        triples = triples[np.lexsort(triples.T[::-1])]
        new = np.ones(len(triples), bool)
        new[1:] = (triples[1:] != triples[:-1]).any(axis=1)
        triples = triples[new]
        self.kept = len(triples)
        for column, name in enumerate(("heads", "relations", "tails")):
            save_array(folder / f"{name}.npy", np.ascontiguousarray(triples[:, column]))
        return names


def _started(path: Path) -> ArrayWriter:
    """A writer of offsets, uint64, which begin with 0."""
    writer = ArrayWriter(path, np.uint64)
    writer.append([0])
    return writer


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    source = iter(items)
    while batch := list(islice(source, BATCH)):
        yield batch


def _checksum(files: dict[str, dict], *lists: list[str]) -> str:
    """A checksum of the content alone, independent of its source's name and of the time of compiling."""
    content = {name: described["blake2b"] for name, described in files.items()}
    return blake2b(json.dumps([content, *lists]).encode(), digest_size=16).hexdigest()
