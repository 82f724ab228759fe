"""The vectors of an index of shards: one store of the whole index, and one for each shard, of its own documents.

Searches on one machine read the first as that of any index. The shards' stores have the same codes in the same inverted
lists, and count the documents of the whole when they choose lists to read: together they find what the first finds.
"""

from __future__ import annotations

import json

from rerank_plugin.files.checksums import CHECKSUM
from rerank_plugin.indexes.sharding import ShardedForward
from rerank_plugin.indexes.vector_store import COUNTED, DESCRIPTION_FILE, SOURCE, encodings_folder, open_store
from rerank_plugin.indexes.vector_store_writer import ListsConfig, Pieces, write_store
from rerank_plugin.kernels.quantization import Spaces

OF = "of"  # in the description of a shard's store: the checksum of that of the whole
KEPT = ("checkpoint", "model", SOURCE)  # entries of the description that both have


def divide_store(index: ShardedForward, key: str, threads: int | None = None) -> None:
    """Write the stores of the shards from that of the whole index by the weights ``key``."""
    described = json.loads((encodings_folder(index, key) / DESCRIPTION_FILE).read_bytes())
    whole = open_store(index, key, Spaces(described["spaces"]))
    assert whole is not None, "it has just been written"
    kept = {name: described[name] for name in KEPT if name in described}
    kept |= {OF: described[CHECKSUM], COUNTED: whole.lists.tolist()}
    for shard, rows in zip(index.shards, index.rows_of):
        pieces = Pieces(shard, key, whole.spaces)
        for some in pieces:
            pieces.keep_codes(some, whole.codes.take(whole.positions[rows[some]]))
        lists = ListsConfig(probes=whole.probes, floor=0)
        write_store(pieces, kept, lists, overwrite=True, threads=threads, centroids=whole.centroids)
