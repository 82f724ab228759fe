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
from hashlib import blake2b
from pathlib import Path

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.failures import damage
from rerank_plugin.files.arrays import are_below, are_offsets, are_sorted, open_array
from rerank_plugin.files.checksums import check_files, passed
from rerank_plugin.files.outputs import FolderKind, restore_interrupted
from rerank_plugin.files.string_table import StringTable, hash_strings

FORMAT_VERSION = 1
DESCRIPTION = "knowledge.json"
KNOWLEDGE_BASE = FolderKind(
    "a compiled knowledge base", DESCRIPTION, ("checksum", "files"), ("annotation/*",), listed="files"
)
REQUIRED = {"files": dict, "relation_names": list, "type_names": list, "checksum": str}


class KnowledgeBase:
    """A compiled vocabulary opened for reading; a concept is a row.

    Raises:
        InputError: the folder is missing, incomplete, damaged, or has another format version.
    """

    def __init__(self, folder: str | Path):
        self.folder = restore_interrupted(folder)
        self.description = _description(self.folder)
        self.checksum: str = self.description["checksum"]
        self.relation_names: list[str] = self.description["relation_names"]
        self.type_names: list[str] = self.description["type_names"]
        opened = []

        def array(name: str, dtype: type[np.generic], length: int | None = None) -> np.ndarray:
            opened.append(self.folder / f"{name}.npy")
            return open_array(opened[-1], dtype=dtype, shape=(length,))

        try:
            self.ids = StringTable(self.folder, "ids")
            concepts = len(self.ids)
            self.names = StringTable(self.folder, "names", rows=concepts)
            self.terms = StringTable(self.folder, "terms")
            self.term_offsets = array("term_offsets", np.uint64, concepts + 1)
            self.types, self.type_offsets = array("types", np.uint16), array("type_offsets", np.uint64, concepts + 1)
            self.heads = array("heads", np.int32)  # [E]
            self.relations, self.tails = (array(name, np.int32, len(self.heads)) for name in ("relations", "tails"))
            self._hashes = array("folded.hashes", np.uint64, len(self.terms))
            self._hashed_terms = array("folded.rows", np.uint32, len(self.terms))
            if not passed(opened, self._is_sound, len(self.type_names), len(self.relation_names)):
                raise ValueError("its arrays do not fit together")
        except (OSError, ValueError) as error:
            problem = f"{self.folder} cannot be read ({damage(error)})"
            raise InputError(f"{problem}; compile the knowledge base again") from None

    def _is_sound(self) -> bool:
        """Whether all concepts, terms, types and relations in the arrays exist."""
        return (
            are_offsets(self.term_offsets, len(self.terms))
            and are_offsets(self.type_offsets, len(self.types))
            and are_below(self.types, len(self.type_names))
            and are_below(self.heads, len(self))
            and are_below(self.tails, len(self))
            and are_below(self.relations, len(self.relation_names))
            and are_sorted(self._hashes)
            and are_below(self._hashed_terms, len(self.terms))
        )

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


def _description(folder: Path) -> dict:
    path = folder / DESCRIPTION
    if not folder.is_dir():
        raise InputError(
            f"no knowledge base at {folder}; compile it with: "
            f"rerank-plugin knowledge compile --source S --output {folder}"
        )
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{folder} has no {DESCRIPTION}: it is not a compiled knowledge base; "
            f"compile a vocabulary with: rerank-plugin knowledge compile --source S --output KB"
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({damage(error)}); compile the knowledge base again") from None
    version = description.get("format_version") if isinstance(description, dict) else None
    if version != FORMAT_VERSION:
        raise InputError(
            f"{folder} has knowledge base format {version}, this program reads {FORMAT_VERSION}; compile it again"
        )
    missing = [name for name, kind in REQUIRED.items() if not isinstance(description.get(name), kind)]
    if missing:
        raise InputError(f"{path} lacks {' and '.join(missing)}; compile the knowledge base again")
    again = "compile the knowledge base again"
    if description["checksum"] != content_checksum(description):
        raise InputError(f"{path} was changed since it was written: {again}")
    check_files(folder, description["files"], again)
    return description


def content_checksum(description: dict) -> str:
    """The checksum of what a knowledge base holds, whatever the name of its source and the version of the package."""
    try:
        files = {name: file["blake2b"] for name, file in description["files"].items()}
    except (KeyError, TypeError, AttributeError):
        return ""
    content = [files, description["relation_names"], description["type_names"]]
    return blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()
