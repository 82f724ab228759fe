"""Explains the score and the rank of one document of a ranking."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.ranking.explanation import DocumentWord, Explanation, QueryWord
from rerank_plugin.ranking.pipeline import Ranking
from rerank_plugin.ranking.rank_changes import compared_place, sentence
from rerank_plugin.rerankers import Scorer
from rerank_plugin.rerankers.lexical import SAME_WORD, same_words
from rerank_plugin.text.spans import Span, spans

EXPLAINED_FIELDS = ("title", "abstract")


def explain(
    ranking: Ranking, place: int, scorer: Scorer | None, first_stage: str, document: Document | None = None
) -> Explanation:
    """The explanation of one document of a ranking.

    Args:
        place: index of the document among the candidates.
        scorer: the reranker; None for a ranking of the first stage.
        first_stage: name of the first stage.
        document: the stored document; None if it is not available.
    """
    explanation = _without_sentence(ranking, place, scorer, document)
    rival_place = compared_place(ranking.order, place)
    rival = None if rival_place is None else _without_sentence(ranking, rival_place, scorer, None)
    return replace(explanation, sentence=sentence(explanation, rival, first_stage))


def place_of(ranking: Ranking, docid: str | int) -> int:
    """The index of a document among the candidates; an `InputError` if it is not a candidate."""
    row = int(ranking.candidates.index.rows([docid])[0]) if isinstance(docid, str) else -1
    places = np.flatnonzero(ranking.candidates.rows[ranking.order] == row)
    if row < 0 or not len(places):
        raise InputError(
            f"document {docid!r} is none of the {len(ranking.order)} candidates of this query, so it has no score"
        )
    return int(ranking.order[places[0]])


def _without_sentence(ranking: Ranking, place: int, scorer: Scorer | None, document: Document | None) -> Explanation:
    candidates, index = ranking.candidates, ranking.candidates.index
    row, score = int(candidates.rows[place]), float(ranking.scores[place])
    attribution, texts = _attribution(ranking, place, scorer), _texts(index, row, document)
    words = _document_words(attribution, texts)
    return Explanation(
        query=ranking.query.text,
        docid=index.ids[row],
        reranker=None if scorer is None else scorer.name,
        title=texts[0].text,
        abstract=texts[1].text,
        metadata=dict(document.metadata or {}) if document else {},
        rank=int(np.flatnonzero(ranking.order == place)[0]) + 1,
        score=score,
        first_stage_rank=place + 1,
        first_stage_score=float(candidates.first_stage_scores[place]),
        sentence="",
        base=attribution.base,
        exact=attribution.exact,
        error=abs(score - attribution.total),
        adds_up=None if attribution.words is None else "document_words",
        unread=sum(len(text.words) for text in texts) - len(words),
        query_words=_query_words(ranking, attribution),
        document_words=words,
        features=list(attribution.parts),
        matrix=[] if attribution.matrix is None else attribution.matrix[:, : len(words)].tolist(),
        matrix_name=None if attribution.matrix is None else attribution.matrix_name,
        pooled=attribution.pooled,
    )


def _attribution(ranking: Ranking, place: int, scorer: Scorer | None) -> Attribution:
    """The attribution of the score; the score as its base if the scorer has no attributions."""
    attribution = None if scorer is None else scorer.attribute(ranking.query, ranking.candidates, place)
    if attribution is not None:
        return attribution
    query, candidate = ranking.candidates.index.query(ranking.query.text), ranking.candidates.take(np.array([place]))
    same = same_words(query, candidate, "text").astype(np.float64)
    return Attribution(float(ranking.scores[place]), known=query.ids >= 0, matrix=same, matrix_name=SAME_WORD)


class _Text(NamedTuple):
    """A title or an abstract with its words."""

    field: str
    text: str
    words: list[Span]


def _texts(index: ForwardIndex, row: int, document: Document | None) -> list[_Text]:
    """Title and abstract of the stored document, or the words of the index if they differ or it is not available."""
    terms, title = index.terms.take(index.document_tokens(row)), int(index.title_lengths[row])
    indexed = [terms[:title], terms[title:]]
    if document is not None:
        stored = [document.title, document.abstract]
        words = [spans(index.tokenizer, text) for text in stored]
        if [[word.token for word in field_words] for field_words in words] == indexed:
            return list(map(_Text, EXPLAINED_FIELDS, stored, words))
    return [_Text(field, " ".join(terms), _spaced(terms)) for field, terms in zip(EXPLAINED_FIELDS, indexed)]


def _spaced(terms: list[str]) -> list[Span]:
    """The spans of terms in the text that joins them with blanks."""
    ends = np.cumsum([len(term) + 1 for term in terms], dtype=np.int64) - 1
    return [Span(term, end - len(term), end) for term, end in zip(terms, ends.tolist())]


def _query_words(ranking: Ranking, attribution: Attribution) -> list[QueryWord]:
    text, index = ranking.query.text, ranking.candidates.index
    words = spans(index.tokenizer, text)
    if attribution.query_places is not None:
        words = [words[place] for place in attribution.query_places]
    known = attribution.known.tolist()
    contributions = [None] * len(words) if attribution.query_words is None else attribution.query_words.tolist()
    return [
        QueryWord(text[word.start : word.end], word.start, word.end, is_known, contribution)
        for word, is_known, contribution in zip(words, known, contributions)
    ]


def _document_words(attribution: Attribution, texts: list[_Text]) -> list[DocumentWord]:
    """The words that the scorer read: the words with a contribution, or all without contributions."""
    words = [(text, word) for text in texts for word in text.words]
    count = len(words) if attribution.words is None else min(len(words), len(attribution.words))
    contributions = [None] * count if attribution.words is None else attribution.words.tolist()
    closest, similarity = _closest(attribution, count)
    details = attribution.details or [{}] * count
    return [
        DocumentWord(text.text[word.start : word.end], text.field, word.start, word.end, *values)
        for (text, word), *values in zip(words[:count], contributions, closest, similarity, details)
    ]


def _closest(attribution: Attribution, count: int) -> tuple[list[int | None], list[float | None]]:
    """The query word that each document word is compared with, and their similarity."""
    matrix = attribution.matrix
    if matrix is None or not len(matrix):
        return [None] * count, [None] * count
    places = matrix.argmax(axis=0) if attribution.closest is None else attribution.closest
    similarity = matrix[places, np.arange(matrix.shape[1])].tolist()
    if attribution.closest is not None:
        return places.tolist(), similarity
    return [place if value > 0 else None for place, value in zip(places.tolist(), similarity)], similarity
