"""An index of shards: the documents of one collection in several parts, with the rows and scores of a single index.

``INDEX/shards/NUMBER`` has the segments and the Lucene index of a shard: of the documents whose ids have a hash that is
NUMBER modulo the number of shards. The commit of the index names the segments of all shards, and says what it says of
those of any index: so a shard, which may be opened alone, scores its documents as a single index of all would. Lucene
computes its statistics from what it reads, so ``rest/NUMBER/`` of a shard is a Lucene index with the numbers of the
documents that the commit NUMBER has added to the other shards, and none of their words.

Processes write the shards of a new index, on one machine or several (:mod:`rerank_plugin.indexes.shard_building`). One
process writes the commit, and all updates later, one shard after the other (:mod:`rerank_plugin.indexes.updating`).
Machines that search read the same folder: they go on with their commit until their coordinator opens the index again. A
machine with a copy of the folder gets another copy, beside the first: no file of a commit changes under a reader.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Commit(NamedTuple):
    """The number of a commit, and its id."""

    number: int
    id: str


def shard_of(hashes: np.ndarray, shards: int) -> np.ndarray:
    """The shard of each document, uint16 [n], by the hashes of the ids, uint64 [n] (`hash_strings`)."""
    return (hashes % np.uint64(shards)).astype(np.uint16)
