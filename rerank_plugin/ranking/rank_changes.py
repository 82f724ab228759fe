"""The reasons for a document's change of rank, in words: a comparison with a document that it overtook, or vice versa.

Both scores are sums with the same base, up to rounding. So the differences of their parts, by query word and by
feature, add up to the difference of the scores, and the sentence names the largest differences.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rerank_plugin.inputs.lexical_features import in_words
from rerank_plugin.ranking.explanation import DocumentWord, Explanation

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
