"""Vectors of queries for a dense index that another program made: by an encoder with its settings, or from a file.

The settings have the names and defaults of ``pyserini.search.faiss``. In shapes D are the numbers of a vector.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.base.settings import check_bounds, setting
from rerank_plugin.files.arrays import map_array
from rerank_plugin.files.text_files import lines

POOLINGS = ("cls", "mean")
LONGEST_LINE = 1 << 22  # bytes of a JSON line with a vector
VECTORS, IDS = ("vector", "embedding"), ("id", "_id", "qid", "query_id")  # keys of JSON lines


@dataclass(frozen=True)
class QueryVectorsConfig:
    """How queries become vectors.

    Attributes:
        query_encoder: the folder of an encoder of sentence-transformers or Hugging Face, its name on the hub,
            ``minilm``, a pair of MedCPT's kind, or a checkpoint of this package.
    """

    query_encoder: str = setting(
        "",
        "encoder of the queries of faiss: a folder of sentence-transformers or Hugging Face, a pair of MedCPT's kind, "
        "a name on the hub, minilm, or a checkpoint (default: what an export has recorded)",
        metavar="ENCODER",
    )
    query_prefix: str = setting("", "text before each query, with a space between them", metavar="TEXT")
    pooling: str | None = setting(
        None,
        "pooling of an encoder's last layer: cls or mean (default: cls, unless the folder has its own)",
        choices=POOLINGS,
        type=str,
    )
    l2_norm: bool = setting(False, "normalize the vectors of queries to length 1")
    max_length: int | None = setting(None, "most word pieces of a query (default: the encoder's own)", type=int, ge=1)
    encoded_queries: str = setting(
        "",
        "vectors of the queries, instead of an encoder: JSON lines with id and vector, or FILE.npy with the ids in "
        "FILE.ids, one on each line",
        metavar="FILE",
    )

    def __post_init__(self) -> None:
        if self.query_encoder and self.encoded_queries:
            raise InputError("queries are encoded by an encoder or read from a file: give one of the two")
        if self.pooling not in (None, *POOLINGS):
            raise InputError(f"unknown pooling '{self.pooling}'; known: {', '.join(POOLINGS)}")
        check_bounds(self)


class EncodedQueries:
    """Vectors from a file, by query id.

    Raises:
        InputError: the file cannot be read, a vector has not ``dimension`` finite numbers, or an id occurs twice.
    """

    def __init__(self, path: str, dimension: int):
        self.path = Path(path)
        self.vectors = self._of_npy(dimension) if self.path.suffix == ".npy" else self._of_json(dimension)

    def encode(self, query: Query) -> np.ndarray:
        """The vector of a query, float32 [D]; an `InputError` if the file lacks it."""
        vector = self.vectors.get(query.id)
        if vector is None:
            raise InputError(
                f"{self.path} has no vector of the query '{query.id}': its ids must be those of the queries"
            )
        return vector

    def _of_npy(self, dimension: int) -> dict[str, np.ndarray]:
        try:
            matrix = map_array(self.path)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"{self.path} cannot be read as an array ({error})") from None
        if matrix.ndim != 2 or matrix.dtype.kind != "f":
            raise InputError(f"{self.path} is an array {matrix.dtype} {matrix.shape}, for float32 [queries, numbers]")
        ids = [text.strip() for _, text in lines(self.path.with_suffix(".ids"))]
        if len(ids) != len(matrix):
            raise InputError(
                f"{self.path} has {len(matrix):,} vectors, {self.path.with_suffix('.ids')} {len(ids):,} ids"
            )
        vectors: dict[str, np.ndarray] = {}
        for number, id in enumerate(ids, 1):
            self._add(vectors, id, matrix[number - 1], number, dimension)
        return vectors

    def _of_json(self, dimension: int) -> dict[str, np.ndarray]:
        if self.path.is_dir() or self.path.suffix in (".pkl", ".pickle", ".pt", ".bin"):
            raise InputError(
                f"{self.path}: pickled vectors can run any program and are not read; if you trust them, convert: "
                f'python -c "import json, pandas; [print(json.dumps(dict(id=str(i), vector=list(map(float, v))))) '
                f"for i, v in pandas.read_pickle('embedding.pkl')[['id', 'embedding']].values]\" > queries.jsonl"
            )
        vectors: dict[str, np.ndarray] = {}
        for number, line in lines(self.path):
            if len(line) > LONGEST_LINE:
                raise InputError(f"{self.path}:{number} has {len(line):,} characters: it is no vector")
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                raise InputError(f"{self.path}:{number} is no JSON object") from None
            id, vector = _value(record, IDS), _value(record, VECTORS)
            if id is None or not isinstance(vector, list):
                raise InputError(f"{self.path}:{number} has no {IDS[0]} and {VECTORS[0]}")
            self._add(vectors, str(id), vector, number, dimension)
        return vectors

    def _add(self, vectors: dict[str, np.ndarray], id: str, values: Any, number: int, dimension: int) -> None:
        try:
            with np.errstate(over="ignore"):  # refused below
                vector = np.array(values, np.float32)
        except (ValueError, TypeError, OverflowError):
            vector = np.zeros(0, np.float32)
        if vector.shape != (dimension,) or not np.isfinite(vector).all():
            raise InputError(
                f"{self.path}:{number} (query '{id}') is no vector of {dimension} finite numbers, as the index has them"
            )
        if id in vectors:
            raise InputError(f"{self.path}:{number} repeats the query '{id}'")
        vectors[id] = vector


def _value(record: Any, keys: tuple[str, ...]) -> Any:
    return next((record[key] for key in keys if key in record), None) if isinstance(record, Mapping) else None


class FolderEncoder:
    """Encodes queries by an encoder of sentence-transformers or Hugging Face.

    They are encoded one at a time: a tokenizer serves one thread.

    A folder with ``modules.json`` pools and normalizes by itself, unless a pooling is given; of others the last layer
    at [CLS] is taken, or the mean of the layer, as Pyserini does.

    Raises:
        InputError: the folder holds no encoder that can be read.
    """

    def __init__(self, folder: Path, config: QueryVectorsConfig, device: str = "cpu"):
        from rerank_plugin.models.encoder.folder import MODULES_FILE, open_encoder, parts_of

        self.folder, self.config, self._lock = parts_of(folder)[0], config, Lock()
        self._whole = (self.folder / MODULES_FILE).is_file() and config.pooling is None
        if self._whole:
            self._model: Any = open_encoder(self.folder, device)
            if config.max_length is not None:
                self._model.max_seq_length = config.max_length
            return
        from rerank_plugin.models.transformers_folder import read_encoder, read_encoder_config, read_tokenizer

        architecture = read_encoder_config(self.folder)
        self._tokenizer = read_tokenizer(self.folder)
        self._model = read_encoder(self.folder, architecture, own_head=False).to(device).eval()
        positions = getattr(architecture, "max_position_embeddings", math.inf)
        self._longest = config.max_length or int(min(self._tokenizer.model_max_length, positions))

    def encode(self, query: Query) -> np.ndarray:
        """The vector of a query's text, float32 [D]."""
        text = f"{self.config.query_prefix} {query.text}" if self.config.query_prefix else query.text
        with self._lock:
            vector = self._by_sentence_transformers(text) if self._whole else self._by_last_layer(text)
        return vector / max(float(np.linalg.norm(vector)), 1e-12) if self.config.l2_norm else vector

    def _by_sentence_transformers(self, text: str) -> np.ndarray:
        return np.asarray(self._model.encode_query(text, show_progress_bar=False), np.float32)

    def _by_last_layer(self, text: str) -> np.ndarray:
        import torch

        pieces = self._tokenizer(text, truncation=True, max_length=self._longest, return_tensors="pt")
        pieces = {name: value.to(self._model.device) for name, value in pieces.items() if name != "token_type_ids"}
        with torch.inference_mode():
            layer = self._model(**pieces)[0][0]  # [word pieces, D]
        return (layer.mean(0) if self.config.pooling == "mean" else layer[0]).float().cpu().numpy()
