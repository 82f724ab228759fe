"""The coordinator: an index whose documents other processes have, opened by searchers, commands and the service.

It holds the folder of the whole index, in which ids, vocabulary, statistics, the adapted encoder and the lists of the
vectors are; the shards search, score and read their documents. The coordinator asks all of them at once, puts their
answers together by score and then by decreasing document id, and gives each its part of the candidates to score.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rerank_plugin.base.errors import InputError, UnavailableError
from rerank_plugin.base.filters import Filter
from rerank_plugin.base.lazily import cached_property
from rerank_plugin.base.records import Document, Query
from rerank_plugin.cluster.shard import ScoredPart, WholeQuery
from rerank_plugin.files.checksums import CHECKSUM
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex, WordSlices, together
from rerank_plugin.indexes.index_folder import FilterMatches, Index
from rerank_plugin.indexes.layout import COMMIT, SHARDS, shard_folder
from rerank_plugin.indexes.lucene_analysis import PORTER, analyzer, normalizer_of
from rerank_plugin.indexes.sharding import Commit
from rerank_plugin.indexes.strategy_query import NONE
from rerank_plugin.indexes.vector_search import Hits, Queries, merged_hits
from rerank_plugin.indexes.vector_store import VectorStore, open_store
from rerank_plugin.java.jvm import java_class
from rerank_plugin.kernels.quantization import Spaces
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.base import RerankerOptions
from rerank_plugin.rerankers import Scorer, load_over
from rerank_plugin.retrieval.lucene import RM3, LuceneConfig, open_stage

log = logging.getLogger(__name__)

MOST_FILTERS = 64  # filters whose numbers of documents are remembered, 8 bytes for each inverted list
MOST_WORDS = 1 << 20  # words whose document frequencies are remembered, some 100 bytes each
left_out: ContextVar[frozenset[int]] = ContextVar("shards that a search leaves out", default=frozenset())
Question = tuple[Any, ...]  # the name of a method of a `Shard`, and its arguments


class OpenShards(Protocol):
    """The shards of an index, wherever they are. It is thread-safe."""

    def ask(self, questions: Mapping[int, Question]) -> dict[int, Any]:
        """The answer of each shard to its question, by the shard's number.

        Raises:
            InputError: a shard refuses; or does not answer in time, which the message says of it.
        """

    partial: bool = False  # whether a ranking may lack the documents of shards that do not answer

    def lost(self) -> frozenset[int]:
        """The shards that do not answer at present."""
        return frozenset()

    def load(self, question: Question) -> dict[int, Any]:
        """The answer of each shard to a question that takes as long as it needs, whatever a search may take.

        Every process of a shard is asked, and one that is started anew again, before anything else.

        Raises:
            InputError: a shard refuses.
        """

    def close(self) -> None: ...


class RemoteForward(ForwardIndex):
    """The forward indexes of shards that other processes have, as one."""

    owner: RemoteIndex

    @property
    def answering(self) -> OpenShards:
        return self.owner.answering

    def ask_shards(self, rows: np.ndarray, method: str, *arguments: Any) -> list[tuple[np.ndarray, Any]]:
        """What each shard answers for its rows, with their places among ``rows`` int64 [n]."""
        parts = {number: (at, local) for number, at, local in self.row_map.by_shard(rows)}
        if not parts:
            return []
        answers = self.answering.ask({number: (method, *arguments, local) for number, (_, local) in parts.items()})
        return [(parts[number][0], answer) for number, answer in answers.items()]

    def searched_shards(self) -> list[int]:
        """The shards that the present search does not leave out."""
        return [number for number in self.row_map.shards if number not in left_out.get()]

    def ask_searched(self, *question: Any) -> dict[int, Any]:
        """Their answers to a question, by their numbers."""
        return self.answering.ask(dict.fromkeys(self.searched_shards(), question))

    def whole_rows(self, number: int, local: np.ndarray) -> np.ndarray:
        """Rows of the whole index, int64 [n], from those of a shard."""
        return self._of_shards[number][local]

    @cached_property
    def _of_shards(self) -> dict[int, np.ndarray]:
        """The rows of each shard's documents, int64 [n]."""
        return {shard: self.row_map.of_shard(shard) for shard in self.row_map.shards}

    def words(self, rows: np.ndarray) -> WordSlices:
        return together(len(rows), self.ask_shards(rows, "words"))


class RemoteIndex(Index):
    """An index of shards that other processes have; it answers the questions of any index.

    Args:
        folder: of the whole index.
        connect: opens the shards, from their folders and the commit.

    Raises:
        InputError: as `Index`; it is no index of shards; or as ``connect``.
    """

    forward: RemoteForward
    forward_class = RemoteForward

    def __init__(self, folder: str | Path, connect: Callable[[Sequence[Path], Commit], OpenShards]):
        super().__init__(folder)
        if SHARDS not in self.description:
            raise InputError(f"{folder} is no index of shards: build one with: {self.rebuild} --shards N")
        folders = [self.folder / shard_folder(number) for number in range(len(self.description[SHARDS]))]
        self.answering = connect(folders, Commit(self.number, self.description[COMMIT]))
        self.frequencies: dict[tuple[str, str], tuple[int, int]] = {}

    def close(self) -> None:
        self.answering.close()
        super().close()

    def search(self, first_stage: Any, query: Query, depth: int) -> Candidates:
        """As `Index.search`; where a ranking may lack documents, in the shards that answer all of its questions."""
        if not self.answering.partial:
            return super().search(first_stage, query, depth)
        missing = self.answering.lost()
        while True:
            before = left_out.set(missing)
            try:
                candidates = super().search(first_stage, query, depth)
                candidates.missing = missing
                return candidates
            except UnavailableError as error:
                if error.shards <= missing or len(missing | error.shards) == len(self.description[SHARDS]):
                    raise
                missing |= error.shards
            finally:
                left_out.reset(before)

    def texts(self) -> RemoteTexts:
        return RemoteTexts(self)

    def open_lucene(self) -> Any:
        raise InputError(f"the documents of {self.folder} are on a cluster: read its shards, or open the folder itself")

    def _matches(self, filter: Filter) -> FilterMatches:
        self.check_filter(filter)
        answers = list(self.forward.ask_searched("count_of", filter).values())
        told = [notes for _, notes in answers]
        notes = dict.fromkeys(
            note for notes in told for note in notes if not note.startswith(NONE) or all(note in each for each in told)
        )
        return FilterMatches(filter, sum(count for count, _ in answers), tuple(notes))

    def count(self, filter: Filter) -> int:
        return self.matches(filter).total

    def fitting(self, filter: Filter) -> Any:
        """The filter itself, which each shard applies."""
        self.check_filter(filter)
        return filter

    def word_frequencies(self, field: str, words: Sequence[str]) -> list[tuple[int, int]]:
        """The documents of the collection that hold each word, and its occurrences in all; asked for once."""
        remembered = self.frequencies  # other threads may begin another
        known = {word: count for word in words if (count := remembered.get((field, word))) is not None}
        if new := [word for word in words if word not in known]:
            answers = self.forward.ask_searched("frequencies", field, new)
            counts = np.sum([*answers.values()], axis=0)
            if others := sorted(left_out.get()):  # read by another shard: files outlive processes
                other = next(iter(answers))
                counts += self.answering.ask({other: ("frequencies_of", others, field, new)})[other]
            known.update((word, (int(one), int(all))) for word, (one, all) in zip(new, counts))
            if len(remembered) > MOST_WORDS:
                self.frequencies = remembered = {}
            remembered.update({(field, word): known[word] for word in new})
        return [known[word] for word in words]


class RemoteTexts:
    """The stored texts of documents in shards (:class:`~rerank_plugin.indexes.lucene_reader.StoredTexts`)."""

    def __init__(self, index: RemoteIndex):
        self.index, self.forward = index, index.forward

    def stored(self, number: int) -> tuple[str | None, str | None]:
        return self._of(int(self.forward.lucene_rows[number]), "stored")

    def document(self, row: int) -> Document | None:
        return self._of(row, "document")

    def first_with(self, *_: Any) -> int | None:
        raise InputError(
            f"{self.index.folder} is on a cluster: look documents up by their ids, or search with a filter"
        )

    def close(self) -> None: ...

    def _of(self, row: int, method: str) -> Any:
        (_, answer), *_ = self.forward.ask_shards(np.array([row]), method)
        return answer


@open_stage.register(RemoteIndex)
def _open_stage(index: RemoteIndex, config: LuceneConfig) -> RemoteStage:
    return RemoteStage(index, config)


@open_store.register(RemoteForward)
def _open_store(index: RemoteForward, key: str, spaces: Spaces, threads: int | None = None) -> RemoteStore | None:
    whole = open_store.dispatch(ForwardIndex)(index, key, spaces, threads)
    return None if whole is None else RemoteStore(index, whole, key)


@load_over.register(RemoteForward)
def _load_over(index: RemoteForward, spec: str, options: RerankerOptions) -> RemoteScorer:
    return RemoteScorer(index, spec, options)


class RemoteStage:
    """A first stage of Lucene over all shards, with the statistics of the collection.

    Raises:
        InputError: it expands queries, which needs the words of documents of all shards.
    """

    filters = True

    def __init__(self, index: RemoteIndex, config: LuceneConfig):
        if config.name == RM3 or config.expand:
            name = f"bm25 with {config.expand}" if config.expand else config.name
            raise InputError(
                f"'{name}' cannot be computed on a cluster: take bm25, qld, dense or hybrid, or search the "
                "folder of the index on one machine"
            )
        self.index, self.forward, self.config, self.name = index, index.forward, config, config.name
        lucene = index.description["lucene"]
        self.analyzer, self.read = analyzer(lucene.get("analyzer", PORTER)), normalizer_of(lucene)

    def configured(self, **settings: Any) -> RemoteStage:
        """This first stage with other settings."""
        return RemoteStage(self.index, replace(self.config, **settings))

    def search(self, query: Query, depth: int) -> Candidates:
        """The best ``depth`` documents that match the query's filter."""
        field = self.config.field
        if query.filter is not None:
            self.index.check_filter(query.filter)
        text = self.read(query.text.encode(errors="replace").decode())
        words = Counter(java_class("io.anserini.analysis.AnalyzerUtils").analyze(self.analyzer, text).toArray())
        if not words and (query.filter is None or query.filter.strategy is None):
            return Candidates(self.forward, [], [])
        whole = WholeQuery(list(words), list(words.values()), self.index.word_frequencies(field, list(words)))
        parts = self.forward.ask_searched("best_matches", self.config, whole, query.filter, depth)
        rows = [self.forward.whole_rows(number, rows) for number, (rows, _) in parts.items()]
        scores = [found for _, found in parts.values()]
        return Candidates(self.forward, np.concatenate(rows), np.concatenate(scores)).best(depth)


class RemoteStore(VectorStore):
    """The vectors of all shards. Centroids and lists are here, codes there."""

    def __init__(self, index: RemoteForward, whole: VectorStore, key: str):
        super().__init__(
            whole.spaces, whole.segments, whole.row_map, whole.centroids, whole.probes, whole.threads,
            whole.description, whole.size,
        )  # fmt: skip
        self.index = index
        widths = whole.spaces.widths[: int(np.searchsorted(np.cumsum(whole.spaces.widths), whole.size)) + 1]
        self.named = key, tuple(widths), whole.description[CHECKSUM]
        self.held_of = lru_cache(MOST_FILTERS)(self._held_of)

    def on(self, device: str, put: Any) -> RemoteStore:
        return self

    def decode(self, rows: np.ndarray) -> np.ndarray:
        found = self.spaces.empty(len(rows))
        for at, part in self.index.ask_shards(rows, "codes", *self.named):
            found.codes[at], found.scales[at] = part
        return self.spaces.decode(found)[:, : self.size]

    def scores(self, query: Queries, rows: np.ndarray, threads: int | None = None) -> np.ndarray:
        scores = np.zeros(len(rows), np.float32)
        if len(rows):
            for at, part in self.index.ask_shards(rows, "products", *self.named, self.quantize(query)):
                scores[at] = part
        return scores

    def fitting(self, fits: Any) -> Any:
        """The filter, which each shard applies, and the collection's documents that fit in each list, int64 [L]."""
        if not isinstance(fits, Filter):
            return fits
        one_list = self.inverted_lists == 1  # all are searched
        return fits, None if one_list else self.held_of(fits, tuple(self.index.searched_shards()))

    def _held_of(self, filter: Filter, shards: tuple[int, ...]) -> np.ndarray:
        answers = self.index.answering.ask(dict.fromkeys(shards, ("held", *self.named, filter)))
        return np.sum([*answers.values()], axis=0)

    def search_many(self, queries: Queries, count: int, fits: Any = None, probes: int | None = None) -> list[Hits]:
        nearest = "nearest", *self.named, self.quantize(queries), count, fits, probes
        return self._merged(self.index.ask_searched(*nearest), count)

    def search_and_score(
        self, query: Queries, count: int, candidates: np.ndarray, fits: Any = None, probes: int | None = None,
        vectors: Any = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
        quantized = self.quantize(query)
        nearest, products = (
            ("nearest", *self.named, quantized, count, fits, probes),
            ("products", *self.named, quantized),
        )
        parts = {number: (at, local) for number, at, local in self.index.row_map.by_shard(candidates)}
        answers = self.index.answering.ask({
            number: ("several", nearest, *([(*products, parts[number][1])] if number in parts else []))
            for number in self.index.searched_shards()
        })  # fmt: skip
        scores = np.zeros(len(candidates), np.float32)
        for number, (at, _) in parts.items():
            scores[at] = answers[number][1]
        ((rows, best),) = self._merged({number: answer[0] for number, answer in answers.items()}, count)
        others = ~np.isin(candidates, rows)
        return rows, best, candidates[others], scores[others]

    def _merged(self, parts: Mapping[int, Sequence[Hits]], count: int) -> list[Hits]:
        """The best ``count`` documents of each query from the shards' rows and scores for each."""
        return [
            merged_hits(
                [(self.index.whole_rows(number, local), scores) for number, (local, scores) in zip(parts, of_query)],
                count,
            )
            for of_query in zip(*parts.values())
        ]


class RemoteScorer(Scorer):
    """A reranker that each shard has loaded; each scores its own candidates.

    Raises:
        InputError: it cannot be loaded, or what it gives a document depends on other documents.
    """

    scores_together = True

    def __init__(self, index: RemoteForward, spec: str, options: RerankerOptions):
        self.index, self.named = index, (spec, options)
        loaded = next(iter(index.answering.load(("load", *self.named)).values()))
        self.name, self.listwise = loaded["name"], loaded["listwise"]
        self.trained_after, self.passage_words = loaded["trained_after"], loaded["passage_words"]

    def score(self, query: Query, candidates: Candidates) -> np.ndarray:
        return self.score_many([query], [candidates])[0]

    def score_many(self, queries: Sequence[Query], candidates: Sequence[Candidates]) -> list[np.ndarray]:
        scores = [np.zeros(len(each), np.float32) for each in candidates]
        asked: dict[int, list[tuple[int, np.ndarray, ScoredPart]]] = {}
        for place, (query, each) in enumerate(zip(queries, candidates)):
            for number, at, local in self.index.row_map.by_shard(each.rows):
                part = ScoredPart(query, local, each.first_stage_scores[at], each.highest_score())
                asked.setdefault(number, []).append((place, at, part))
        questions = {number: ("score", *self.named, [part for *_, part in parts]) for number, parts in asked.items()}
        for number, answer in self.index.answering.ask(questions).items() if questions else ():
            for (place, at, _), part_scores in zip(asked[number], answer):
                scores[place][at] = part_scores
        return scores

    def attribute(self, query: Query, candidates: Candidates, place: int) -> Attribution | None:
        ((number, _, local),) = self.index.row_map.by_shard(candidates.rows[[place]])
        part = ScoredPart(query, local, candidates.first_stage_scores[[place]], candidates.highest_score())
        return self.index.answering.ask({number: ("attribute", *self.named, part, 0)})[number]

    def lacking_words(self, query: Query) -> list[str]:
        return self._ask_one("lacking_words", query)

    def unread_words(self, query: Query) -> list[str]:
        return self._ask_one("unread_words", query)

    def _ask_one(self, method: str, query: Query) -> list[str]:
        lost = self.index.answering.lost()
        number = next((n for n in self.index.row_map.shards if n not in lost), 0)
        return self.index.answering.ask({number: (method, *self.named, query)})[number]
