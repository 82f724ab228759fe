"""Training pairs: two documents of one query, the first more relevant than the second ([D18] 3.4, 4.2).

Each query has a pool of documents, made from its first-stage candidates, its judged documents, both, or the whole
collection; a document that is not judged counts as non-relevant. (The paper trained on first result pages only, and
names missing documents from deep in the results as its weakness in 5.3.1.) By default, documents that are not retrieved
are left out: a reranker never scores them, and relevant documents that share no word with the query could teach the
model that matching words are evidence against relevance.

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
WITHOUT_CANDIDATES = ("judged", "relevant", "collection")  # what these hold does not depend on a first stage


class Pool(NamedTuple):
    """The documents of one query that pairs are drawn from."""

    query_id: str
    words: ModelQuery
    rows: np.ndarray  # of the forward index, int64 [P]
    relevance: np.ndarray  # float32 [P]
    features: np.ndarray  # lexical features, float32 [P, F]


class Examples(NamedTuple):
    """The examples of an epoch; letters in shapes: n examples, k documents of an example (2 of a pair)."""

    pool: np.ndarray  # number of the query's pool, int64 [n]
    places: np.ndarray  # of the documents in the pool, int64 [k, n]; in a pair the more relevant one is first


def make_pools(
    queries: Sequence[Query],
    judgments: Judgments,
    candidates: Mapping[str, Candidates],
    builder: InputBuilder,
    documents: str = "candidates",
) -> list[Pool]:
    """Pools of the queries that have two documents of different relevance and a word the model knows.

    Args:
        candidates: first-stage candidates by query id; they may be missing where ``documents`` does not need them.
        documents: which documents a pool holds: ``candidates``, ``judged``, ``all`` (both), ``collection`` (every
            document of the index), or ``relevant`` (the relevant judged ones; one such document is enough).
    """
    if documents not in POOLS:
        raise InputError(f"unknown kind of training documents '{documents}'; known: {', '.join(POOLS)}")
    pools = []
    every = np.arange(len(builder.index))
    nothing = Candidates(builder.index, every[:0], np.zeros(0, np.float32))
    for query in queries:
        judged = judgments.get(query.id, {})
        rows = builder.index.rows(list(judged))
        relevance = np.fromiter(judged.values(), np.float32, len(judged))[rows >= 0]
        rows = rows[rows >= 0]
        retrieved = candidates.get(query.id, nothing) if documents in WITHOUT_CANDIDATES else candidates[query.id]
        if documents == "relevant":
            rows, relevance = rows[relevance > 0], relevance[relevance > 0]
        elif documents == "collection":
            graded = np.zeros(len(every), np.float32)
            graded[rows] = relevance
            rows, relevance = every, graded
        elif documents == "candidates":
            inside = np.isin(rows, retrieved.rows)
            rows, relevance = rows[inside], relevance[inside]
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
    """First-stage score of each row, float32 [P]; 0 for a document that was not retrieved."""
    if not len(retrieved):
        return np.zeros(len(rows), np.float32)
    order = np.argsort(retrieved.rows)
    places = order[np.minimum(np.searchsorted(retrieved.rows, rows, sorter=order), len(order) - 1)]
    return np.where(retrieved.rows[places] == rows, retrieved.first_stage_scores[places], np.float32(0))


def draw_pairs(pools: Sequence[Pool], at_most: int, generator: np.random.Generator) -> Examples:
    """Pairs for one epoch, *balanced* as in [D18] 4.2, in random order.

    For each query, as many non-relevant documents are drawn as it has relevant ones. From all pairs of these documents
    with different relevance, at most ``at_most`` are drawn without replacement.
    """
    numbers, places = [], []
    for number, pool in enumerate(pools):
        relevant, others = np.flatnonzero(pool.relevance > 0), np.flatnonzero(pool.relevance <= 0)
        if len(others) > len(relevant) > 0:
            others = generator.choice(others, len(relevant), replace=False)
        balanced = np.concatenate([relevant, others])
        levels = pool.relevance[balanced]
        pairs = np.stack(np.nonzero(levels[:, None] > levels[None, :]))  # [2, pairs]
        if pairs.shape[1] > at_most:
            pairs = pairs[:, generator.choice(pairs.shape[1], at_most, replace=False)]
        numbers.append(np.full(pairs.shape[1], number))
        places.append(balanced[pairs])
    return _shuffled(numbers, places, 2, generator)


def draw_pairs_by_groups(pools: Sequence[Pool], at_most: int, generator: np.random.Generator) -> Examples:
    """Pairs for one epoch, by *groups* as [P] 2.2 draws its triples, in random order; on average ``at_most`` a query.

    Documents with a grade above 1 are highly relevant, those with a grade above 0 up to 1 relevant. The better document
    is drawn uniformly from both groups of the whole training set, so that a group has a share in proportion to its
    size. The worse document is drawn from the same query: a relevant one for a highly relevant one, and a non-relevant
    one for a relevant one. If a query has no such worse document, its documents are not in the group.
    """
    numbers, better, below, of_group = [], [], [], []
    for number, pool in enumerate(pools):
        grades = pool.relevance
        high, relevant, others = grades > 1, (grades > 0) & (grades <= 1), grades <= 0
        for upper, lower in ((high, relevant), (relevant, others)):
            if upper.any() and lower.any():
                places = np.flatnonzero(upper)
                better.append(places)
                numbers.append(np.full(len(places), number))
                of_group.append(np.full(len(places), len(below)))
                below.append(np.flatnonzero(lower))
    if not below:
        return _shuffled([], [], 2, generator)
    sizes = np.array([len(places) for places in below])
    starts, below = np.cumsum(sizes) - sizes, np.concatenate(below)
    numbers, better, of_group = map(np.concatenate, (numbers, better, of_group))
    # A group in proportion to its size, then a document of it: each document of both groups is as likely as any other.
    drawn = generator.integers(len(better), size=at_most * len(pools))
    worse = below[starts[of_group[drawn]] + generator.integers(sizes[of_group[drawn]])]
    return Examples(numbers[drawn], np.stack([better[drawn], worse]))


def draw_documents(pools: Sequence[Pool], at_most: int, generator: np.random.Generator) -> Examples:
    """Single documents for one epoch of a classifier, in random order ([D17] 3.1).

    For each query, at most ``at_most`` / 2 (at least 1) relevant documents and as many others are drawn.
    """
    numbers, places = [], []
    for number, pool in enumerate(pools):
        relevant, others = np.flatnonzero(pool.relevance > 0), np.flatnonzero(pool.relevance <= 0)
        count = min(len(relevant), len(others), max(at_most // 2, 1))
        for kind in (relevant, others):
            places.append(generator.choice(kind, count, replace=False)[None])
            numbers.append(np.full(count, number))
    return _shuffled(numbers, places, 1, generator)


def _shuffled(numbers: list, places: list, documents: int, generator: np.random.Generator) -> Examples:
    """The examples of all pools, int64 [n] and int64 [k, n] each, in random order."""
    pool = np.concatenate([np.zeros(0, np.int64), *numbers])
    joined = np.concatenate([np.zeros((documents, 0), np.int64), *places], axis=1)
    order = generator.permutation(len(pool))
    return Examples(pool[order], joined[:, order])
