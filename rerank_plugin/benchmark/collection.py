"""The collections to search: generated ones like the sample, in any size and kept for later runs, or an index."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.base.terminal import progress, set_up_logging
from rerank_plugin.benchmark.best_matches import Ranked, best_matches
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.retrieval.register import FirstStage

log = logging.getLogger(__name__)

SCAN = "most query words by IDF"
BATCH = 1000  # documents tokenized at once
MOST_QUERIES, DOCUMENTS_PER_QUERY = 200, 20
FEWEST_DOCUMENTS = 200
DEEPEST = 2000  # candidates kept for each query, so that other depths need no new scan


@dataclass(frozen=True)
class Collection:
    """An index, queries in random order, and for each query its candidates, best first."""

    name: str  # shown in the tables
    index: Index
    queries: list[Query]
    ranked: Sequence[tuple[np.ndarray, np.ndarray]]  # rows int64 [K] and scores float32 [K] of each query; K may differ
    source: str  # of the candidates

    @property
    def forward(self) -> ForwardIndex:
        return self.index.forward

    def __len__(self) -> int:
        return len(self.forward)

    def mean_candidates(self, depth: int) -> float:
        """Mean number of candidates, less than ``depth`` if a first stage retrieves fewer."""
        return float(np.mean([min(depth, len(rows)) for rows, _ in self.ranked]))

    def candidates(self, query: int, depth: int) -> Candidates:
        """New candidates of a query, without gathered words."""
        rows, scores = self.ranked[query]
        return Candidates(self.forward, rows[:depth], scores[:depth])


def generated(work_folder: Path, documents: int, seed: int, depth: int, lucene: bool) -> Collection:
    """A collection like the sample. The work folder keeps its texts (BEIR), index and candidates for later runs.

    Args:
        lucene: whether the index has a Lucene index beside the forward index, which needs Java.

    Raises:
        InputError: too few documents, or not enough memory.
    """
    if documents < FEWEST_DOCUMENTS:
        raise InputError(f"{documents} documents: a collection needs at least {FEWEST_DOCUMENTS}")
    folder = Path(work_folder) / f"sample-{documents}-{seed}"
    if not (folder / "corpus").is_dir():
        log.info("making a collection of %s documents", f"{documents:,}")
        _in_child_process(_generate, folder / "corpus", documents, seed)
    if lucene or (folder / "index").is_dir():
        index = _kept_index(folder / "index", _index_with_lucene, folder / "corpus")
    else:
        index = _kept_index(folder / "forward-only", _index_without_lucene, folder / "corpus")
    queries = _queries(str(folder / "corpus"), seed)
    kept = folder / "candidates.npz"
    if not kept.is_file() or Ranked.load(kept).rows.shape[1] < min(depth, documents):
        log.info("scanning %s documents for candidates", f"{documents:,}")
        _in_child_process(_scan, index.folder, queries, max(depth, DEEPEST), seed, kept)
    ranked = list(zip(*Ranked.load(kept)))
    return Collection(f"sample, {documents:,} documents", index, queries, ranked, SCAN)


def existing(folder: Path, queries: str, seed: int) -> Collection:
    """An existing index with its own queries, without candidates; an `InputError` if either cannot be read."""
    return Collection(str(folder), Index(folder), _queries(queries, seed), [], "none")


def with_scan(collection: Collection, depth: int, seed: int) -> Collection:
    """The same collection with the best matches of a scan as candidates."""
    ranked = best_matches(collection.forward, collection.queries, depth, seed)
    return replace(collection, ranked=list(zip(*ranked)), source=SCAN)


def with_candidates(collection: Collection, first_stage: FirstStage, depth: int, name: str) -> Collection:
    """The same index with the top ``depth`` candidates of a first stage, and only the queries that have any.

    Raises:
        InputError: no query has candidates.
    """
    from rerank_plugin.ranking.pipeline import OpenPipeline

    pipeline = OpenPipeline(collection.index, first_stage, depth)
    searched = [(query, pipeline.candidates(query)) for query in collection.queries]
    searched = [(query, candidates) for query, candidates in searched if len(candidates)]
    if not searched:
        raise InputError(f"no query has candidates in {name}")
    ranked = [(candidates.rows, candidates.first_stage_scores) for _, candidates in searched]
    return replace(collection, queries=[query for query, _ in searched], ranked=ranked, source=name)


def _queries(spec: str, seed: int) -> list[Query]:
    """The queries in random order: neighbours in a file are alike, and slow paths see only the first ones."""
    from rerank_plugin.corpora import queries

    in_order = list(queries(spec))
    if not in_order:
        raise InputError(f"{spec}: there are no queries to measure with")
    return Random(seed).sample(in_order, len(in_order))


def _in_child_process(function, *arguments):
    """Call a function in a child process, which frees its memory; raises its exceptions."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), set_up_logging, (False,)) as executor:
        try:
            return executor.submit(function, *arguments).result()
        except BrokenProcessPool:
            raise InputError("the process that makes the collection was killed: is there enough memory?") from None


def _generate(folder: Path, documents: int, seed: int) -> None:
    from rerank_plugin.sample.generator import generate

    folder.parent.mkdir(parents=True, exist_ok=True)
    generate(folder, documents, min(MOST_QUERIES, documents // DOCUMENTS_PER_QUERY), seed)


def _scan(index: Path, queries: list[Query], depth: int, seed: int, kept: Path) -> None:
    best_matches(Index(index).forward, queries, depth, seed).save(kept)


def _kept_index(folder: Path, build, corpus: Path) -> Index:
    """The index of an earlier run, or a new one if there is no readable index."""
    try:
        return Index(folder)
    except InputError:
        log.info("indexing %s", corpus)
        _in_child_process(build, corpus, folder)
        return Index(folder)


def _index_with_lucene(corpus: Path, folder: Path) -> None:
    from rerank_plugin.corpora import Problems, documents
    from rerank_plugin.indexes.building import build_single

    problems = Problems()
    stream = progress(documents(str(corpus), problems), "indexing", "documents")
    build_single(stream, folder, str(corpus), problems, overwrite=True)


def _index_without_lucene(corpus: Path, folder: Path) -> None:
    """Write an index folder without a Lucene index, which scoring does not need, and so without Java."""
    from rerank_plugin.corpora import documents
    from rerank_plugin.indexes.building import build_without_lucene

    stream = progress(documents(str(corpus)), "indexing", "documents")
    build_without_lucene(stream, folder, str(corpus), overwrite=True)
