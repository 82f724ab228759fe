"""Candidates from Lucene through Pyserini's Anserini: BM25, query likelihood and RM3, over one field.

The number of calls from Python to Java does not depend on the depth: Java returns the hits as one string of Lucene
document numbers and scores, and an array maps the numbers to rows of the forward index. External ids are not read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, singledispatch
from math import inf
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.base.stopping import seconds_left
from rerank_plugin.concepts.headings import Headings
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.index_folder import NORMALIZATION, TERM_VECTORS, Index
from rerank_plugin.indexes.lucene_analysis import PORTER, analyzer, normalizer_of
from rerank_plugin.indexes.lucene_reader import check_ended, clauses, limited, without_stored_fields
from rerank_plugin.indexes.strategy_query import matching_query
from rerank_plugin.java.jvm import java_class
from rerank_plugin.retrieval.expansion import MESH, Expansion, kinds_of
from rerank_plugin.retrieval.register import FirstStageEntry, check_bounds, register, setting
from rerank_plugin.retrieval.rm3 import RelevanceModel

log = logging.getLogger(__name__)

LUCENE_FIELDS = ("contents", "title", "abstract")
BM25, QLD, RM3 = "bm25", "qld", "bm25+rm3"
NAMES = (BM25, QLD, RM3)
LuceneSearch = Callable[[Any, int], tuple[np.ndarray, np.ndarray]]  # query and depth to numbers and scores of hits
LARGEST = 1_000_000  # k1 and mu: Lucene computes with 32 bits, which larger values would use up
MOST_RM3 = 1000  # expansion terms and feedback documents
MOST_WORDS = 1 << 16  # words of a query, which may be a whole abstract
TIES = 64  # hits requested beyond the cut; more rarely tie with it


@dataclass(frozen=True)
class LuceneConfig:
    """Retrieval with Lucene: ``bm25``, ``qld`` (query likelihood with Dirichlet smoothing) or ``bm25+rm3``."""

    name: str = BM25
    field: str = setting("contents", "field to search: contents (title + abstract), title or abstract")
    k1: float = setting(0.9, "BM25's k1", ge=0, le=LARGEST)
    b: float = setting(0.4, "BM25's b", ge=0, le=1)
    mu: float = setting(1000.0, "Dirichlet smoothing parameter of qld", gt=0, le=LARGEST)
    rm3_terms: int = setting(10, "expansion terms of RM3", ge=1, le=MOST_RM3)
    rm3_documents: int = setting(10, "feedback documents of RM3", ge=1, le=MOST_RM3)
    rm3_weight: float = setting(0.5, "weight of the original query in RM3", ge=0, le=1)
    expand: str = setting("", "what else words find: spellings, phrases, subjects, mesh, with commas")

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise InputError(f"unknown first stage '{self.name}'; known: {', '.join(NAMES)}")
        if self.field not in LUCENE_FIELDS:
            raise InputError(f"unknown field '{self.field}'; known: {', '.join(LUCENE_FIELDS)}")
        check_bounds(self)
        if kinds_of(self.expand) and self.name == RM3:
            raise InputError(f"{RM3} takes no expansion but its own: use it with {BM25}, {QLD} or hybrid")

    def open(self, index: Index) -> LuceneFirstStage:
        if self.field not in (known := index.lucene_fields):
            raise InputError(f"{index.lucene_folder} has no field '{self.field}'; it has {', '.join(known)}")
        return open_stage(index, self)


@singledispatch  # an index that other processes search opens one that asks them: registered in cluster/index.py
def open_stage(index: Index, config: LuceneConfig) -> LuceneFirstStage:
    """The first stage of a configuration over an index; an `InputError` if it cannot be computed there."""
    return LuceneFirstStage(index, config)


@cache
def _warn_old_normalization(folder: str, rebuild: str) -> None:
    log.warning(
        "%s was built by an older version, whose Lucene index keeps accents and Greek letters apart from their plain "
        "spellings; to join them, build it again with: %s", folder, rebuild,
    )  # fmt: skip


class LuceneFirstStage:
    """Searches one Lucene index. It is thread-safe like Lucene's searcher; Java runs without the GIL.

    Raises:
        InputError: the Lucene index cannot be opened, or does not match the forward index.
    """

    filters = True
    settings = ("k1", "b", "field", "expand")  # of `configured`, for one search

    def __init__(self, index: Index, config: LuceneConfig):
        self.index, self.forward, self.config, self.name = index, index.forward, config, config.name
        self.reader = self._open(index)
        self.searched = without_stored_fields(self.reader)
        self.searcher = self._new_searcher()
        lucene = index.description["lucene"]
        self.analyzer, self.read = analyzer(lucene.get("analyzer", PORTER)), normalizer_of(lucene)
        if lucene.get("path", "lucene") == "lucene" and NORMALIZATION not in lucene:
            _warn_old_normalization(str(index.folder), index.rebuild)
        self.expansion, self.relevance_model = self._new_expansion(), self._new_relevance_model()
        self.generator = java_class("io.anserini.search.query.BagOfWordsQueryGenerator")()
        self.lucene_rows = np.asarray(self.forward.lucene_rows)
        self._json = self._hits_writer()
        probe = json.loads(self._json.writeValueAsString(java_class("org.apache.lucene.search.ScoreDoc")(7, 0.5)))
        self._hit_shape = len(probe), (probe.index(7), probe.index(0.5))  # values of a hit; columns of number and score
        self._documents = max(self.reader.maxDoc(), 1)

    def _open(self, index: Index) -> Any:
        return index.open_lucene()

    def _new_expansion(self) -> Expansion | None:
        kinds, field = kinds_of(self.config.expand), self.config.field
        if not kinds:
            return None
        headings = Headings.of(self.index.knowledge) if MESH in kinds else None
        return Expansion(kinds, field, self._terms, headings)

    def _new_relevance_model(self) -> RelevanceModel:
        return RelevanceModel(self.reader, self.analyzer, self.read, self.config.field)

    def _has_foreign_vectors(self, number: int) -> bool:
        """Whether this is another tool's index that stores the term vector of a document."""
        if TERM_VECTORS in self.index.description["lucene"]:
            return False
        return self.reader.termVectors().get(number, self.config.field) is not None

    def _new_searcher(self) -> Any:
        searcher = java_class("org.apache.lucene.search.IndexSearcher")(self.searched)
        searcher.setMaxClauseCount(MOST_WORDS)
        if self.config.name == QLD:
            similarity = java_class("org.apache.lucene.search.similarities.LMDirichletSimilarity")(self.config.mu)
        else:
            similarity = java_class("org.apache.lucene.search.similarities.BM25Similarity")(
                self.config.k1, self.config.b
            )
        searcher.setSimilarity(similarity)
        return searcher

    def configured(self, **settings: Any) -> LuceneFirstStage:
        """This first stage with other settings; it shares the open reader, which this one closes.

        Raises:
            InputError: as in :class:`LuceneConfig`, or the index has no such field.
        """
        config = replace(self.config, **settings)
        if config.field not in (known := self.index.lucene_fields):
            raise InputError(f"the index has no field '{config.field}'; it has {', '.join(known)}")
        configured = copy(self)
        configured.config, configured.name = config, config.name
        configured.searcher, configured.expansion = configured._new_searcher(), configured._new_expansion()
        configured.relevance_model = configured._new_relevance_model()
        return configured

    def _hits_writer(self) -> Any:
        """A Jackson mapper that writes a hit as an array of numbers."""
        mapper = java_class("com.fasterxml.jackson.databind.ObjectMapper")()
        shape = java_class("com.fasterxml.jackson.annotation.JsonFormat$Value").forShape(
            java_class("com.fasterxml.jackson.annotation.JsonFormat$Shape").ARRAY
        )
        for name in ("TopDocs", "ScoreDoc", "TotalHits"):
            hit_class = java_class("java.lang.Class").forName(f"org.apache.lucene.search.{name}")
            mapper.configOverride(hit_class).setFormat(shape)
        return mapper

    def _hits(self, query: Any, depth: int) -> tuple[np.ndarray, np.ndarray]:
        """Lucene numbers int64 [C] and scores float32 [C] of the top hits, by one search in Java."""
        text = self._json.writeValueAsString(self.searcher.search(query, depth))
        start = text.rfind("[[")  # the innermost array of arrays
        numbers = text[start + 2 : text.find("]]", start)].replace("],[", ",")
        if start < 0 or '"' in numbers:  # no hits: the text holds only their count and its relation
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        width, columns = self._hit_shape
        table = np.fromstring(numbers, np.float64, sep=",").reshape(-1, width)
        return table[:, columns[0]].astype(np.int64), table[:, columns[1]].astype(np.float32)

    def search(self, query: Query, depth: int) -> Candidates:
        """The best ``depth`` documents that match the query's filter.

        The text is analyzed but not parsed: AND, quotes and slashes are plain text.
        """
        with self._limited(f"query {query.id}") as limited:
            return limited._search(query, depth)

    def _search(self, query: Query, depth: int) -> Candidates:
        text, words, filter = self._read(query)
        if self.config.name != RM3:
            return self._best(self._hits, words, depth)
        config = self.config
        sort_field = java_class("org.apache.lucene.search.SortField")
        by_id = sort_field("id", java_class("org.apache.lucene.search.SortField$Type").STRING_VAL)
        by_score_then_id = java_class("org.apache.lucene.search.Sort")(sort_field.FIELD_SCORE, by_id)
        feedback = self.searcher.search(words, config.rm3_documents, by_score_then_id, True)
        tokens = self._tokens(text)
        search = self._expanded(words, text, tokens, filter, feedback, config.rm3_terms, config.rm3_weight)
        return self._best(search, words, depth)

    def scores_of(self, query: Query, rows: np.ndarray) -> np.ndarray:
        """The scores of documents, rows int64 [C] of the index, float32 [C]; 0 of one without a word of the query.

        They are those of `search`, except with RM3.
        """
        text, words, _ = self._read(query)
        term = java_class("org.apache.lucene.util.BytesRef")
        ids = java_class("java.util.ArrayList")()
        for docid in self.forward.ids.take(rows):
            ids.add(term(docid.encode()))
        among = java_class("org.apache.lucene.search.TermInSetQuery")("id", ids)
        scores = np.zeros(len(rows), np.float32)
        with self._limited(f"query {query.id}") as limited:
            numbers, found = limited._hits(clauses((words, "MUST"), (among, "FILTER")), max(len(rows), 1))
        by_row = dict(zip(self.lucene_rows[numbers].tolist(), found.tolist()))
        scores[:] = [by_row.get(row, 0.0) for row in rows.tolist()]
        return scores

    def search_near(self, query: Query, feedback: Candidates, terms: int, even: float, depth: int) -> Candidates:
        """As `search` with ``bm25+rm3``, but with any search's feedback documents and a weight by the query's length.

        Args:
            feedback: the feedback documents; those without a positive score or without a word are ignored.
            terms: number of expansion terms.
            even: number of query words with which query and expansion weigh the same: n words weigh n / (n + even).
        """
        with self._limited(f"query {query.id}") as limited:
            return limited._search_near(query, feedback, terms, even, depth)

    def _search_near(self, query: Query, feedback: Candidates, terms: int, even: float, depth: int) -> Candidates:
        text, words, filter = self._read(query)
        tokens = self._tokens(text)
        # A filter may find documents without a word, of which Lucene has no vector.
        feedback = feedback.take(np.flatnonzero((feedback.first_stage_scores > 0) & (feedback.lengths > 0)))
        scores = feedback.first_stage_scores
        if not (tokens.size() and len(scores)):
            return Candidates(self.forward, [], [])
        hit, total = (java_class(f"org.apache.lucene.search.{name}") for name in ("ScoreDoc", "TotalHits"))
        relation = java_class("org.apache.lucene.search.TotalHits$Relation").EQUAL_TO
        numbers = self.forward.lucene_numbers[feedback.rows].tolist()
        hits = [hit(number, score) for number, score in zip(numbers, scores.tolist())]
        top = java_class("org.apache.lucene.search.TopDocs")(total(len(hits), relation), hits)
        weight = tokens.size() / (tokens.size() + even)
        return self._best(self._expanded(words, text, tokens, filter, top, terms, weight), words, depth)

    @contextmanager
    def _limited(self, name: str) -> Iterator[LuceneFirstStage]:
        """This first stage for one search, which ends with the time of this thread.

        An `InputError` if a query has more words than Lucene takes, with those of an expansion and a filter.
        """
        from jnius import JavaException

        stage = self
        if seconds_left() < inf:
            stage = copy(self)
            stage.searcher = limited(self._new_searcher())
        try:
            yield stage
        except JavaException as error:
            if not (error.classname or "").endswith(("$TooManyClauses", "$TooManyNestedClauses")):
                raise
            raise InputError(
                f"{name} has more than {MOST_WORDS:,} different words, the most that Lucene takes: shorten it"
            ) from None
        check_ended(stage.searcher)

    def _read(self, query: Query) -> tuple[str, Any, Any]:
        """A query's text as it is analyzed, and the Lucene queries of its words and of its filter, None without one."""
        text = self.read(query.text.encode(errors="replace").decode())  # a terminal may pass half a character
        words = self._words(text)
        if query.filter is None:
            return text, words, None
        self.index.check_filter(query.filter)
        matching = matching_query(query.filter, self.reader, self.index.description["lucene"])
        return text, clauses((words, "MUST"), (matching, "FILTER")), matching

    def _words(self, text: str) -> Any:
        """The Lucene query of the words of a text."""
        if self.expansion is not None:
            return self.expansion.query(text)
        return self.generator.buildQuery(self.config.field, self.analyzer, text)

    def _tokens(self, text: str) -> Any:
        return java_class("io.anserini.analysis.AnalyzerUtils").analyze(self.analyzer, text)

    def _terms(self, text: str) -> list[str]:
        return list(self._tokens(text).toArray())

    def _best(self, search: LuceneSearch, words: Any, depth: int) -> Candidates:
        """The best ``depth`` documents of a search.

        Lucene breaks ties by document number, so all documents that tie at the cut are fetched before the cut; a
        quarter to a half of the queries to real collections have such ties.
        """
        hits = depth + TIES
        while True:
            hits = min(hits, self._documents)  # Java counts in 32 bits
            numbers, scores = search(words, hits)
            if len(scores) < hits or hits == self._documents or scores[depth - 1] != scores[-1]:
                return Candidates(self.forward, self.lucene_rows[numbers], scores).best(depth)
            hits *= 4

    def _expanded(
        self, words: Any, text: str, tokens: Any, filter: Any, feedback: Any, terms: int, weight: float
    ) -> LuceneSearch:
        """A search with the query expanded by RM3 ([K] 4.3) from the Lucene hits ``feedback``.

        ``filter`` is a Lucene query that the hits must match, or None.
        """
        if not tokens.size():
            return self._hits
        hits = feedback.scoreDocs
        if len(hits) and self._has_foreign_vectors(hits[0].doc):
            return self._expanded_by_anserini(words, text, tokens, filter, feedback, terms, weight)
        scores = np.array([hit.score for hit in hits], np.float32)
        expanded = self.relevance_model.query(tokens, [hit.doc for hit in hits], scores, terms, weight)
        if filter is not None:
            expanded = clauses((filter, "FILTER"), (expanded, "MUST"))
        return lambda _, depth: self._hits(expanded, depth)

    def _expanded_by_anserini(
        self, words: Any, text: str, tokens: Any, filter: Any, feedback: Any, terms: int, weight: float
    ) -> LuceneSearch:
        """The same from the term vectors of another tool's index, whose terms our reading of its texts may not give."""
        documents = java_class("io.anserini.search.ScoredDocs").fromTopDocs(feedback, self.searcher)
        rm3 = java_class("io.anserini.rerank.lib.Rm3Reranker")(
            self.analyzer, None, self.config.field, terms, len(documents.lucene_docids), weight, False, True
        )

        def search(_: Any, depth: int) -> tuple[np.ndarray, np.ndarray]:
            arguments = java_class("io.anserini.search.SearchCollection$Args")()
            arguments.hits = depth
            arguments.arbitraryScoreTieBreak = True  # `_best` breaks ties
            context = java_class("io.anserini.rerank.RerankerContext")(
                self.searcher, None, words, None, text, tokens, filter, arguments
            )
            expanded = rm3.rerank(documents, context)
            return np.asarray(expanded.lucene_docids, np.int64), np.asarray(expanded.scores, np.float32)

        return search

    def close(self) -> None:
        self.searched.close()
        self.reader.close()


register(FirstStageEntry(LuceneConfig, "BM25 by Lucene", fixed={"name": BM25}))
register(FirstStageEntry(LuceneConfig, "query likelihood by Lucene", fixed={"name": QLD}))
register(FirstStageEntry(LuceneConfig, "BM25 with the query expanded by RM3", fixed={"name": RM3}))
