"""The whole query, from its text to the final order: first stage, gather, features, model, sorting. Needs Java."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

from rerank_plugin.base.records import Query
from rerank_plugin.benchmark.collection import Collection
from rerank_plugin.benchmark.measured_rerankers import MeasuredReranker
from rerank_plugin.benchmark.measuring import Case, Timings
from rerank_plugin.benchmark.rows import FAST, WHOLE, Measurement, measurements
from rerank_plugin.benchmark.scoring import Setup, columns, query_by_query, query_numbers, repeats_in_time
from rerank_plugin.ranking.pipeline import OpenPipeline
from rerank_plugin.rerankers import as_scorer
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.retrieval.register import FirstStage

FIRST_STAGE, GATHER, FEATURES, MODEL, SORTING = "first stage", "gather", "features", "model", "sorting"
SEARCHES_AHEAD = 2  # Java threads, as in the search command
STREAM = 4  # most batches in a stream, where the first stage of a batch overlaps with the scoring of another


def whole_query_rows(
    subject: MeasuredReranker, collection: Collection, first_stage: FirstStage, depth: int, batch: int, setup: Setup
) -> list[Measurement]:
    """A row per path.

    Args:
        collection: with the candidates of the first stage.
        batch: 1 for one query after the other, with the times of its stages; more for a stream of queries through the
            search command's pipeline, which scores ``batch`` queries together; times are then those of a batch.
    """
    pipelines = {
        path: OpenPipeline(collection.index, first_stage, depth, as_scorer(reranker))
        for path, reranker in subject.paths.items()
    }
    cases = {path: _single_query(pipeline, collection) for path, pipeline in pipelines.items()}
    parts: dict[tuple[str, str], Case] = {}
    if batch == 1:
        counts, parts = dict.fromkeys(cases, 1), _parts_of_scoring(subject, collection, depth)
    else:
        counts = {path: repeats_in_time(case, STREAM * batch, setup.meter) for path, case in cases.items()}
        if FAST in counts:  # in whole batches, at least one
            counts[FAST] = max(counts[FAST] // batch, 1) * batch
        cases = {path: _stream(pipeline, collection, counts[path], batch) for path, pipeline in pipelines.items()}
    measured = setup.meter.measure(cases | parts)
    timings = {path: measured[path].scaled(batch / counts[path]) for path in cases}
    return measurements(
        WHOLE,
        timings,
        batch,
        lambda path: {
            "stages": _stages(path, measured) if batch == 1 else None,
            "measured_queries": counts[path] if counts[path] < batch else None,
            **columns(subject, path, collection, depth, setup),
        },
    )


def _single_query(pipeline: OpenPipeline, collection: Collection) -> Case:
    """A single query; the timed call returns the seconds of first stage, scoring and sorting."""

    def search(query: Query) -> tuple[float, float, float]:
        started = time.perf_counter()
        ranking = pipeline.rank(query)
        seconds = time.perf_counter() - started
        first, scoring = ranking.candidates.search_ms / 1000, (ranking.features_ms + ranking.model_ms) / 1000
        return first, scoring, seconds - first - scoring

    return query_by_query(collection.queries, search)


def _stream(pipeline: OpenPipeline, collection: Collection, count: int, batch: int) -> Case:
    """``count`` queries through the pipeline, scored in batches."""

    def prepare(call: int):
        queries = [collection.queries[number] for number in query_numbers(call, count, len(collection.queries))]
        return lambda: sum(1 for _ in pipeline.rank_all(queries, SEARCHES_AHEAD, batch))

    return prepare


def _parts_of_scoring(subject: MeasuredReranker, collection: Collection, depth: int) -> dict[tuple[str, str], Case]:
    """Gather and features alone, by path and part; empty for a reranker without a neural model."""
    cases = {}
    for path, reranker in subject.paths.items():
        if not isinstance(reranker, NeuralReranker):
            continue
        builder = reranker.builder
        if (gather := _gather(reranker)) is not None:
            cases[path, GATHER] = _part(gather, collection, depth)
        if builder.feature_names:
            cases[path, FEATURES] = _part(builder.features, collection, depth)
    return cases


def _part(work, collection: Collection, depth: int) -> Case:
    def prepare(call: int):
        number = call % len(collection.queries)
        terms = collection.forward.query(collection.queries[number].text)
        candidates = collection.candidates(number, depth)
        return lambda: work(terms, candidates) is None

    return prepare


def _gather(reranker: NeuralReranker):
    """The reranker's gather of its candidates' words: padded for the module, distinct for the fast paths on a CPU, and
    None if it scores from stored vectors."""
    builder, fast = reranker.builder, reranker.fast
    if fast is None:
        return lambda terms, candidates: builder.documents(candidates)
    if not fast.gathers_words:
        return None
    from rerank_plugin.inputs.interactions import candidate_words
    from rerank_plugin.kernels.parallel import Workspace

    workspace = Workspace()
    return lambda terms, candidates: candidate_words(builder, candidates, workspace)


def _stages(path: str, measured: Mapping[str | tuple[str, str], Timings]) -> dict[str, float]:
    """Median milliseconds of each stage; the model's are those of scoring less gather and features."""
    first, scoring, sorting = np.median(np.array(measured[path].returned), axis=0) * 1000
    parts = {
        part: float(np.median(measured[path, part].seconds)) * 1000
        for part in (GATHER, FEATURES)
        if (path, part) in measured
    }
    model = max(float(scoring) - sum(parts.values()), 0.0)
    return {FIRST_STAGE: float(first), **parts, MODEL: model, SORTING: float(sorting)}
