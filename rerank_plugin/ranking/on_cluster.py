"""Ranks many queries on a Ray cluster: its tasks each open the index, rank batches of queries, and return arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.cluster.config import ClusterConfig
from rerank_plugin.files.fingerprints import fingerprints
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.ranking.pipeline import Pipeline, Ranking

CALLS = 4  # of a reranker for a batch: some 100 ms of work, beside which a task's few ms are little


class Ranked(NamedTuple):
    """The rankings of a batch: rows int64 [n] and scores float32 [n] from rank 1 on, one query after the other.

    Attributes:
        counts: documents of each query.
    """

    counts: list[int]
    rows: np.ndarray
    scores: np.ndarray


def rank_on_cluster(
    pipeline: Pipeline,
    index: Index,
    contents: Mapping[str, str],
    queries: Sequence[Query],
    config: ClusterConfig,
    threads: int,
    together: int,
) -> Iterator[Ranking]:
    """The rankings that ``OpenPipeline.rank_all`` gives of many queries, with the documents in their final order.

    Args:
        pipeline: opened in each process; its index and the files that it names are at the same paths on all machines.
        index: the index, as opened here.
        contents: checksums of those files (:func:`~rerank_plugin.files.fingerprints.fingerprints`).
        threads, together: as in ``rank_all``, in each process.

    Raises:
        InputError: as in ``rank_all``, or as in :func:`~rerank_plugin.cluster.mapping.cluster_map`; a machine has other
            files.
    """
    from rerank_plugin.cluster.mapping import cluster_map  # imports Ray

    size = CALLS * together  # so that a reranker scores the same queries together as in one process
    batches = [queries[start : start + size] for start in range(0, len(queries), size)]
    opening = partial(open_ranking, pipeline, index.build, contents, threads, together)
    for batch, ranked in zip(batches, cluster_map(opening, batches, config)):
        start = 0
        for query, count in zip(batch, ranked.counts, strict=True):
            rows, scores = (array[start : start + count] for array in (ranked.rows, ranked.scores))
            start += count
            yield Ranking(query, Candidates(index.forward, rows, scores), scores, np.arange(count))


def open_ranking(
    pipeline: Pipeline, build: str, contents: Mapping[str, str], threads: int, together: int
) -> Callable[[Sequence[Query]], Ranked]:
    """The function that ranks a batch in a process of the cluster."""
    here = fingerprints({"": list(contents)})
    for name, checksum in contents.items():
        if here.get(name) != checksum:
            raise InputError(f"{name} is missing or differs: copy it to the same path, with its times (rsync -a)")
    opened = pipeline.open()
    if opened.index.build != build:
        raise InputError(f"{opened.index.folder} is of the generation {opened.index.build}, not of {build}: copy it")

    def ranked(queries: Sequence[Query]) -> Ranked:
        rankings = list(opened.rank_all(queries, threads, together))
        return Ranked(
            [len(ranking.order) for ranking in rankings],
            np.concatenate([ranking.candidates.rows[ranking.order] for ranking in rankings]),
            np.concatenate([ranking.ranked_scores for ranking in rankings]),
        )

    return ranked
