"""A shard where it is: it answers the coordinator's questions by arrays. Rows here are those of the shard.

Lucene scores by what it reads, so a shard's index is read beside one with the numbers of the other shards, and terms
are searched for with their frequencies in the whole collection: scores are those of a single index to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import Filter
from rerank_plugin.base.lazily import cached_property
from rerank_plugin.base.records import Document, Query
from rerank_plugin.files.checksums import CHECKSUM
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import WordSlices, gathered_words
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.layout import REST
from rerank_plugin.indexes.lucene_reader import clauses, open_reader, side_by_side, stored_text
from rerank_plugin.indexes.sharding import Commit
from rerank_plugin.indexes.strategy_query import matching_query
from rerank_plugin.indexes.vector_search import Fitting, Hits
from rerank_plugin.indexes.vector_store import VectorStore, open_store
from rerank_plugin.java.jvm import detach_at_thread_end, java_class
from rerank_plugin.kernels.quantization import Codes, QuantizedQueries, Spaces
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.base import RerankerOptions
from rerank_plugin.rerankers import Scorer, load
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.rerankers.untrained import TitleLikelihood
from rerank_plugin.retrieval.lucene import LuceneConfig, LuceneFirstStage

MOST_KEPT = 64  # first stages with other settings
MOST_WORDS = 1 << 14  # Lucene's queries of words, some hundred bytes each
NOTHING = np.zeros(0, np.int64), np.zeros(0, np.float32)


class WholeQuery(NamedTuple):
    """A query's distinct words after Lucene's analysis, with their numbers in the collection."""

    words: Sequence[str]
    repeats: Sequence[int]  # in the query
    frequencies: Sequence[tuple[int, int]]  # documents of the collection that hold each, and its occurrences in all


class ScoredPart(NamedTuple):
    """The candidates of a query in a shard: rows int64 [C], first-stage scores float32 [C], and the query's highest."""

    query: Query
    rows: np.ndarray
    first_stage_scores: np.ndarray
    highest: float


class Shard:
    """An open shard. It is thread-safe.

    Args:
        folder: of the shard, in that of its index.
        commit: of the index.
        threads: of the compiled loops.

    Raises:
        InputError: the shard is missing, damaged, or of another commit.
    """

    def __init__(self, folder: str | Path, commit: Commit, threads: int = 1):
        whole, number = Path(folder).absolute().parents[1], int(Path(folder).name)
        self.index, self.threads = Index(whole, commit.number, number), threads
        if self.index.commit != commit.id:
            raise InputError(f"{whole} has the commit {self.index.commit}, not {commit.id}: copy the index again")
        self.forward = self.index.forward
        self.reader = self.index.open_lucene()
        self.scorers: dict[tuple[str, RerankerOptions], Scorer] = {}
        self.lock = Lock()  # of loading and of scoring, whose loops take all threads
        self.opening = Lock()
        self.opened_stage = lru_cache(MOST_KEPT)(self._stage)
        self.first: _PartStage | None = None  # the first that was opened, whose readers the others share
        self.other_reader = lru_cache(None)(self._other_reader)
        self.others: list[Any] = []
        self.store = lru_cache(MOST_KEPT)(self._store)

    def opened(self) -> None:
        """Answered once everything is open."""

    def close(self) -> None:
        """Close Lucene's readers, whose files stay mapped otherwise, and the index."""
        for reader in (self.first, *self.others, self.reader):
            if reader is not None:
                reader.close()
        self.index.close()

    def ask(self, method: str, *arguments: Any) -> Any:
        """The answer of the method with this name."""
        detach_at_thread_end()
        return getattr(self, method)(*arguments)

    def several(self, *questions: tuple[Any, ...]) -> list[Any]:
        """The answers of several questions, each a method and its arguments."""
        return [self.ask(*question) for question in questions]

    # Lucene

    def frequencies(self, field: str, words: Sequence[str]) -> np.ndarray:
        """The documents here that hold each word, and its occurrences in all of them, int64 [m, 2]."""
        return _frequencies(self.reader, field, words)

    def frequencies_of(self, shards: Sequence[int], field: str, words: Sequence[str]) -> np.ndarray:
        """The same of other shards, whose processes do not answer, from their files on this machine.

        Raises:
            InputError: they are not on this machine.
        """
        return np.sum([_frequencies(self.other_reader(number), field, words) for number in shards], axis=0)

    def _other_reader(self, number: int) -> Any:
        reader = Index(self.index.folder, self.index.number, number).open_lucene()
        self.others.append(reader)
        return reader

    def best_matches(
        self, config: LuceneConfig, words: WholeQuery, filter: Filter | None, depth: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The best ``depth`` documents: rows int64 [C], and scores float32 [C] as in an index of the collection."""
        found = self.stage(config).search_words(words, filter, depth)
        return found.rows, found.first_stage_scores

    def count_of(self, filter: Filter) -> tuple[int, tuple[str, ...]]:
        """The number of documents that match a filter, and the notes on its strategy."""
        return self.index.matches(filter)[1:]

    def stage(self, config: LuceneConfig) -> _PartStage:
        """The first stage of these settings; opened once."""
        with self.opening:
            return self.opened_stage(config)

    def _stage(self, config: LuceneConfig) -> _PartStage:
        if self.first is None:
            self.first = _PartStage(self.index, config)
            return self.first
        return self.first.configured(**vars(config))

    # vectors

    def nearest(
        self, key: str, widths: tuple[int, ...], of: str, queries: QuantizedQueries, count: int,
        fits: tuple[Filter, np.ndarray | None] | None, probes: int | None,
    ) -> list[Hits]:  # fmt: skip
        """As :meth:`VectorStore.search_many <rerank_plugin.indexes.vector_store.VectorStore.search_many>`.

        Args:
            fits: a filter, and how many documents of the collection fit in each inverted list, int64 [L]; None for the
                numbers of the shard.
        """
        store, fitting = self.store(key, widths, of), None
        if fits is not None:
            filter, held = fits
            fitting = self._fitting(store, filter) if held is None else self._fitting(store, filter).in_whole(held)
        return store.search_many(queries, count, fitting, probes)

    def held(self, key: str, widths: tuple[int, ...], of: str, filter: Filter) -> np.ndarray:
        """How many documents here fit a filter in each inverted list, int64 [L]."""
        return self._fitting(self.store(key, widths, of), filter).held

    def _fitting(self, store: VectorStore, filter: Filter) -> Fitting:
        fitting = store.fitting(self.index.fitting(filter))
        assert fitting is not None, "there is a filter"
        return fitting

    def products(
        self, key: str, widths: tuple[int, ...], of: str, queries: QuantizedQueries, rows: np.ndarray
    ) -> np.ndarray:
        """The scores of rows int64 [C] for a query, float32 [C]."""
        return self.store(key, widths, of).scores(queries, rows, self.threads)

    def codes(self, key: str, widths: tuple[int, ...], of: str, rows: np.ndarray) -> Codes:
        return self.store(key, widths, of).codes(rows)

    def _store(self, key: str, widths: tuple[int, ...], of: str) -> VectorStore:
        store = open_store(self.forward, key, Spaces(widths), self.threads)
        if store is None or store.description.get(CHECKSUM) != of:
            raise InputError(f"{self.index.folder} lacks its part of the vectors {key}: encode the index again")
        return store

    # texts

    def words(self, rows: np.ndarray) -> WordSlices:
        return gathered_words(self.forward, rows)

    def stored(self, rows: np.ndarray) -> tuple[str | None, str | None]:
        """The stored fields ``raw`` and ``contents`` of one document, int64 [1]."""
        with self.lock:
            return stored_text(self.reader, int(self.forward.lucene_numbers[rows[0]]))

    def document(self, rows: np.ndarray) -> Document | None:
        """Title and abstract of one document, int64 [1], as indexed."""
        with self.lock:
            return next(self.index.stored_documents(self.reader, rows), None)

    # rerankers

    def load(self, spec: str, options: RerankerOptions) -> dict[str, Any]:
        """Load a reranker; returns its attributes."""
        scorer = self.scorer(spec, options)
        if isinstance(scorer, TitleLikelihood) or (scorer.listwise and not isinstance(scorer, NeuralReranker)):
            raise InputError(
                f"'{spec}' reads more of the collection than its candidates, which no shard has: search the folder of "
                "the index on one machine"
            )
        names = ("name", "listwise", "trained_after", "passage_words")
        return {name: getattr(scorer, name) for name in names}

    def scorer(self, spec: str, options: RerankerOptions) -> Scorer:
        with self.lock:
            if (scorer := self.scorers.get((spec, options))) is None:
                own = replace(options, threads=options.threads or self.threads)
                scorer = self.scorers[spec, options] = load(spec, self.forward, own)
        return scorer

    def score(self, spec: str, options: RerankerOptions, parts: Sequence[ScoredPart]) -> list[np.ndarray]:
        """The scores of the candidates of several queries, float32 [C] each."""
        scorer, queries = self.scorer(spec, options), [part.query for part in parts]
        with self.lock:
            return scorer.score_many(queries, [self._candidates(part) for part in parts])

    def attribute(self, spec: str, options: RerankerOptions, part: ScoredPart, place: int) -> Attribution | None:
        scorer = self.scorer(spec, options)
        with self.lock:
            return scorer.attribute(part.query, self._candidates(part), place)

    def lacking_words(self, spec: str, options: RerankerOptions, query: Query) -> list[str]:
        return self.scorer(spec, options).lacking_words(query)

    def unread_words(self, spec: str, options: RerankerOptions, query: Query) -> list[str]:
        return self.scorer(spec, options).unread_words(query)

    def _candidates(self, part: ScoredPart) -> Candidates:
        candidates = Candidates(self.forward, part.rows, part.first_stage_scores)
        candidates.highest = part.highest
        return candidates


def _frequencies(reader: Any, field: str, words: Sequence[str]) -> np.ndarray:
    term = java_class("org.apache.lucene.index.Term")
    terms = [term(field, word) for word in words]
    numbers = [(reader.docFreq(each), reader.totalTermFreq(each)) for each in terms]
    return np.array(numbers, np.int64).reshape(-1, 2)


class _PartStage(LuceneFirstStage):
    """A first stage over the Lucene index of a shard, with the statistics of the collection."""

    def _open(self, index: Index) -> Any:
        (part,) = index.lucene_indexes
        return side_by_side([index.open_lucene(), *(open_reader(index.folder / rest) for rest in part[REST])])

    def configured(self, **settings: Any) -> _PartStage:
        stage = super().configured(**settings)
        vars(stage).pop("term", None)  # queries of the other field
        return stage  # type: ignore[return-value]  # a copy of this one

    def search_words(self, words: WholeQuery, filter: Filter | None, depth: int) -> Candidates:
        """The best ``depth`` documents."""
        queries = [query for word in zip(*words) if (query := self.term(*word)) is not None]
        if not queries and (filter is None or filter.strategy is None):
            return Candidates(self.forward, *NOTHING)
        both = clauses(*((query, "SHOULD") for query in queries))
        if filter is not None:
            self.index.check_filter(filter)
            role = "MUST" if filter.strategy is None else "SHOULD"  # the coordinator does not know the set
            matching = matching_query(filter, self.reader, self.index.description["lucene"])
            both = clauses((both, role), (matching, "FILTER"))
        with self._limited("the query") as limited:
            return limited._best(limited._hits, both, depth)

    @cached_property
    def term(self) -> Callable[[str, int, tuple[int, int]], Any | None]:
        """`_term`, which calls Java eight times, once for a word."""
        return lru_cache(MOST_WORDS)(self._term)

    def _term(self, word: str, repeats: int, frequency: tuple[int, int]) -> Any | None:
        """Lucene's query of a word; None if no document here holds it."""
        term = java_class("org.apache.lucene.index.Term")(self.config.field, word)
        if not (here := self.reader.docFreq(term)):
            return None
        states = java_class("org.apache.lucene.index.TermStates").build(self._context, term, True)
        states.accumulateStatistics(frequency[0] - here, frequency[1] - self.reader.totalTermFreq(term))
        query = java_class("org.apache.lucene.search.TermQuery")(term, states)
        return query if repeats == 1 else java_class("org.apache.lucene.search.BoostQuery")(query, repeats)

    @cached_property
    def _context(self) -> Any:
        """What terms are looked up in: the searcher, in earlier versions of Lucene the reader's context."""
        build = java_class("org.apache.lucene.index.TermStates").build
        term = java_class("org.apache.lucene.index.Term")(self.config.field, "")
        from jnius import JavaException

        try:
            build(self.searcher, term, True)
            return self.searcher
        except JavaException:
            return self.searcher.getTopReaderContext()
