"""A compiled vocabulary, memory-mapped: concepts, their names, types and relations as arrays.

The folder holds, for C concepts, T terms and E relations:

    ids, names           string tables [C]; ids is searchable
    terms                string table [T]: all names of each concept, the preferred name first
    term_offsets         uint64 [C+1]: the terms of concept c are term_offsets[c] to term_offsets[c+1]
    folded.hashes, .rows uint64 and uint32 [T]: sorted hashes of the case-folded terms, and the rows of these terms
    types, type_offsets  uint16 and uint64 [C+1]: the semantic types of each concept, as positions in type_names
    heads, relations, tails  int32 [E]: rows, positions in relation_names, rows; sorted, without duplicates
    knowledge.json       source, type_names and relation_names, sizes and checksum
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from rerank_plugin.files.artifact import Array, Artifact
from rerank_plugin.files.string_table import hash_strings

KNOWLEDGE_BASE = Artifact(
    "a compiled knowledge base",
    "knowledge.json",
    {"checksum": str, "files": dict[str, dict[str, Any]], "relation_names": list[str], "type_names": list[str]},
    ("annotation/*",),
    arrays={
        "term_offsets": Array(np.uint64, "C+1", offsets="T"),
        "types": Array(np.uint16, "Y", below="N"),
        "type_offsets": Array(np.uint64, "C+1", offsets="Y"),
        "heads": Array(np.int32, "E", below="C"),
        "relations": Array(np.int32, "E", below="M"),
        "tails": Array(np.int32, "E", below="C"),
        "folded.hashes": Array(np.uint64, "T", increasing=True),
        "folded.rows": Array(np.uint32, "T", below="T"),
    },
    strings={"ids": "C", "names": "C", "terms": "T"},
    sizes={"N": "type_names", "M": "relation_names"},
    version=2,
    apart=("annotation/*",),
    again="compile it with: rerank-plugin knowledge compile --source S --output KB",
)


class KnowledgeBase:
    """A compiled vocabulary opened for reading; a concept is a row.

    Raises:
        InputError: the folder is missing, incomplete, damaged, or has another format version.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        opened = KNOWLEDGE_BASE.open(folder)
        self.description, arrays = opened.description, opened.arrays
        self.checksum: str = self.description["checksum"]
        self.relation_names: list[str] = self.description["relation_names"]
        self.type_names: list[str] = self.description["type_names"]
        self.ids, self.names, self.terms = opened.strings.values()
        self.term_offsets, self.types, self.type_offsets = (
            arrays[name] for name in ("term_offsets", "types", "type_offsets")
        )
        self.heads, self.relations, self.tails = (arrays[name] for name in ("heads", "relations", "tails"))  # [E]
        self._hashes, self._hashed_terms = arrays["folded.hashes"], arrays["folded.rows"]

    def __len__(self) -> int:
        return len(self.ids)

    def semantic_types(self, row: int) -> tuple[str, ...]:
        """The semantic types of a concept; () if the source has none."""
        start, end = int(self.type_offsets[row]), int(self.type_offsets[row + 1])
        return tuple(self.type_names[number] for number in self.types[start:end].tolist())

    def terms_of(self, row: int) -> list[str]:
        """All names of a concept, the preferred name first."""
        return self.terms.take(np.arange(int(self.term_offsets[row]), int(self.term_offsets[row + 1])))

    def concepts_of_terms(self, terms: np.ndarray) -> np.ndarray:
        """The concepts of terms, int64 [n]. Shapes: terms int [n], rows of ``terms``."""
        rows = np.asarray(terms).astype(np.uint64)
        return np.searchsorted(self.term_offsets, rows, side="right").astype(np.int64) - 1

    def rows_of_name(self, text: str) -> list[int]:
        """The concepts with this name, ignoring case and white space, in increasing order."""
        folded = fold(text)
        hashes = hash_strings([folded])
        first, last = (int(np.searchsorted(self._hashes, hashes, side)[0]) for side in ("left", "right"))
        terms = [int(term) for term in self._hashed_terms[first:last] if fold(self.terms[int(term)]) == folded]
        return sorted(set(self.concepts_of_terms(np.array(terms, np.int64)).tolist()))


def fold(text: str) -> str:
    """A case-folded name with single spaces, for comparisons."""
    return " ".join(text.casefold().split())


def content_checksum(description: Mapping[str, Any]) -> str:
    """The checksum of what a knowledge base holds, whatever the name of its source and the version of the package."""
    files = {name: file["blake2b"] for name, file in description["files"].items()}
    content = [files, description["relation_names"], description["type_names"]]
    return blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()
