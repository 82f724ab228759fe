"""Encodes the documents of an index on a Ray cluster: batches of rows go to its processes, codes come back."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayError, RayTaskError
from ray.util import ActorPool

from rerank_plugin.base.errors import InputError, one_line
from rerank_plugin.cluster.config import ClusterConfig
from rerank_plugin.cluster.connection import cluster_processors, connect, environment
from rerank_plugin.encoding.index_encoder import IndexEncoder
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.vector_store_writer import quantized_vectors
from rerank_plugin.models.document_encoder import EncodedBatch, document_encoder

AHEAD = 3  # batches that each process is sent before their turn
RETRIES = 3  # of a batch whose process died


class EncodingProcess:
    """A process that encodes batches; it opens index and checkpoint, at the paths of the command's machine, once."""

    def __init__(self, working_folder: str, folder: Path, checkpoint: str | Path, device: str, batch_size: int | None):
        self.place, self.batch_size = (working_folder, folder, checkpoint, device), batch_size
        self.encode: Any = None

    def encoded(self, rows: np.ndarray, checksum: Any, key: str) -> EncodedBatch:
        """The codes of rows int64 [n]; an `InputError` if the files are not those with these checksums."""
        try:
            if self.encode is None:
                self.encode = self._opened(checksum, key)
            return rows, self.encode(rows)
        except (OSError, InputError) as error:
            raise InputError(f"on machine {socket.gethostname()}: {error}") from None

    def _opened(self, checksum: Any, key: str) -> Callable[[np.ndarray], Any]:
        working_folder, folder, checkpoint, device = self.place
        os.chdir(working_folder)
        encoder = IndexEncoder(Index(folder).forward, checkpoint, device)
        for path, own, expected in ((folder, encoder.index.checksum, checksum), (checkpoint, encoder.key, key)):
            if own != expected:
                raise InputError(f"{path} differs from that of the command's machine: share the folder, or copy it")
        encode = document_encoder(encoder.model, encoder.builder, device, self.batch_size)
        return lambda rows: quantized_vectors(encoder.index, rows, encode(rows), encoder.spaces)


def encode_on_cluster(
    encoder: IndexEncoder, batch_size: int | None, config: ClusterConfig
) -> Callable[[Iterable[np.ndarray]], Iterator[EncodedBatch]]:
    """A function that encodes batches of rows, int64 [n], for :meth:`IndexEncoder.encode`; it keeps their order.

    Args:
        encoder: its index and its checkpoint are at the same paths on all machines.
        batch_size: documents encoded at once in each process.
        config: address of the cluster, and Java's heap in each process.

    Raises:
        InputError: there is no such cluster; a machine has other files; or the processes of a batch died again and
            again.
    """
    owner = encoder.index.owner
    assert owner is not None, "encodings are kept in an index folder"
    opening = os.getcwd(), owner.folder, encoder.checkpoint, encoder.device, batch_size
    return partial(_encoded, opening, (encoder.index.checksum, encoder.key), config)


def _encoded(
    opening: tuple, checksums: tuple[Any, str], config: ClusterConfig, batches: Iterable[np.ndarray]
) -> Iterator[EncodedBatch]:
    connect(config.address)
    actor: Any = ray.remote(EncodingProcess).options(
        num_cpus=1, max_restarts=-1, max_task_retries=RETRIES, scheduling_strategy="SPREAD",
        runtime_env=environment(config.heap),
    )  # fmt: skip
    actors = [actor.remote(*opening) for _ in range(cluster_processors())]
    pool: Any = ActorPool(actors * AHEAD)
    try:
        yield from pool.map(lambda each, rows: each.encoded.remote(rows, *checksums), batches)
    except RayTaskError as error:
        if isinstance(error.cause, InputError):
            raise error.cause from None
        raise
    except RayError as error:
        raise InputError(
            f"the processes of a batch died on the cluster, the last of {RETRIES + 1} with: {one_line(error):.300}"
        ) from None
    finally:
        for each in actors:
            ray.kill(each)
