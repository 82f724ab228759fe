"""Training pairs: two documents of one query, the first more relevant than the second ([D18] 3.4, 4.2).

Each query has a pool of documents: its first-stage candidates, its judged documents, both, or the whole collection;
unjudged documents count as non-relevant. (The paper trained on first result pages only, and names the lack of documents
from lower ranks as its weakness in 5.3.1.) By default, documents that were not retrieved are left out: a reranker never
scores them, and relevant documents that share no word with the query could teach the model that matching words are
evidence against relevance.

Every epoch draws new pairs, by one of two samplings: balanced ([D18] 4.2) or by groups ([P] 2.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Judgments, Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.inputs.builder import InputBuilder, ModelQuery

POOLS = ("candidates", "judged", "all", "relevant", "collection")
WITHOUT_CANDIDATES = ("judged", "relevant", "collection")  # pools that need no first stage


class Pool(NamedTuple):
    """The documents of one query that pairs are drawn from."""

    query_id: str
    words: ModelQuery
    rows: np.ndarray  # rows of the forward index, int64 [P]
    relevance: np.ndarray  # float32 [P]
    features: np.ndarray  # lexical features, float32 [P, F]


class Examples(NamedTuple):
    """The examples of an epoch; letters in shapes: n examples, k documents of an example (2 of a pair)."""

    pool: np.ndarray  # number of the query's pool, int64 [n]
    places: np.ndarray  # of the documents in the pool, int64 [k, n]; the first of a pair is the more relevant


def make_pools(
    queries: Sequence[Query],
    judgments: Judgments,
    candidates: Mapping[str, Candidates],
    builder: InputBuilder,
    documents: str = "candidates",
) -> list[Pool]:
    """Pools of the queries that have two documents of different relevance and a word the model knows.

    Args:
        candidates: first-stage candidates by query id; needed only for ``candidates`` and ``all``.
        documents: the documents of a pool: ``candidates``, ``judged``, ``all`` (both), ``collection`` (every document
            of the index), or ``relevant`` (the relevant judged documents; one is enough).

    Raises:
        InputError: ``documents`` is unknown.
    """
    if documents not in POOLS:
        raise InputError(f"unknown kind of training documents '{documents}'; known: {', '.join(POOLS)}")
    pools = []
    collection = builder.index.live_rows
    no_candidates = Candidates(builder.index, collection[:0], np.zeros(0, np.float32))
    for query in queries:
        judged = judgments.get(query.id, {})
        rows = builder.index.rows(list(judged))
        relevance = np.fromiter(judged.values(), np.float32, len(judged))[rows >= 0]
        rows = rows[rows >= 0]
        retrieved = candidates.get(query.id, no_candidates) if documents in WITHOUT_CANDIDATES else candidates[query.id]
        if documents == "relevant":
            rows, relevance = rows[relevance > 0], relevance[relevance > 0]
        elif documents == "collection":
            grades = np.zeros(len(builder.index), np.float32)
            grades[rows] = relevance
            rows, relevance = collection, grades[collection]
        elif documents == "candidates":
            is_candidate = np.isin(rows, retrieved.rows)
            rows, relevance = rows[is_candidate], relevance[is_candidate]
        if documents not in WITHOUT_CANDIDATES:
            unjudged = np.setdiff1d(retrieved.rows, rows)
            rows = np.concatenate([rows, unjudged])
            relevance = np.concatenate([relevance, np.zeros(len(unjudged), np.float32)])
        relevance = np.maximum(relevance, 0)
        terms = builder.index.query(query.text)
        words = builder.query(terms)
        if not words.known or not len(rows) or (documents != "relevant" and relevance.min() == relevance.max()):
            continue
        features = builder.features(terms, Candidates(builder.index, rows, _first_stage_scores(rows, retrieved)))
        pools.append(Pool(query.id, words, rows, relevance, features))
    return pools


def _first_stage_scores(rows: np.ndarray, retrieved: Candidates) -> np.ndarray:
    """First-stage score of each row, float32 [P]; 0 if not retrieved."""
    if not len(retrieved):
        return np.zeros(len(rows), np.float32)
    order = np.argsort(retrieved.rows)
    places = order[np.minimum(np.searchsorted(retrieved.rows, rows, sorter=order), len(order) - 1)]
    return np.where(retrieved.rows[places] == rows, retrieved.first_stage_scores[places], np.float32(0))


def draw_pairs(pools: Sequence[Pool], at_most: int, generator: np.random.Generator) -> Examples:
    """Pairs for one epoch, *balanced* as in [D18] 4.2, in random order.

    For each query, as many non-relevant as relevant documents are drawn. From all pairs of these documents with
    different relevance, at most ``at_most`` are drawn without replacement.
    """
    numbers, places = [], []
    for number, pool in enumerate(pools):
        relevant, non_relevant = np.flatnonzero(pool.relevance > 0), np.flatnonzero(pool.relevance <= 0)
        if len(non_relevant) > len(relevant) > 0:
            non_relevant = generator.choice(non_relevant, len(relevant), replace=False)
        balanced = np.concatenate([relevant, non_relevant])
        levels = pool.relevance[balanced]
        pairs = np.stack(np.nonzero(levels[:, None] > levels[None, :]))  # [2, pairs]
        if pairs.shape[1] > at_most:
            pairs = pairs[:, generator.choice(pairs.shape[1], at_most, replace=False)]
        numbers.append(np.full(pairs.shape[1], number))
        places.append(balanced[pairs])
    return _shuffled(numbers, places, 2, generator)


def draw_pairs_by_groups(pools: Sequence[Pool], at_most: int, generator: np.random.Generator) -> Examples:
    """Pairs for one epoch, by *groups* as [P] 2.2 draws its triples, in random order; on average ``at_most`` a query.

    Documents with a grade above 1 are highly relevant, documents with a grade above 0 up to 1 relevant. The better
    document is drawn uniformly from both groups of the whole training set, so each group has a share in proportion to
    its size. The worse document is drawn from the same query: a relevant document below a highly relevant one, a
    non-relevant document below a relevant one. Queries without such a worse document are not in the group.
    """
    numbers: list[np.ndarray] = []
    better: list[np.ndarray] = []
    worse: list[np.ndarray] = []  # of each group of a query, the documents to draw the worse one from
    groups: list[np.ndarray] = []
    for number, pool in enumerate(pools):
        grades = pool.relevance
        high, relevant, non_relevant = grades > 1, (grades > 0) & (grades <= 1), grades <= 0
        for upper, lower in ((high, relevant), (relevant, non_relevant)):
            if upper.any() and lower.any():
                places = np.flatnonzero(upper)
                better.append(places)
                numbers.append(np.full(len(places), number))
                groups.append(np.full(len(places), len(worse)))
                worse.append(np.flatnonzero(lower))
    if not worse:
        return _shuffled([], [], 2, generator)
    sizes = np.array([len(places) for places in worse])
    starts = np.cumsum(sizes) - sizes
    all_better = np.concatenate(better)
    # A group in proportion to its size, then a document of it: each document of both groups is as likely as any other.
    drawn = generator.integers(len(all_better), size=at_most * len(pools))
    group = np.concatenate(groups)[drawn]
    drawn_worse = np.concatenate(worse)[starts[group] + generator.integers(sizes[group])]
    return Examples(np.concatenate(numbers)[drawn], np.stack([all_better[drawn], drawn_worse]))


def draw_documents(pools: Sequence[Pool], at_most: int, generator: np.random.Generator) -> Examples:
    """Single documents for one epoch of a classifier, in random order ([D17] 3.1).

    For each query, at most ``at_most`` / 2 (at least 1) relevant documents and as many non-relevant ones are drawn.
    """
    numbers, places = [], []
    for number, pool in enumerate(pools):
        relevant, non_relevant = np.flatnonzero(pool.relevance > 0), np.flatnonzero(pool.relevance <= 0)
        count = min(len(relevant), len(non_relevant), max(at_most // 2, 1))
        for documents in (relevant, non_relevant):
            places.append(generator.choice(documents, count, replace=False)[None])
            numbers.append(np.full(count, number))
    return _shuffled(numbers, places, 1, generator)


def _shuffled(
    numbers: list[np.ndarray], places: list[np.ndarray], documents: int, generator: np.random.Generator
) -> Examples:
    """The examples of all pools, int64 [n] and int64 [k, n] each, in random order."""
    pool = np.concatenate([np.zeros(0, np.int64), *numbers])
    joined = np.concatenate([np.zeros((documents, 0), np.int64), *places], axis=1)
    order = generator.permutation(len(pool))
    return Examples(pool[order], joined[:, order])
