"""Indexes of shards (:mod:`rerank_plugin.indexes.sharding`): how processes build them, and searches of them on Ray."""
