"""The public search API: `Searcher` returns hits; `rank` and `rank_many` return ranked lists as in run files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rerank_plugin.corpora import queries as read_queries
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.java import detach_at_thread_end
from rerank_plugin.files.records import Query
from rerank_plugin.files.runs import RankedList, strictly_decreasing
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.ranking import pipeline
from rerank_plugin.ranking.pipeline import Ranking
from rerank_plugin.ranking.reranker import Hit, Reranker, as_query, at_least_one, hits, open_index, whole
from rerank_plugin.retrieval.register import FIRST_STAGES, RANKING, FirstStage, check_filter, configure

QUERIES_AT_ONCE = 8  # that a reranker scores together where there are many


class Searcher:
    """Retrieves candidates with a first stage and re-ranks them. It is thread-safe.

    The hits of a query equal the run that the search command writes with the same settings, in the same order.

    Attributes:
        index: the `Index` that is searched.
        reranker: the `Reranker`; None to keep the first stage's order.
        depth: the most candidates that the first stage retrieves for a query.
    """

    def __init__(
        self,
        index: str | Path | Index,
        reranker: str | Path | Reranker | Any | None = None,
        first_stage: str | Any = "bm25",
        depth: int = 500,
    ):
        """Open the index, the reranker and the first stage, once for all queries.

        Args:
            index: the folder of an index, or an open `Index`.
            reranker: what `Reranker.load` takes, a `Reranker` over this index, or an object with
                ``score(query, candidates)``.
            first_stage: as the commands name one (``bm25``, ``qld``, ``bm25+rm3``, ``dense:CHECKPOINT``, ``all``, ...),
                or a configuration object of :mod:`rerank_plugin.retrieval`.
            depth: how many candidates are retrieved for a query.

        Raises:
            InputError: there is no such index, reranker or first stage, or they do not belong together.
        """
        self.depth = at_least_one(depth, "depth")
        self._config = _first_stage_config(first_stage)

        def opened() -> tuple[Index, Reranker | None, FirstStage]:
            found = open_index(index)
            return found, _reranker(reranker, found), found.first_stage(self._config)

        self.index, self.reranker, self._first_stage = whole(index, opened)
        self._closed = False
        self._entry = FIRST_STAGES.find(self._config.name)  # None for a configuration that is not registered

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The k documents with the highest scores, from rank 1 on; fewer if the first stage finds fewer.

        Raises:
            InputError: the query is no text, or k is below 1 or above the depth.
        """
        return hits(self._rank(as_query(query)), self._within_depth(k))

    def batch_search(
        self, queries: Sequence[str], qids: Sequence[str] | None = None, k: int = 10, threads: int = 1
    ) -> dict[str, list[Hit]]:
        """`search` for many queries: the hits by query id, in the order of the queries.

        Args:
            qids: ids of the queries; by default their positions in the list, "0", "1", ...
            threads: how many threads retrieve candidates.

        Raises:
            InputError: as in `search`, or the number of ids differs from that of queries, or two ids are equal.
        """
        if isinstance(queries, str):
            raise InputError("batch_search takes a list of queries; one query is for search")
        texts = list(queries)
        ids = [str(place) for place in range(len(texts))] if qids is None else list(qids)
        if len(ids) != len(texts):
            raise InputError(f"{len(texts)} queries but {len(ids)} query ids: give one id each")
        asked = _checked(as_query(text, id) for text, id in zip(texts, ids))
        k = self._within_depth(k)
        return {ranking.query.id: hits(ranking, k) for ranking in self._rank_all(asked, threads)}

    def close(self) -> None:
        """Close the first stage; nothing can be searched afterwards."""
        close = getattr(self._first_stage, "close", None)  # some first stages hold nothing open
        if not self._closed and close is not None:
            close()
        self._closed = True

    def __enter__(self) -> Searcher:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _source(self, query: Query) -> Candidates:
        detach_at_thread_end()  # callers' threads come and go
        check_filter(self._first_stage, query)
        return self._first_stage.search(query, self.depth)

    def _rank(self, query: Query) -> Ranking:
        self._check_open()
        if self._entry is not None and self._entry.needs_query_id:
            raise InputError(f"the first stage '{self._config.name}' looks query ids up: use batch_search or rank_many")
        return self._cut(pipeline.rank(query, self._source(query), self._scorer))

    def _rank_all(self, queries: Sequence[Query], threads: int) -> Iterator[Ranking]:
        self._check_open()
        threads = at_least_one(threads, "threads")
        return map(self._cut, pipeline.rank_all(queries, self._source, self._scorer, threads, QUERIES_AT_ONCE))

    @property
    def _scorer(self) -> Any:
        return None if self.reranker is None else self.reranker._scorer

    def _cut(self, ranking: Ranking) -> Ranking:
        """The ranking, cut at ``depth`` if ``depth_cuts`` of the first stage's entry is `RANKING`."""
        return ranking.best(self.depth) if self._entry is not None and self._entry.depth_cuts == RANKING else ranking

    def _within_depth(self, k: int) -> int:
        if at_least_one(k, "k") > self.depth:
            raise InputError(
                f"k is {k}, but only {self.depth} candidates are retrieved: open the searcher with depth={k}"
            )
        return int(k)

    def _check_open(self) -> None:
        if self._closed:
            raise InputError("this searcher is closed: open another one")


def rank(
    index: str | Path | Index,
    query: str,
    reranker: str | Path | Reranker | Any | None = None,
    first_stage: str | Any = "bm25",
    depth: int = 500,
) -> RankedList:
    """The ranked list of one query, as in `rank_many`. Each call opens the index; use `Searcher` for several queries.

    Arguments and errors are those of `Searcher`.
    """
    with Searcher(index, reranker, first_stage, depth) as searcher:
        return _ranked_list(searcher._rank(as_query(query)))


def rank_many(
    index: str | Path | Index,
    queries: str | Path | Mapping[str, str] | Iterable[Query],
    reranker: str | Path | Reranker | Any | None = None,
    first_stage: str | Any = "bm25",
    depth: int = 500,
    threads: int = 2,
) -> dict[str, RankedList]:
    """A run: the ranked lists of all queries by their ids, in the order of the queries.

    `write_run` writes it as the same file as the search command. Scores have no ties: equal scores are separated by
    the smallest float32 steps, so that every tool reads the same order.

    Args:
        queries: what the commands take (``sample:test``, a BEIR folder with its split, a TSV file, ...), texts by query
            id, or records with ``id`` and ``text``.
        threads: how many threads retrieve candidates.

    The other arguments are those of `Searcher`.

    Raises:
        InputError: as in `Searcher`, or the queries cannot be read, or two have the same id.
    """
    asked = _queries(queries)
    with Searcher(index, reranker, first_stage, depth) as searcher:
        return {ranking.query.id: _ranked_list(ranking) for ranking in searcher._rank_all(asked, threads)}


def _ranked_list(ranking: Ranking) -> RankedList:
    return RankedList(ranking.doc_ids, strictly_decreasing(ranking.ranked_scores))


def _queries(given: str | Path | Mapping[str, str] | Iterable[Query]) -> list[Query]:
    if isinstance(given, (str, Path)):
        return read_queries(str(given))
    if isinstance(given, Mapping):
        return _checked(as_query(text, id) for id, text in given.items())
    asked = list(given)
    if strange := [one for one in asked if not isinstance(one, Query)]:
        raise InputError(f"queries are records of id and text, or texts by id; found {type(strange[0]).__name__}")
    return _checked(asked)


def _checked(queries: Iterable[Query]) -> list[Query]:
    """The queries, whose ids must be texts and differ."""
    found: dict[str, Query] = {}
    for query in queries:
        if not isinstance(query.id, str):
            raise InputError(f"the query id {query.id!r} is no text: give '{query.id}'")
        if query.id in found:
            raise InputError(f"two queries have the id '{query.id}': query ids must differ")
        found[query.id] = query
    return list(found.values())


def _first_stage_config(given: str | Any) -> Any:
    if isinstance(given, str):
        return configure(given)
    if not callable(getattr(given, "open", None)):
        raise InputError(f"a first stage is a name, such as 'bm25', or a configuration, not {type(given).__name__}")
    return given


def _reranker(given: str | Path | Reranker | Any | None, index: Index) -> Reranker | None:
    if given is None:
        return None
    if isinstance(given, (str, Path)):
        return Reranker.load(given, index)
    if not isinstance(given, Reranker):
        return Reranker(given, index)
    other = given.index
    if other.folder.resolve() != index.folder.resolve() or other.generation != index.generation:
        raise InputError(
            f"the reranker is of the index {other.folder}, not of {index.folder} as it is now: load it anew"
        )
    return given
