"""Vectors of concepts, and their folder ([K] 4.2).

The folder holds concepts.txt (ids, one a line), concepts.safetensors (``vectors`` float32 [C, D] and ``relations``
float32 [R, D]) and concepts.json (settings, the checksum of the knowledge base, measured figures).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.failures import damage
from rerank_plugin.files.checksums import SEAL, check_description, check_files, described_files, sealed
from rerank_plugin.files.outputs import FolderKind, replacing_folder, restore_interrupted
from rerank_plugin.text.vocabulary import read_lines
from rerank_plugin.text.word_vectors import matrix_of, read_tensors

IDS_FILE, VECTORS_FILE, SETTINGS_FILE = "concepts.txt", "concepts.safetensors", "concepts.json"
CONCEPT_VECTORS = FolderKind(
    "a folder of concept vectors", SETTINGS_FILE, ("concepts", "dimension"), (IDS_FILE, VECTORS_FILE)
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
        settings = sealed({**settings, "files": described_files(writing, (IDS_FILE, VECTORS_FILE))}, SEAL)
        text = json.dumps(settings, indent=1, ensure_ascii=False)
        (writing / SETTINGS_FILE).write_text(text, encoding="utf-8")


def load_concept_vectors(folder: str | Path) -> ConceptVectors:
    """Read a folder of concept vectors.

    Raises:
        InputError: a file is missing or damaged, or the numbers of ids and of vectors differ.
    """
    folder = restore_interrupted(folder)
    path = folder / VECTORS_FILE
    try:
        described = json.loads((folder / SETTINGS_FILE).read_text(encoding="utf-8"))
        check_description(folder / SETTINGS_FILE, described, "copy the folder again", SEAL)
        check_files(folder, described.get("files", {}), "copy the folder again")
        ids, tensors = read_lines(folder / IDS_FILE), read_tensors(path)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(
            f"{folder} cannot be read as concept vectors ({damage(error)}); train them with: "
            f"rerank-plugin embed concepts --knowledge KB --output {folder}"
        ) from None
    matrix = matrix_of(tensors, "vectors", path, IDS_FILE, len(ids))
    if len(set(ids)) != len(ids):
        raise InputError(f"{folder / IDS_FILE} names a concept twice; train the vectors again")
    return ConceptVectors(ids, matrix)
