"""Encodes the documents of an index on a Ray cluster: pieces of rows go to its tasks, and their codes come back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.cluster.config import ClusterConfig
from rerank_plugin.cluster.mapping import cluster_map
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.vector_store_writer import quantized_vectors
from rerank_plugin.models.document_encodings import EncodedPiece, document_encoder
from rerank_plugin.retrieval.encoding import IndexEncoder


def encode_on_cluster(
    encoder: IndexEncoder, batch_size: int | None, config: ClusterConfig
) -> Callable[[Iterable[np.ndarray]], Iterator[EncodedPiece]]:
    """A function that encodes pieces of rows, int64 [n], for :meth:`IndexEncoder.encode`; errors as in `cluster_map`.

    Args:
        encoder: its index and its checkpoint are at the same paths on all machines.
        batch_size: documents encoded at once in each process.
    """
    owner = encoder.index.owner
    assert owner is not None, "encodings are kept in an index folder"
    described = owner.folder, encoder.checkpoint, encoder.device, batch_size, encoder.index.checksum, encoder.key
    return partial(cluster_map, partial(open_encoding, *described), config=config)


def open_encoding(
    folder: Path, checkpoint: str | Path, device: str, batch_size: int | None, checksum: Any, key: str
) -> Callable[[np.ndarray], EncodedPiece]:
    """The function that encodes a piece in a process of the cluster."""
    encoder = IndexEncoder(Index(folder).forward, checkpoint, device)
    for path, found, expected in ((folder, encoder.index.checksum, checksum), (checkpoint, encoder.key, key)):
        if found != expected:
            raise InputError(f"{path} differs from that of the command's machine: share the folder, or copy it again")
    encode = document_encoder(encoder.model, encoder.builder, device, batch_size)

    def encoded(rows: np.ndarray) -> EncodedPiece:
        return rows, quantized_vectors(encoder.index, rows, encode(rows), encoder.spaces)

    return encoded
