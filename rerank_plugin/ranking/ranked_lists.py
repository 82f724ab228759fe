"""Ranked lists as in run files, of one query and of many: `rank` and `rank_many` of the library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.base.settings import DEPTH
from rerank_plugin.corpora import queries as read_queries
from rerank_plugin.files.runs import RankedList, distinct, strictly_decreasing
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.ranking.pipeline import Ranking
from rerank_plugin.ranking.reranker import Reranker, as_query
from rerank_plugin.ranking.searcher import Searcher


def rank(
    index: str | Path | Index,
    query: str,
    reranker: str | Path | Reranker | Any | None = None,
    first_stage: str | Any = "bm25",
    depth: int = DEPTH,
) -> RankedList:
    """The ranked list of one query, as in `rank_many`. Each call opens the index; use `Searcher` for several queries.

    Arguments and errors as in `Searcher`.
    """
    with Searcher(index, reranker, first_stage, depth) as searcher:
        return _ranked_list(searcher._rank(as_query(query)))


def rank_many(
    index: str | Path | Index,
    queries: str | Path | Mapping[str, str] | Iterable[Query],
    reranker: str | Path | Reranker | Any | None = None,
    first_stage: str | Any = "bm25",
    depth: int = DEPTH,
    threads: int = 2,
) -> dict[str, RankedList]:
    """A run: the ranked lists of all queries by their ids, in the order of the queries.

    `write_run` writes the same file as the search command. Scores have no ties: equal scores are separated by the
    smallest float32 steps, so that every tool reads the same order.

    Args:
        queries: a spec as for the commands (``sample:test``, a BEIR folder with its split, a TSV file, ...), texts by
            query id, or records with ``id`` and ``text``. Ids that are whole numbers become texts.
        threads: number of threads that retrieve candidates.

    Other arguments as in `Searcher`.

    Raises:
        InputError: as in `Searcher`, or the queries cannot be read, or two queries have the same id.
    """
    checked_queries = _queries(queries)
    with Searcher(index, reranker, first_stage, depth) as searcher:
        return {ranking.query.id: _ranked_list(ranking) for ranking in searcher._rank_all(checked_queries, threads)}


def _ranked_list(ranking: Ranking) -> RankedList:
    ranking.require_complete()  # as a run is
    return RankedList(ranking.doc_ids, strictly_decreasing(ranking.ranked_scores))


def _queries(queries: str | Path | Mapping[str, str] | Iterable[Query]) -> list[Query]:
    if isinstance(queries, (str, Path)):
        return read_queries(str(queries))
    if isinstance(queries, Mapping):
        return distinct(as_query(text, id) for id, text in queries.items())
    records = list(queries)
    if invalid := [record for record in records if not isinstance(record, Query)]:
        raise InputError(f"queries are records of id and text, or texts by id; found {type(invalid[0]).__name__}")
    return distinct(records)
