"""Indexes of shards (:mod:`rerank_plugin.indexes.sharding`): how processes build them, and searches of them on Ray."""

from rerank_plugin.indexes.opening import OPENERS, Opener

ADDRESSES = "HOST:PORT, auto (of this machine) or local (started here)"
OPENERS.add(Opener("ray", "rerank_plugin.cluster.opening:ClusterPlace", "cluster", ADDRESSES))
