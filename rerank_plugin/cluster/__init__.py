"""Indexes of shards (:mod:`rerank_plugin.indexes.sharding`) on Ray: searching, building and encoding them."""

from rerank_plugin.indexes.locations import OPENERS, Opener

ADDRESSES = "HOST:PORT, auto (of this machine) or local (started here)"
OPENERS.add(Opener("ray", "rerank_plugin.cluster.opening:ClusterLocation", "cluster", ADDRESSES))
