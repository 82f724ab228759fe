"""Texts without an index, as candidates of an index in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.lazily import cached_property
from rerank_plugin.base.records import Document, Query
from rerank_plugin.base.stopping import stop_if_asked
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.text_index import TextIndex
from rerank_plugin.inputs.matches import WordMatches
from rerank_plugin.ranking.explanation import Explanation, explain
from rerank_plugin.ranking.pipeline import Ranking
from rerank_plugin.ranking.scores import checked_scores
from rerank_plugin.rerankers import Scorer
from rerank_plugin.retrieval.lucene import LuceneConfig
from rerank_plugin.text.markup import without_markup

BODY_FIELDS = ("text", "abstract", "contents")  # keys of a mapping; the first present one is read


class TextScorer:
    """Scores texts with a scorer over ``index``, which holds the texts of the last call. It is thread-safe."""

    def __init__(self, scorer: Scorer, index: TextIndex):
        self.scorer, self.index, self.lock = scorer, index, Lock()

    def explain(
        self, query: Query, documents: Sequence[Any], first_stage: np.ndarray | None, which: int
    ) -> Explanation:
        """The explanation of the document at place ``which``; documents are in first-stage order, as in `score`."""
        title, text = _words_of(documents[which], which)
        with self.lock:
            candidates = self._hold(query, documents, first_stage, passages=False)
            scores = checked_scores([query], [candidates], self.scorer)[0]
            ranking = Ranking(query, candidates, scores, np.argsort(-scores, kind="stable"))
            return explain(ranking, which, self.scorer, "the list", Document(str(which), title, text))

    def score(
        self, query: Query, documents: Iterable[Any], first_stage: np.ndarray | None, passages: bool
    ) -> np.ndarray:
        """Scores of the documents, float32 [n].

        Args:
            documents: strings, or mappings with ``title`` and one of `BODY_FIELDS`.
            first_stage: first-stage scores, float32 [n]; by default BM25 with the first stage's parameters, but of
                unstemmed words.
            passages: whether a text longer than the model reads is scored by its best passage.

        Raises:
            InputError: a document is not a text, or a score is not finite.
        """
        with self.lock:
            candidates = self._hold(query, documents, first_stage, passages)
            stop_if_asked()
            scores = checked_scores([query], [candidates], self.scorer)[0]
            if passages:
                scores = np.maximum.reduceat(scores, np.flatnonzero(np.diff(self.index.texts, prepend=-1)))
            return scores

    def _hold(
        self, query: Query, documents: Iterable[Any], first_stage: np.ndarray | None, passages: bool
    ) -> TextCandidates:
        """The documents as candidates, valid until the next call."""
        titles, abstracts = zip(*(_words_of(document, place) for place, document in enumerate(documents)))
        self.index.hold(titles, abstracts, self.scorer.passage_words if passages else None)
        return TextCandidates(self.index, query, None if first_stage is None else first_stage[self.index.texts])


class TextCandidates(Candidates):
    """All texts, or passages, of an index of texts. Default first-stage scores are computed when they are read."""

    def __init__(self, index: TextIndex, query: Query, first_stage_scores: np.ndarray | None):
        self.index, self.query, self.rows = index, query, np.arange(len(index))
        if first_stage_scores is not None:
            self.first_stage_scores = np.asarray(first_stage_scores, np.float32)

    @cached_property  # an assignment replaces its value, unlike a property's
    def first_stage_scores(self) -> np.ndarray:  # type: ignore[override]
        """BM25 of title and text as in Lucene, without Okapi's factor k1 + 1; float32 [C]."""
        config = LuceneConfig()
        okapi = WordMatches(self.index.query(self.query.text), self).bm25("text", config.k1, config.b)
        return (okapi / (config.k1 + 1)).astype(np.float32)


def _words_of(document: Any, place: int) -> tuple[str, str]:
    """Title and text of a document of a list, without markup, as they would be in an index."""
    title, text = fields_of(document, f"{place} of the list")
    return without_markup(title), without_markup(text)


def fields_of(document: Any, name: object) -> tuple[str, str]:
    """Title and text of a user's document; ``name`` describes it in messages.

    A title or a text that is missing (None, NaN, NA of pandas) is empty. A title that is a number or a list of texts
    is read as a text; any other title is left out, because metadata are no reason to refuse a document.

    Raises:
        InputError: it is no string and no mapping with one of the fields, or its text is of another type.
    """
    if isinstance(document, str):
        return "", document
    if not isinstance(document, Mapping):
        raise InputError(
            f"document {name} is of type {type(document).__name__}: without an index, documents are "
            f"strings, or mappings with title and {' or '.join(BODY_FIELDS)}"
        )
    if not any(field in document for field in ("title", *BODY_FIELDS)):
        raise InputError(f"document {name} has no title, {', '.join(BODY_FIELDS)}: there is no text to read")
    body, text = next(
        ((field, value) for field in BODY_FIELDS if not _is_missing(value := document.get(field))), (BODY_FIELDS[0], "")
    )
    if not isinstance(text, str):
        raise InputError(f"document {name}: its {body} is of type {type(text).__name__}, expected a text")
    return title_of(document.get("title")), text


def title_of(value: Any) -> str:
    """A title as a text; empty if it is missing or cannot be read as one."""
    if isinstance(value, (list, tuple)):
        return " ".join(filter(None, map(title_of, value)))
    if isinstance(value, str):
        return value
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and not _is_missing(value)
    return str(value) if is_number else ""


def _is_missing(value: Any) -> bool:
    """Whether a value says that there is none: None, NaN, and NaT and NA of pandas, which only their types tell."""
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in ("NAType", "NaTType")
