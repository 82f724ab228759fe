"""Texts without an index, from strings to ranks: tokenizing, first-stage scores, features, model and sorting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from rerank_plugin import rerankers
from rerank_plugin.base.errors import InputError
from rerank_plugin.benchmark.collection import Collection
from rerank_plugin.benchmark.measured_rerankers import MeasuredReranker
from rerank_plugin.benchmark.measuring import Case
from rerank_plugin.benchmark.rows import FAST, PLAIN, TEXTS, Measurement, measurements
from rerank_plugin.benchmark.scoring import Setup, columns, query_numbers
from rerank_plugin.corpora import documents as read_documents
from rerank_plugin.indexes.collection_statistics import CollectionStatistics
from rerank_plugin.indexes.text_index import TextIndex
from rerank_plugin.ranking.reranker import Reranker


def read_texts(corpus: str, depth: int, seed: int) -> list[dict[str, str]]:
    """The documents of a corpus as texts, in random order; an `InputError` if there are fewer than ``depth``."""
    texts = [
        {"title": document.title, "text": document.abstract} for document in read_documents(corpus, ids_required=False)
    ]
    if len(texts) < depth:
        raise InputError(f"{corpus} has {len(texts)} documents: fewer than the depth {depth}")
    return Random(seed).sample(texts, len(texts))


def text_rows(
    subject: MeasuredReranker,
    collection: Collection,
    corpus: str,
    texts: Sequence[dict[str, str]],
    depth: int,
    options: rerankers.RerankerOptions,
    setup: Setup,
) -> list[Measurement]:
    """A row per path, of calls that each re-rank the next ``depth`` texts.

    Args:
        collection: source of queries and statistics.
        corpus: name of the texts.
        options: options of the fast path.
    """
    statistics = CollectionStatistics.of_index(collection.forward)
    plain = replace(options, fast=False, precision="float32", compile=False)
    cases = {}
    for path, path_options in {PLAIN: plain, FAST: options}.items():
        if path in subject.paths:
            index = TextIndex(statistics, setup.threads)
            reranker = Reranker(rerankers.load(subject.spec, index, path_options), index)
            cases[path] = _case(reranker, collection, texts, depth)
    return measurements(
        TEXTS,
        setup.meter.measure(cases),
        1,
        lambda path: {
            **columns(subject, path, collection, depth, setup),
            "candidates": float(depth),
            "candidate_source": f"{corpus}, {len(texts):,} texts",
            "largest_difference": None,
        },
    )


def _case(reranker: Reranker, collection: Collection, texts: Sequence[dict[str, str]], depth: int) -> Case:
    def prepare(call: int):
        query = collection.queries[call % len(collection.queries)].text
        batch = [texts[place] for place in query_numbers(call, depth, len(texts))]
        return lambda: len(reranker.rerank(query, batch))

    return prepare
