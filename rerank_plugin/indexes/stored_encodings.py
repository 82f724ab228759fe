"""Encodings: one vector per document, computed once by a model and stored in the index folder.

``INDEX/encodings/KEY`` is the folder of one encoding; KEY is the checksum of the model's weights:

==============  ==========================  ========================================================================
file            dtype and shape             content
==============  ==========================  ========================================================================
000001.npy      float32 or float16 [R, E]   the vectors, a file a segment, rows as there; memory-mapped when it is read
encodings.json                              checksums of weights, segments and vectors, shape, dtype, what made it
==============  ==========================  ========================================================================

``INDEX/encodings/KEY.pieces`` has the vectors of an interrupted encoding.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.arrays import ArrayWriter, open_array
from rerank_plugin.files.outputs import INNER, FolderKind, replacing, replacing_folder
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.index_folder import ENCODINGS as FOLDER
from rerank_plugin.indexes.index_folder import reading, write_description

log = logging.getLogger(__name__)

DESCRIPTION_FILE = "encodings.json"
ENCODED = FolderKind(
    "a folder of encodings",
    DESCRIPTION_FILE,
    ("weights", "forward_index"),
    ("*.npy", "ivf/*", "hnsw/*", "judged/*"),
)
FORMAT_VERSION = 1
PIECES = ".pieces"  # ends the name of the folder of an encoding that is not complete
DTYPES = ("float32", "float16")


def encodings_folder(index: ForwardIndex, key: str) -> Path:
    """The folder for the encodings by the weights with this checksum; it need not exist."""
    return index.folder / FOLDER / key


def vectors_file(index: ForwardIndex) -> str:
    """The name of the file of vectors in a folder of encodings."""
    return f"{index.layout.vectors}.npy"


def write_encodings(
    index: ForwardIndex,
    key: str,
    pieces: Iterable[np.ndarray],
    size: int,
    dtype: str = "float32",
    description: dict | None = None,
    overwrite: bool = False,
) -> Path:
    """Write the vectors of all documents as a stream, atomically; returns their folder.

    Args:
        key: checksum of the weights.
        pieces: vectors float32 [n, E] in row order, R rows in all.
        dtype: of the stored vectors, float32 or float16.
        description: further entries for ``encodings.json``, as JSON values.

    Raises:
        InputError: the folder exists and must not be replaced, or a vector is not finite in this dtype.
    """
    folder = encodings_folder(index, key)
    if index.checksum is None:
        raise InputError(f"{index.folder} is no index folder with an index.json, which tells which documents it holds")
    described = {
        "format_version": FORMAT_VERSION,
        "weights": key,
        "forward_index": index.checksum,
        "shape": [len(index), size],
        "dtype": dtype,
        **(description or {}),
    }
    with replacing_folder(folder, ENCODED, overwrite) as writing:
        vectors = ArrayWriter(writing / vectors_file(index), dtype, (size,))
        for piece in pieces:
            with np.errstate(over="ignore"):
                stored = np.asarray(piece, dtype)
            if len(bad := np.flatnonzero(~np.isfinite(stored).all(axis=1))):
                row = vectors.length + int(bad[0])
                raise InputError(f"the vector of document {index.ids[row]} is not finite in {dtype}")
            vectors.append(stored)
        vectors.close()
        if vectors.length != len(index):
            raise RuntimeError(f"{vectors.length} vectors for {len(index)} documents")
        write_description(writing / DESCRIPTION_FILE, described, [vectors_file(index)])
    return folder


class KeptPieces:
    """The vectors that an encoding by the weights ``key`` has made so far, as files beside the folder of encodings."""

    def __init__(self, index: ForwardIndex, key: str):
        self.index, self.folder = index, index.folder / FOLDER / f"{key}{PIECES}"

    def _file(self, rows: np.ndarray) -> Path:
        name = json.dumps([self.index.checksum, int(rows[0]), len(rows)], sort_keys=True)
        return self.folder / f"{blake2b(name.encode(), digest_size=16).hexdigest()}.npy"

    def find(self, rows: np.ndarray, size: int) -> np.ndarray | None:
        """The vectors of consecutive rows int64 [n], float32 [n, size]; None if there are none, an `InputError` if the
        file is damaged."""
        path = self._file(rows)
        if not path.is_file():
            return None
        with reading(path, "delete the file"):
            vectors = np.load(path, allow_pickle=False)
            if vectors.shape != (len(rows), size):
                raise ValueError(f"it has the shape {vectors.shape}")
        return vectors

    def keep(self, rows: np.ndarray, vectors: np.ndarray) -> None:
        """Write vectors float32 [n, size] of consecutive rows, atomically."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with replacing(self._file(rows), INNER, overwrite=True) as file:
            np.save(file, vectors)

    def remove(self) -> None:
        """Remove the files: the encoding is complete."""
        for path in self.folder.glob("*.npy"):
            path.unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()


def find_encodings(index: ForwardIndex, key: str, size: int) -> np.ndarray | None:
    """The vectors of an index by the weights ``key``, float32 or float16 [R, E], memory-mapped; None if there are none.

    Vectors of another forward index are not used: a warning is logged, and the result is None.

    Raises:
        InputError: the folder exists, but is damaged.
    """
    folder = encodings_folder(index, key)
    if not folder.is_dir():
        return None
    again = "delete the folder, or encode again in its place"
    with reading(folder, again):
        described = json.loads((folder / DESCRIPTION_FILE).read_bytes())
        found = {name: described[name] for name in ("format_version", "weights", "forward_index", "shape", "dtype")}
        vectors = open_array(folder / vectors_file(index))
    if found["forward_index"] != index.checksum:
        log.warning("%s was made from another index and is not used; %s", folder, again)
        return None
    shape = [len(index), size]
    expected = {"format_version": FORMAT_VERSION, "weights": key, "shape": shape}
    wrong = [f"{name} {found[name]}, expected {value}" for name, value in expected.items() if found[name] != value]
    if found["dtype"] not in DTYPES:
        wrong.append(f"dtype {found['dtype']}, expected one of {', '.join(DTYPES)}")
    if not wrong and (list(vectors.shape), str(vectors.dtype)) != (shape, found["dtype"]):
        wrong.append(
            f"{vectors_file(index)} is {vectors.dtype} {list(vectors.shape)}, expected {found['dtype']} {shape}"
        )
    if wrong:
        raise InputError(f"{folder} does not fit: {'; '.join(wrong)}; {again}")
    return vectors
