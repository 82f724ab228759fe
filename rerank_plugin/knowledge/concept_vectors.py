"""Vectors of concepts, and their folder ([K] 4.2).

The folder holds concepts.txt (ids, one a line), concepts.safetensors (``vectors`` float32 [C, D] and ``relations``
float32 [R, D]) and concepts.json (settings, the checksum of the knowledge base, measured figures).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.artifact import Artifact
from rerank_plugin.files.outputs import replacing_folder
from rerank_plugin.text.vocabulary import read_lines
from rerank_plugin.text.word_vectors import matrix_of, read_tensors

IDS_FILE, VECTORS_FILE = "concepts.txt", "concepts.safetensors"
CONCEPT_VECTORS = Artifact(
    "a folder of concept vectors",
    "concepts.json",
    {"concepts": int, "dimension": int},
    (IDS_FILE, VECTORS_FILE),
    editable=True,
    again="copy it again, or train them with: rerank-plugin embed concepts --knowledge KB --output C",
)


class ConceptVectors(NamedTuple):
    """Concept ids and their vectors, float32 [C, D]."""

    ids: list[str]
    matrix: np.ndarray


def save_concept_vectors(
    ids: Sequence[str], matrix: np.ndarray, relations: np.ndarray, folder: Path, settings: dict, overwrite: bool = False
) -> None:
    """Write a folder of concept vectors, atomically. Shapes: matrix [C, D], relations [R, D]."""
    from safetensors.numpy import save_file

    tensors = {"vectors": matrix, "relations": relations}
    settings = {"concepts": len(ids), "dimension": matrix.shape[1], **settings}
    with replacing_folder(folder, CONCEPT_VECTORS, overwrite) as writing:
        (writing / IDS_FILE).write_text("".join(f"{id}\n" for id in ids), encoding="utf-8")
        save_file(
            {name: np.ascontiguousarray(tensor, np.float32) for name, tensor in tensors.items()},
            writing / VECTORS_FILE,
        )
        CONCEPT_VECTORS.seal(writing, settings)


def load_concept_vectors(folder: str | Path) -> ConceptVectors:
    """Read a folder of concept vectors.

    Raises:
        InputError: a file is missing or damaged, or the numbers of ids and of vectors differ.
    """
    folder = CONCEPT_VECTORS.open(folder).folder
    path = folder / VECTORS_FILE
    ids = read_lines(folder / IDS_FILE)
    matrix = matrix_of(read_tensors(path), "vectors", path, IDS_FILE, len(ids))
    if len(set(ids)) != len(ids):
        raise InputError(f"{folder / IDS_FILE} names a concept twice; train the vectors again")
    return ConceptVectors(ids, matrix)
