"""Opens an index by its folder or by its place on a Ray cluster."""

from __future__ import annotations

import os
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.extras import require
from rerank_plugin.cluster.config import is_cluster, parsed
from rerank_plugin.indexes.index_folder import Index


def open_index(index: str | Path | Index) -> Index:
    """The index of a folder, or of ``ray://ADDRESS/FOLDER``; an open index stays the same.

    Raises:
        InputError: there is no such index or cluster, or a shard cannot be opened.
    """
    if isinstance(index, Index):
        return index
    if not isinstance(index, (str, os.PathLike)):
        raise InputError(f"an index is the path of its folder or an open Index, not {type(index).__name__}")
    if not is_cluster(index):
        return Index(index)
    folder, config = parsed(str(index))
    require("ray", "a cluster")
    from rerank_plugin.cluster.actors import RayShards
    from rerank_plugin.cluster.index import ClusterIndex

    return ClusterIndex(folder, lambda shards, generation: RayShards(shards, generation, config))
