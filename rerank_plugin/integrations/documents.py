"""Documents as other libraries have them: an id, one text, and a mapping of metadata.

A document that is retrieved has all that the index stores of it as metadata, such as ``title`` and ``date``, and its
``first_stage_score``. Its text begins with the title, on a line of its own, since other libraries show a reader, or a
language model, only the text.

The score that an adapter gives is the relevance between 0 and 1 that the service calls ``relevance_score``
(:mod:`rerank_plugin.models.relevance`), not the model's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rerank_plugin.base.filters import Filter
from rerank_plugin.ranking.reranker import Hit, Reranker, stored_fields
from rerank_plugin.ranking.searcher import Searcher
from rerank_plugin.ranking.texts import BODY_FIELDS

FIRST_STAGE_SCORE = "first_stage_score"


def retrieve(
    searcher: Searcher, query: str, k: int, filter: Filter | None = None
) -> Iterator[tuple[Hit, float | None, str, dict[str, Any]]]:
    """The k best documents of a query: their hits, relevance (None without a reranker), texts and metadata.

    Raises:
        InputError: as in `Searcher.search`, or the index does not store its documents.
    """
    for hit in searcher.search(query, k, filter=filter):
        document = searcher.doc(hit.docid)
        text = stored_fields(document, hit.docid)["text"]
        metadata = {name: value for name, value in document.fields.items() if name not in ("id", *BODY_FIELDS)}
        metadata |= {"title": hit.title, FIRST_STAGE_SCORE: hit.first_stage_score}
        relevance = None if searcher.reranker is None else float(searcher.reranker.relevance.of(hit.score))
        yield hit, relevance, f"{hit.title}\n{text}" if hit.title else text, metadata


def rerank(
    reranker: Reranker,
    query: str,
    documents: Sequence[tuple[Any, Any, Mapping[str, Any]]],
    top_k: int | None = None,
    passages: bool = False,
) -> list[tuple[int, float]]:
    """The places of the best documents in the given list, and their relevance, by decreasing score.

    Args:
        reranker: one with an index reads the ids of the documents, one without an index their texts.
        documents: ids, texts and metadata. The title that the metadata have is read as such; a text whose first line is
            this title is read without it. ``first_stage_score`` of the metadata is read, too, if all have it.
        top_k: how many documents, at most; None for all.
        passages: as for `Reranker.rerank`.

    Raises:
        InputError: as in `Reranker.rerank`.
    """
    scores = [metadata.get(FIRST_STAGE_SCORE) for _, _, metadata in documents]
    first_stage = None if None in scores else scores
    if reranker.index is not None:
        places = {id: place for place, (id, _, _) in enumerate(documents)}
        hits = reranker.rerank(query, [id for id, _, _ in documents], top_k, first_stage_scores=first_stage)
        relevance = reranker.relevance.of([hit.score for hit in hits]).tolist()
        return [(places[hit.docid], one) for hit, one in zip(hits, relevance)]
    texts = [_fields(text, metadata.get("title")) for _, text, metadata in documents]
    found = reranker.rerank(query, texts, top_k, first_stage_scores=first_stage, passages=passages)
    return [(one.index, one.relevance_score) for one in found]


def _fields(text: Any, title: Any) -> dict[str, Any]:
    with suppress(AttributeError, TypeError):  # the reranker says what is no text
        text = text.removeprefix(title + "\n")
    return {"title": title, "text": text}
