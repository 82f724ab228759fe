"""Explains the score and the rank of one document of a ranking: the parts of its score, and the reasons for its rank.

The reasons compare it with a document that it overtook, or vice versa. Both scores are sums with the same base, up to
rounding. So the differences of their parts, by query word and by feature, add up to the difference of the scores, and
the sentence names the largest differences.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.inputs.lexical_features import in_words
from rerank_plugin.models.attribution import Attribution, ScorePart
from rerank_plugin.ranking.pipeline import Ranking
from rerank_plugin.rerankers import Scorer
from rerank_plugin.rerankers.untrained import SAME_WORD, same_words
from rerank_plugin.text.spans import Span, spans

READABLE = 4  # decimals of a similarity in JSON


@dataclass(frozen=True)
class QueryWord:
    """A word of the query that the reranker reads.

    Attributes:
        text: as written. start, end: its characters in the query.
        known: whether the reranker can compare it, for example by a word vector.
        contribution: its part of the sum of the document words' contributions; None if the sum cannot be divided so.
    """

    text: str
    start: int
    end: int
    known: bool
    contribution: float | None


@dataclass(frozen=True)
class DocumentWord:
    """A word of the document that the reranker reads.

    Attributes:
        text: as written.
        field: ``title`` or ``abstract``. start, end: its characters in the field.
        contribution: its part of the score; None if unknown.
        closest: the place of the query word that it is compared with; None if it is similar to none.
        similarity: of the two words; None without a matrix.
        details: further values of the model for this word, by name.
    """

    text: str
    field: str
    start: int
    end: int
    contribution: float | None
    closest: int | None
    similarity: float | None
    details: dict[str, Any]


@dataclass(frozen=True)
class Explanation:
    """The reasons for a document's score and rank.

    ``base`` and the contributions of ``document_words`` and ``features`` add up to ``score``.

    Attributes:
        query: text of the query.
        docid: the document's external id; its place in the list for texts without an index.
        reranker: name of the reranker; None for the first stage alone.
        title: of the document, as stored, or else the words of the index.
        abstract: the same.
        metadata: of the document (:mod:`rerank_plugin.base.filters`); may be empty.
        rank: after re-ranking, from 1 on.
        score: after re-ranking.
        first_stage_rank: before re-ranking.
        first_stage_score: before re-ranking.
        sentence: the reasons for the change of rank, in words.
        base: the score without the document's words and with average features.
        exact: whether the sum equals the score up to rounding; otherwise contributions are integrated gradients.
        error: absolute difference of the sum and the score.
        adds_up: ``document_words``; None for a reranker without attributions.
        unread: number of the document's words that the reranker does not read.
        query_words: the words that the reranker reads, with their contributions.
        document_words: the same for the document.
        features: lexical features, and concepts.
        matrix: similarities, query words by document words; empty if there are none.
        matrix_name: name of the similarity.
        pooled: (query word, document word) of the cells that the model kept.
    """

    query: str
    docid: str
    reranker: str | None
    title: str
    abstract: str
    metadata: dict[str, Any]
    rank: int
    score: float
    first_stage_rank: int
    first_stage_score: float
    sentence: str
    base: float
    exact: bool
    error: float
    adds_up: str | None
    unread: int
    query_words: list[QueryWord]
    document_words: list[DocumentWord]
    features: list[ScorePart]
    matrix: list[list[float]]
    matrix_name: str | None
    pooled: list[tuple[int, int]]

    def as_json(self) -> dict[str, Any]:
        """The explanation as JSON values."""
        features = [part._asdict() for part in self.features]
        matrix = [[round(value, READABLE) for value in row] for row in self.matrix]
        pooled = [list(cell) for cell in self.pooled]
        return asdict(self) | {"query": {"text": self.query}, "features": features, "matrix": matrix, "pooled": pooled}


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


REASONS = 3  # differences that the sentence names


def compared_place(order: npt.NDArray[np.int64], place: int) -> int | None:
    """The place of the candidate that a document is compared with; None if the document did not move.

    A document that moved up is compared with the document that it overtook of the best first-stage rank; a document
    that moved down, with the document that overtook it of the best final rank.

    Args:
        order: places of the candidates, which are in first-stage order, from rank 1 on; int64 [C].
        place: of the document.
    """
    rank = int(np.flatnonzero(order == place)[0])
    if rank == place:
        return None
    if rank < place:
        return int(order[rank + 1 :].min())
    return int(next(other for other in order if other > place))


def sentence(explanation: Explanation, rival: Explanation | None, first_stage: str) -> str:
    """A document's ranks before and after, and the reasons; ``rival`` explains the document of `compared_place`."""
    rank, before = explanation.rank, explanation.first_stage_rank
    if explanation.reranker is None:
        return f"{first_stage} has it at {rank}, and nothing re-ranks it."
    if rival is None:
        moved = f"Stayed at {rank}, where {first_stage} had it."
    else:
        moved = f"Moved {'up' if rank < before else 'down'} from {before} to {rank}."
    if explanation.adds_up is None:
        return f"{moved} {explanation.reranker} does not say what its scores are made of."
    sums, rival_sums = _sums(explanation), {} if rival is None else _sums(rival)
    sign = -1 if rank > before else 1
    differences = {part: sums.get(part, 0.0) - rival_sums.get(part, 0.0) for part in {**sums, **rival_sums}}
    largest = sorted(differences, key=lambda part: -sign * differences[part])[:REASONS]
    reasons = [_reason(part, differences[part], explanation, rival) for part in largest if sign * differences[part] > 0]
    if not reasons and rival is not None and explanation.score == rival.score:
        return f"{moved} {rival.docid} has the same score, and of equal scores the higher id comes first."
    if not reasons:
        return moved
    if rival is None:
        return f"{moved} Most of its score comes from {_listed(reasons)}."
    ranks = f"which {first_stage} had at {rival.first_stage_rank} and which is now at {rival.rank}"
    return (
        f"{moved} Compared with {rival.docid}, {ranks}, it {'gains' if sign > 0 else 'loses'} most by "
        f"{_listed(reasons)}."
    )


@dataclass(frozen=True)
class _Word:
    """A query word by its place; None for the document words that are similar to no query word."""

    place: int | None


@dataclass(frozen=True)
class _Feature:
    name: str


def _sums(explanation: Explanation) -> dict[_Word | _Feature, float]:
    """The contributions by query word and by feature."""
    sums: dict[_Word | _Feature, float] = defaultdict(float)
    by_query_word = any(word.contribution is not None for word in explanation.query_words)
    if by_query_word:
        sums |= {_Word(place): word.contribution or 0.0 for place, word in enumerate(explanation.query_words)}
    for word in () if by_query_word else explanation.document_words:
        sums[_Word(word.closest)] += word.contribution or 0.0
    for part in explanation.features:
        sums[_Feature(part.name)] += part.contribution
    return sums


def _reason(part: _Word | _Feature, difference: float, explanation: Explanation, rival: Explanation | None) -> str:
    if isinstance(part, _Feature):
        compared = [explanation] if rival is None else [explanation, rival]
        values = [next((found.value for found in each.features if found.name == part.name), 0.0) for each in compared]
        return f"{in_words(part.name)} ({difference:+.2g}: {' against '.join(f'{value:.2f}' for value in values)})"
    if part.place is None:
        return f"words that are like none of the query ({difference:+.2g})"
    best = _best([word for word in explanation.document_words if word.closest == part.place])
    return f"'{explanation.query_words[part.place].text}' ({difference:+.2g}{best})"


def _best(words: list[DocumentWord]) -> str:
    """The document word that is most similar to a query word; of equal ones, that with the largest contribution."""
    if not words:
        return ", which nothing here is like"
    best = max(words, key=lambda word: (round(word.similarity or 0.0, 2), word.contribution or 0.0))
    return f": '{best.text}' in the {best.field}, {best.similarity:.2f}"


def _listed(reasons: list[str]) -> str:
    return reasons[0] if len(reasons) == 1 else f"{', '.join(reasons[:-1])} and {reasons[-1]}"
