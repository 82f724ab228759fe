"""Why a document moved, in words: what tells it from a document that it overtook, or that overtook it.

Both scores are sums with the same base, but for rounding. So the differences of their parts, by word of the query and
by feature, add up to the difference of the scores, and the sentence names the largest ones.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from rerank_plugin.inputs.lexical_features import in_words
from rerank_plugin.ranking.explanation import DocumentWord, Explanation

REASONS = 3  # that are named


def rival_of(order: npt.NDArray[np.int64], place: int) -> int | None:
    """The place among the candidates of the document that a document is compared with; None if it did not move.

    One that moved up is compared with the highest one in the first stage that it overtook, one that moved down with the
    highest one now that overtook it.

    Args:
        order: places of the candidates, which are in first-stage order, from rank 1 on; int64 [C].
    """
    rank = int(np.flatnonzero(order == place)[0])
    if rank == place:
        return None
    if rank < place:
        return int(order[rank + 1 :].min())
    return int(next(other for other in order if other > place))


def sentence(one: Explanation, rival: Explanation | None, first_stage: str) -> str:
    """Where a document was and is, and what made the difference; ``rival`` is the document of `rival_of`."""
    if one.reranker is None:
        return f"{first_stage} has it at {one.rank}, and nothing re-ranks it."
    if rival is None:
        moved = f"Stayed at {one.rank}, where {first_stage} had it."
    else:
        moved = (
            f"Moved {'up' if one.rank < one.first_stage_rank else 'down'} from {one.first_stage_rank} to {one.rank}."
        )
    if one.adds_up is None:
        return f"{moved} {one.reranker} does not say what its scores are made of."
    sums, others = _sums(one), {} if rival is None else _sums(rival)
    sign = -1 if one.rank > one.first_stage_rank else 1
    differences = {key: sums.get(key, 0.0) - others.get(key, 0.0) for key in {**sums, **others}}
    largest = sorted(differences, key=lambda key: -sign * differences[key])[:REASONS]
    named = [_named(key, differences[key], one, rival) for key in largest if sign * differences[key] > 0]
    if not named and rival is not None and one.score == rival.score:
        return f"{moved} {rival.docid} has the same score, and of equal scores the higher id comes first."
    if not named:
        return moved
    if rival is None:
        return f"{moved} Most of its score comes from {_listed(named)}."
    was = f"which {first_stage} had at {rival.first_stage_rank} and which is now at {rival.rank}"
    return (
        f"{moved} Compared with {rival.docid}, {was}, it {'gains' if sign > 0 else 'loses'} most by {_listed(named)}."
    )


Key = tuple[str, int | str | None]  # ("word", place in the query or None) or ("feature", name)


def _sums(one: Explanation) -> dict[Key, float]:
    """The contributions by word of the query, or document words that are like none, and by feature."""
    found: dict[Key, float] = defaultdict(float)
    divided = any(word.contribution is not None for word in one.query_words)
    if divided:
        found |= {("word", place): word.contribution or 0.0 for place, word in enumerate(one.query_words)}
    for word in () if divided else one.document_words:
        found["word", word.closest] += word.contribution or 0.0
    for part in one.features:
        found["feature", part.name] += part.contribution
    return found


def _named(key: Key, difference: float, one: Explanation, rival: Explanation | None) -> str:
    kind, name = key
    if kind == "feature":
        shown = [one] if rival is None else [one, rival]
        values = [next((part.value for part in of.features if part.name == name), 0.0) for of in shown]
        return f"{in_words(str(name))} ({difference:+.2g}: {' against '.join(f'{value:.2f}' for value in values)})"
    if name is None:
        return f"words that are like none of the query ({difference:+.2g})"
    here = _best([word for word in one.document_words if word.closest == name])
    return f"'{one.query_words[name].text}' ({difference:+.2g}{here})"


def _best(words: list[DocumentWord]) -> str:
    """The word that is most similar to a word of the query, and of equal ones adds most."""
    if not words:
        return ", which nothing here is like"
    best = max(words, key=lambda word: (round(word.similarity or 0.0, 2), word.contribution or 0.0))
    return f": '{best.text}' in the {best.field}, {best.similarity:.2f}"


def _listed(named: list[str]) -> str:
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
