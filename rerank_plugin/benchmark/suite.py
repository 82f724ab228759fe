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
from rerank_plugin.benchmark.measuring import Meter
from rerank_plugin.benchmark.rows import PLAIN, Measurement
from rerank_plugin.benchmark.scoring import Setup, scoring_rows
from rerank_plugin.benchmark.subjects import check_spec, measured_by_default, opened
from rerank_plugin.benchmark.texts import read_texts, text_rows
from rerank_plugin.benchmark.whole_query import whole_query_rows
from rerank_plugin.files.outputs import scratch_folder
from rerank_plugin.retrieval.given_run import RunConfig
from rerank_plugin.retrieval.lucene import LuceneConfig

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Suite:
    """What to measure.

    Attributes:
        specs: rerankers; empty for all with random weights, of which those that cannot be used are left out.
        depths, batches: every depth with single queries, and every batch at the first depth.
        documents: sizes of generated collections; not looked at with ``index``.
        index, queries, run: an index that is there, its queries, and the candidates to take.
        dense: device for dense search, where that is measured, too.
        texts: a corpus whose texts are re-ranked without an index; None where that is not measured.
        first_stage: settings of the whole query's first stage; None to measure scoring alone.
        work_folder: where generated collections are kept; None for a temporary one.
        rates, clients: of the service: requests a second, at random times whatever the answers, and crowds, in which
            each client sends its next request when the last is answered.
        seconds, repetitions: of a measurement, at most (never fewer than five repetitions); ``seconds`` is also how
            long each rate and crowd lasts.
    """

    specs: Sequence[str]
    depths: Sequence[int]
    batches: Sequence[int]
    documents: Sequence[int]
    index: Path | None
    queries: str | None
    run: Path | None
    first_stage: object | None
    dense: str | None
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
            raise InputError(f"the depth {self.deepest}: more than the {min(self.documents)} documents of a collection")

    @property
    def deepest(self) -> int:
        return max(self.depths)

    @property
    def combinations(self) -> list[tuple[int, int]]:
        """Depth and batch of all measurements of a reranker."""
        first, *others = self.depths
        return [(first, batch) for batch in self.batches] + [(depth, 1) for depth in others]


def measure(suite: Suite) -> Iterator[Measurement]:
    """Measure everything, row by row; an `InputError` if a reranker, index, queries or run cannot be used."""
    for row in _rows(suite):
        than_plain = "" if row.path == PLAIN else f", {row.ratio_to_plain:.1f} times as fast as plain"
        log.info(
            "%s %s, %s, %s documents, depth %d, batch %d: %.3f ms%s",
            row.reranker, row.path, row.stage, f"{row.documents:,}", row.depth, row.batch, row.median_ms, than_plain,
        )  # fmt: skip
        yield row


def _rows(suite: Suite) -> Iterator[Measurement]:
    with ExitStack() as stack:
        setup = set_up(suite)
        texts = [] if suite.texts is None else read_texts(suite.texts, suite.deepest, suite.seed)
        log.info("%s; load average %s", setup.machine, machine.load_average())
        for searched in _collections(suite, stack):
            if suite.deepest > len(searched.collection):
                raise InputError(f"the depth {suite.deepest}: {suite.index} holds {len(searched.collection)} documents")
            for spec in suite.specs or measured_by_default():
                yield from _rows_of(spec, suite, searched, texts, setup)
                gc.collect()  # before the next model comes


def set_up(suite: Suite) -> Setup:
    """Clock, device, threads and machine; an `InputError` if the device cannot be used."""
    import torch

    options = suite.options
    torch.set_num_threads(options.threads)
    try:
        described = machine.describe(options.threads, options.device)
        torch.zeros(1, device=options.device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"cannot use the device '{options.device}': {str(error).splitlines()[0]}") from None
    meter = Meter(suite.seconds, suite.repetitions, options.device)
    return Setup(meter, options.device, options.threads, described, options.precision)


@contextmanager
def opened_collection(suite: Suite) -> Iterator[Collection]:
    """The one collection that the service is measured on: the index that is there, or the first size, with Lucene."""
    with ExitStack() as stack:
        if suite.index is not None:
            yield collections.existing(suite.index, suite.queries, suite.seed)
        else:
            folder = suite.work_folder or stack.enter_context(scratch_folder())
            yield collections.generated(folder, suite.documents[0], suite.seed, suite.deepest, lucene=True)


class Searched(NamedTuple):
    """A collection with the candidates for scoring, the same with those of the first stage, and how to search it."""

    collection: Collection
    of_first_stage: Collection | None = None
    first_stage: object | None = None


def _collections(suite: Suite, stack: ExitStack) -> Iterator[Searched]:
    """Each collection; one is opened or generated when it is asked for.

    The user's index has candidates from the run, else from the first stage, else from a scan.
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
        yield Searched(collections.with_scan(collection, suite.deepest, suite.seed))
    else:
        searched = _searched(suite, collection)
        yield searched._replace(collection=searched.of_first_stage)


def _searched(suite: Suite, collection: Collection) -> Searched:
    if suite.first_stage is None:
        return Searched(collection)
    config = suite.first_stage
    first_stage = collection.index.first_stage(config)
    name = f"{config.name} by Lucene" if isinstance(config, LuceneConfig) else config.name
    of_first_stage = collections.with_candidates(collection, first_stage, suite.deepest, name)
    return Searched(collection, of_first_stage, first_stage)


def _rows_of(
    spec: str, suite: Suite, searched: Searched, texts: Sequence[dict[str, str]], setup: Setup
) -> Iterator[Measurement]:
    """All rows of one reranker."""
    collection, dense = searched.collection, suite.dense is not None
    try:
        with opened(spec, collection, suite.deepest, suite.options, suite.seed, dense) as subject:
            for depth, batch in suite.combinations:
                yield from scoring_rows(subject, collection, depth, batch, setup)
                if searched.first_stage is not None:
                    of_first_stage = searched.of_first_stage
                    yield from whole_query_rows(subject, of_first_stage, searched.first_stage, depth, batch, setup)
            for depth in dict.fromkeys(suite.depths):
                if suite.texts is not None:
                    yield from text_rows(subject, collection, suite.texts, texts, depth, suite.options, setup)
            for depth in dict.fromkeys(suite.depths):
                if dense and subject.retrieves:
                    yield from dense_rows(subject, collection, depth, setup, suite.dense)
    except (ImportError, InputError) as error:
        if suite.specs:
            raise InputError(f"cannot measure {spec}: {error}") from error
        log.warning("left out %s: %s", spec, error)
