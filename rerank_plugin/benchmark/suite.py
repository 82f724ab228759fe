"""All measurements of one run, in order."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rerank_plugin import rerankers
from rerank_plugin.base.errors import InputError
from rerank_plugin.benchmark import collection as collections
from rerank_plugin.benchmark import machine
from rerank_plugin.benchmark.collection import Collection
from rerank_plugin.benchmark.dense_search import dense_rows
from rerank_plugin.benchmark.measured_rerankers import check_spec, measured_by_default, open_measured
from rerank_plugin.benchmark.measuring import Meter
from rerank_plugin.benchmark.rows import PLAIN, Measurement
from rerank_plugin.benchmark.scoring import Setup, scoring_rows
from rerank_plugin.benchmark.texts import read_texts, text_rows
from rerank_plugin.benchmark.whole_query import whole_query_rows
from rerank_plugin.files.outputs import scratch_folder
from rerank_plugin.kernels.parallel import available_threads
from rerank_plugin.retrieval.lucene import LuceneConfig
from rerank_plugin.retrieval.register import FirstStage, FirstStageConfig
from rerank_plugin.retrieval.run_file import RunConfig

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Suite:
    """The measurements of a run.

    Attributes:
        specs: rerankers; empty for all usable ones with random weights.
        depths, batches: every depth with single queries, and every batch at the first depth.
        documents: sizes of generated collections; ignored with ``index``.
        index, queries, run: an existing index, its queries, and a run with their candidates.
        dense: whether to measure dense search.
        texts: corpus to re-rank without an index; None not to measure it.
        first_stage: first stage of the whole query; None to measure scoring alone.
        work_folder: folder that keeps generated collections; None for a temporary one.
        rates: requests per second to the service, at random times whether or not earlier ones were answered.
        clients: numbers of concurrent clients of the service, each of which waits for its last answer.
        seconds, repetitions: limits of a measurement (of at least five repetitions); ``seconds`` is also the duration
            of each rate and number of clients.
    """

    specs: Sequence[str]
    depths: Sequence[int]
    batches: Sequence[int]
    documents: Sequence[int]
    index: Path | None
    queries: str  # "" without ``index``
    run: Path | None
    first_stage: FirstStageConfig | None
    dense: bool
    texts: str | None
    work_folder: Path | None
    options: rerankers.RerankerOptions
    rates: Sequence[float]
    clients: Sequence[int]
    seconds: float
    repetitions: int
    seed: int

    def __post_init__(self) -> None:
        for spec in self.specs:
            check_spec(spec)
        if self.index is None and self.deepest > min(self.documents):
            raise InputError(f"the depth {self.deepest} exceeds the {min(self.documents)} documents of a collection")

    @property
    def deepest(self) -> int:
        return max(self.depths)

    @property
    def combinations(self) -> list[tuple[int, int]]:
        """Depth and batch of each measurement of a reranker."""
        first, *others = self.depths
        return [(first, batch) for batch in self.batches] + [(depth, 1) for depth in others]


def measure(suite: Suite) -> Iterator[Measurement]:
    """Measure row by row; an `InputError` if a reranker, index, queries or run cannot be used."""
    for row in _rows(suite):
        speed_up = "" if row.path == PLAIN else f", {row.ratio_to_plain:.1f} times as fast as plain"
        log.info(
            "%s %s, %s, %s documents, depth %d, batch %d: %.3f ms%s",
            row.reranker, row.path, row.stage, f"{row.documents:,}", row.depth, row.batch, row.median_ms, speed_up,
        )  # fmt: skip
        yield row


def _rows(suite: Suite) -> Iterator[Measurement]:
    with ExitStack() as stack:
        setup = set_up(suite)
        texts = [] if suite.texts is None else read_texts(suite.texts, suite.deepest, suite.seed)
        log.info("%s; load average %s", setup.machine, machine.load_average())
        for searched in _collections(suite, stack):
            if suite.deepest > len(searched.collection):
                raise InputError(
                    f"the depth {suite.deepest} exceeds the {len(searched.collection)} documents of {suite.index}"
                )
            for spec in suite.specs or measured_by_default():
                yield from _rows_of(spec, suite, searched, texts, setup)
                gc.collect()  # before the next model is loaded


def set_up(suite: Suite) -> Setup:
    """Clock, device, threads and machine; an `InputError` if the device cannot be used."""
    import torch

    options = suite.options
    threads = options.threads or available_threads()
    torch.set_num_threads(threads)
    try:
        description = machine.describe(threads, options.device)
        torch.zeros(1, device=options.device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"cannot use the device '{options.device}': {str(error).splitlines()[0]}") from None
    meter = Meter(suite.seconds, suite.repetitions, options.device)
    return Setup(meter, options.device, threads, description, options.precision)


@contextmanager
def opened_collection(suite: Suite) -> Iterator[Collection]:
    """The collection of the service: the existing index, or a generated one of the first size, with Lucene."""
    with ExitStack() as stack:
        if suite.index is not None:
            yield collections.existing(suite.index, suite.queries, suite.seed)
        else:
            folder = suite.work_folder or stack.enter_context(scratch_folder())
            yield collections.generated(folder, suite.documents[0], suite.seed, suite.deepest, lucene=True)


class SearchedCollection(NamedTuple):
    """A collection with the candidates for scoring, the same with those of the first stage, and the first stage."""

    collection: Collection
    of_first_stage: Collection
    first_stage: FirstStage | None = None


def _collections(suite: Suite, stack: ExitStack) -> Iterator[SearchedCollection]:
    """The collections, each lazily opened or generated.

    Candidates of the user's index are from the run, else from the first stage, else from a scan.
    """
    if suite.index is None:
        folder = suite.work_folder or stack.enter_context(scratch_folder())
        for size in suite.documents:
            lucene = suite.first_stage is not None
            yield _searched(suite, collections.generated(folder, size, suite.seed, suite.deepest, lucene))
        return
    collection = collections.existing(suite.index, suite.queries, suite.seed)
    if suite.run is not None:
        run = collection.index.first_stage(RunConfig(str(suite.run)))
        yield _searched(suite, collections.with_candidates(collection, run, suite.deepest, str(suite.run)))
    elif suite.first_stage is None:
        scanned = collections.with_scan(collection, suite.deepest, suite.seed)
        yield SearchedCollection(scanned, scanned)
    else:
        searched = _searched(suite, collection)
        yield searched._replace(collection=searched.of_first_stage)


def _searched(suite: Suite, collection: Collection) -> SearchedCollection:
    if suite.first_stage is None:
        return SearchedCollection(collection, collection)
    config = suite.first_stage
    first_stage = collection.index.first_stage(config)
    name = f"{config.name} by Lucene" if isinstance(config, LuceneConfig) else config.name
    of_first_stage = collections.with_candidates(collection, first_stage, suite.deepest, name)
    return SearchedCollection(collection, of_first_stage, first_stage)


def _rows_of(
    spec: str, suite: Suite, searched: SearchedCollection, texts: Sequence[dict[str, str]], setup: Setup
) -> Iterator[Measurement]:
    """All rows of one reranker."""
    collection = searched.collection
    try:
        with open_measured(spec, collection, suite.deepest, suite.options, suite.seed) as subject:
            for depth, batch in suite.combinations:
                yield from scoring_rows(subject, collection, depth, batch, setup)
                if searched.first_stage is not None:
                    of_first_stage, first_stage = searched.of_first_stage, searched.first_stage
                    yield from whole_query_rows(subject, of_first_stage, first_stage, depth, batch, setup)
            for depth in dict.fromkeys(suite.depths):
                if suite.texts is not None:
                    yield from text_rows(subject, collection, suite.texts, texts, depth, suite.options, setup)
            for depth in dict.fromkeys(suite.depths):
                if suite.dense and subject.retrieves:
                    yield from dense_rows(subject, collection, depth, setup)
    except (ImportError, InputError) as error:
        if suite.specs:
            raise InputError(f"cannot measure {spec}: {error}") from error
        log.warning("left out %s: %s", spec, error)
