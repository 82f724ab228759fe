"""The vectors of an index of shards: one store of the whole index, and one for each shard, of its own documents.

Searches on one machine read the first as that of any index. The shards' stores have the same codes in the same inverted
lists, and count the documents of the whole when they choose lists to read: together they find what the first finds.
"""

from __future__ import annotations

import json
import logging
from functools import partial
from pathlib import Path

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.checksums import CHECKSUM
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.sharding import ShardedForward
from rerank_plugin.indexes.vector_store import (
    COUNTED,
    DESCRIPTION_FILE,
    SOURCE,
    VectorStore,
    check_arrays,
    encodings_folder,
    open_store,
    read_description,
)
from rerank_plugin.indexes.vector_store_writer import ListsConfig, Pieces, append_to_store, write_store
from rerank_plugin.kernels.quantization import Codes, Spaces

log = logging.getLogger(__name__)

OF = "of"  # in the description of a shard's store: the checksum of that of the whole
KEPT = ("checkpoint", "model", SOURCE)  # entries of the description that both have


def divide_store(
    index: ShardedForward, key: str, threads: int | None = None, before: ShardedForward | None = None
) -> None:
    """Write the stores of the shards from that of the whole index by the weights ``key``.

    Args:
        before: the generation before, whose stores in the shards are appended to; None to write them anew.
    """
    described = _description(encodings_folder(index, key))
    of_before = None if before is None else _description(encodings_folder(before, key))[CHECKSUM]
    whole = open_store(index, key, Spaces(described["spaces"]))
    assert whole is not None, "it has just been written"
    held = np.diff(whole.counted, axis=1).sum(axis=0)
    kept = {name: described[name] for name in KEPT if name in described}
    kept |= {OF: described[CHECKSUM], COUNTED: [[0, *np.cumsum(held).tolist()]]}
    for number, (shard, rows) in enumerate(zip(index.shards, index.rows_of)):
        codes = partial(_codes, whole, rows)
        if before is not None and _is_part(
            store := encodings_folder(old := before.shards[number], key), old, of_before
        ):
            append_to_store(store, encodings_folder(shard, key), shard, codes, kept, threads)
            continue
        pieces = Pieces(shard, key, whole.spaces)
        for some in pieces:
            pieces.keep_codes(some, codes(some))
        lists = ListsConfig(probes=whole.probes, floor=0)
        write_store(pieces, kept, lists, overwrite=True, threads=threads, centroids=whole.centroids)


def _is_part(store: Path, shard: ForwardIndex, whole: str | None) -> bool:
    """Whether a shard has a sound store, of that of the whole index with this checksum; otherwise it is written anew.

    A kill may have come between the two.
    """
    if not store.is_dir():
        return False
    try:
        described = read_description(store, shard)
        if described is None or described.get(OF) != whole:
            return False
        check_arrays(store, shard, described, whole=False)
    except InputError as error:
        log.warning("written anew: %s", error)
        return False
    return True


def _description(store: Path) -> dict:
    return json.loads((store / DESCRIPTION_FILE).read_bytes())


def _codes(whole: VectorStore, of_shard: np.ndarray, rows: np.ndarray) -> Codes:
    """The codes of rows int64 [n] of a shard, whose rows in the whole index are ``of_shard`` int [R]."""
    return whole.codes.take(whole.positions[of_shard[rows]])
