"""Makes the explanation of one document of a ranking."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.ranking.explanation import DocumentWord, Explanation, QueryWord
from rerank_plugin.ranking.movement import rival_of, sentence
from rerank_plugin.ranking.pipeline import Ranking
from rerank_plugin.rerankers import Scorer
from rerank_plugin.rerankers.lexical import SAME_WORD, same_words
from rerank_plugin.text.spans import Span, spans

FIELDS = ("title", "abstract")


def explain(
    ranking: Ranking, place: int, scorer: Scorer | None, first_stage: str, document: Document | None = None
) -> Explanation:
    """The explanation of one document of a ranking.

    Args:
        place: of the document among the candidates.
        scorer: that made the ranking; None where the first stage did.
        first_stage: its name.
        document: as it was indexed; None where that is not known.
    """
    found = _without_sentence(ranking, place, scorer, document)
    rival = rival_of(ranking.order, place)
    other = None if rival is None else _without_sentence(ranking, rival, scorer, None)
    return replace(found, sentence=sentence(found, other, first_stage))


def place_of(ranking: Ranking, docid: str | int) -> int:
    """Where a document stands among the candidates; an `InputError` if it is none of them."""
    row = int(ranking.candidates.index.rows([docid])[0]) if isinstance(docid, str) else -1
    places = np.flatnonzero(ranking.candidates.rows[ranking.order] == row)
    if row < 0 or not len(places):
        raise InputError(
            f"document {docid!r} is none of the {len(ranking.order)} candidates of this query, which alone have a score"
        )
    return int(ranking.order[places[0]])


def _without_sentence(ranking: Ranking, place: int, scorer: Scorer | None, document: Document | None) -> Explanation:
    candidates, index = ranking.candidates, ranking.candidates.index
    row, score = int(candidates.rows[place]), float(ranking.scores[place])
    made_of, texts = _attribution(ranking, place, scorer), _texts(index, row, document)
    words = _document_words(made_of, texts)
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
        base=made_of.base,
        exact=made_of.exact,
        error=abs(score - made_of.total),
        adds_up=None if made_of.words is None else "document_words",
        unread=sum(len(one.words) for one in texts) - len(words),
        query_words=_query_words(ranking, made_of),
        document_words=words,
        features=list(made_of.parts),
        matrix=[] if made_of.matrix is None else made_of.matrix[:, : len(words)].tolist(),
        matrix_name=None if made_of.matrix is None else made_of.matrix_name,
        pooled=made_of.pooled,
    )


def _attribution(ranking: Ranking, place: int, scorer: Scorer | None) -> Attribution:
    """What the score is made of; the score alone where that is not known."""
    found = None if scorer is None else scorer.attribute(ranking.query, ranking.candidates, place)
    if found is not None:
        return found
    query, one = ranking.candidates.index.query(ranking.query.text), ranking.candidates.take([place])
    same = same_words(query, one, "text").astype(np.float64)
    return Attribution(float(ranking.scores[place]), known=query.ids >= 0, matrix=same, matrix_name=SAME_WORD)


class _Text(NamedTuple):
    """A title or an abstract, and the words in it."""

    field: str
    text: str
    words: list[Span]


def _texts(index: ForwardIndex, row: int, document: Document | None) -> list[_Text]:
    """Title and abstract as they were indexed, or if that is not known the words of the index."""
    terms, title = index.terms.take(index.document_tokens(row)), int(index.title_lengths[row])
    indexed = [terms[:title], terms[title:]]
    if document is not None:
        stored = [document.title, document.abstract]
        found = [spans(index.tokenizer, text) for text in stored]
        if [[word.token for word in words] for words in found] == indexed:
            return list(map(_Text, FIELDS, stored, found))
    return [_Text(field, " ".join(words), _spaced(words)) for field, words in zip(FIELDS, indexed)]


def _spaced(terms: list[str]) -> list[Span]:
    """Where terms stand in a text of them alone."""
    ends = np.cumsum([len(term) + 1 for term in terms], dtype=np.int64) - 1
    return [Span(term, end - len(term), end) for term, end in zip(terms, ends.tolist())]


def _query_words(ranking: Ranking, attribution: Attribution) -> list[QueryWord]:
    text, index = ranking.query.text, ranking.candidates.index
    read = spans(index.tokenizer, text)
    if attribution.query_places is not None:
        read = [read[place] for place in attribution.query_places]
    known = attribution.known.tolist()
    added = [None] * len(read) if attribution.query_words is None else attribution.query_words.tolist()
    return [QueryWord(text[word.start : word.end], word.start, word.end, *of) for word, *of in zip(read, known, added)]


def _document_words(attribution: Attribution, texts: list[_Text]) -> list[DocumentWord]:
    """The words that were read: as many as have a contribution, or where none has, all."""
    located = [(one, word) for one in texts for word in one.words]
    count = len(located) if attribution.words is None else min(len(located), len(attribution.words))
    added = [None] * count if attribution.words is None else attribution.words.tolist()
    closest, similarity = _closest(attribution, count)
    details = attribution.details or [{}] * count
    return [
        DocumentWord(one.text[word.start : word.end], one.field, word.start, word.end, *of)
        for (one, word), *of in zip(located[:count], added, closest, similarity, details)
    ]


def _closest(attribution: Attribution, count: int) -> tuple[list[int | None], list[float | None]]:
    """The query word that each document word is compared with, and how similar they are."""
    matrix = attribution.matrix
    if matrix is None or not len(matrix):
        return [None] * count, [None] * count
    places = matrix.argmax(axis=0) if attribution.closest is None else attribution.closest
    similarity = matrix[places, np.arange(matrix.shape[1])].tolist()
    if attribution.closest is not None:
        return places.tolist(), similarity
    return [at if value > 0 else None for at, value in zip(places.tolist(), similarity)], similarity
