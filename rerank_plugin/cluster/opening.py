"""What opens an index on a Ray cluster, and encodes there (:class:`rerank_plugin.indexes.locations.Location`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rerank_plugin.base.extras import require
from rerank_plugin.cluster.config import ClusterConfig
from rerank_plugin.java.jvm import OPTIONS

if TYPE_CHECKING:
    from rerank_plugin.cluster.index import RemoteIndex


class ClusterLocation(ClusterConfig):
    """A Ray cluster."""

    def open(self, folder: Path) -> RemoteIndex:
        """An index of shards that processes on the cluster search.

        Raises:
            InputError: there is no such index or cluster, or a shard cannot be opened.
        """
        require("ray", "a cluster")
        from rerank_plugin.cluster.actors import RayShards
        from rerank_plugin.cluster.index import RemoteIndex

        return RemoteIndex(folder, lambda shards, commit: RayShards(shards, commit, self))

    def encoding(self, encoder: Any, batch_size: int | None) -> Callable[..., Any]:
        """What encodes batches of rows on the cluster (:func:`~rerank_plugin.cluster.encoding.encode_on_cluster`)."""
        require("ray", "a cluster")
        from rerank_plugin.cluster.encoding import encode_on_cluster

        return encode_on_cluster(encoder, batch_size, self)

    def builder(self, lag: int) -> Callable[..., Any]:
        """What builds a shard on a machine of the cluster."""
        require("ray", "a cluster")
        from rerank_plugin.cluster.connection import connect
        from rerank_plugin.cluster.remote_building import RemoteBuilder

        connect(self.address)
        return partial(RemoteBuilder, config=self, lag=lag)

    def with_own_heap(self) -> ClusterLocation:
        """The same, whose processes have the Java heap that the user set for this one's Java."""
        heaps = [option[4:] for option in os.environ.get(OPTIONS, "").split() if option.startswith("-Xmx")]
        return replace(self, heap=heaps[-1]) if heaps else self
