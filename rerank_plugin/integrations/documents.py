"""Documents in the form of other libraries: an id, a text, and a mapping of metadata.

The metadata of a retrieved document are its stored fields, such as ``title`` and ``date``. Its ``first_stage_score``
stands beside them where a library has a place for it. Its text begins with a line that holds the title, since other
libraries show only the text to a reader or a language model.

Adapters return the relevance between 0 and 1, the ``relevance_score`` of the service
(:mod:`rerank_plugin.models.relevance`), not the model's score.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rerank_plugin.base.filters import Filter, Values
from rerank_plugin.ranking.hits import Hit, stored_fields
from rerank_plugin.ranking.reranker import Reranker
from rerank_plugin.ranking.searcher import Searcher
from rerank_plugin.ranking.texts import BODY_FIELDS, title_of

FIRST_STAGE_SCORE = "first_stage_score"


def retrieve(
    searcher: Searcher, query: str, k: int, filter: Filter | Values | None = None
) -> Iterator[tuple[Hit, float | None, str, dict[str, Any]]]:
    """The top k documents of a query: hit, relevance (None without a reranker), text and metadata.

    Raises:
        InputError: as in `Searcher.search`, or the index does not store its documents.
    """
    for hit in searcher.search(query, k, filter=filter):
        document = searcher.doc(hit.docid)
        text = stored_fields(document, hit.docid)["text"]
        assert document is not None  # else `stored_fields` has raised
        metadata = {name: value for name, value in document.fields.items() if name not in ("id", *BODY_FIELDS)}
        metadata |= {"title": hit.title}
        relevance = None if searcher.reranker is None else float(searcher.reranker.relevance.of(hit.score))
        yield hit, relevance, f"{hit.title}\n{text}" if hit.title else text, metadata


def rerank(
    reranker: Reranker,
    query: str,
    documents: Sequence[tuple[Any, Any, Mapping[str, Any]]],
    top_k: int | None = None,
    passages: bool = False,
) -> list[tuple[int, float]]:
    """The best documents by decreasing score: their places in ``documents``, and their relevance.

    Args:
        reranker: reads the ids of the documents if it has an index, otherwise their texts.
        documents: ids, texts and metadata. The reranker reads ``title`` from the metadata, and a text without its first
            line if that is the title. It reads ``first_stage_score`` from the metadata if all documents have a finite
            one. A text that is None is empty; of documents with the same id, a reranker with an index ranks the first.
        top_k: largest number of documents; None for all.
        passages: as for `Reranker.rerank`.

    Raises:
        InputError: as in `Reranker.rerank`.
    """
    scores = [_number((metadata or {}).get(FIRST_STAGE_SCORE)) for *_, metadata in documents]
    first_stage_scores = scores if all(map(math.isfinite, scores)) else None
    if reranker.index is not None:
        ids = [id for id, _, _ in documents]
        places = {id: place for place, id in reversed([*enumerate(ids)])}
        hits = reranker.rerank(query, ids, top_k, first_stage_scores=first_stage_scores)
        relevance = reranker.relevance.of([hit.score for hit in hits]).tolist()
        return [(places[hit.docid], value) for hit, value in zip(hits, relevance)]
    texts = [_fields(text, title_of((metadata or {}).get("title"))) for _, text, metadata in documents]
    ranked = reranker.rerank(query, texts, top_k, first_stage_scores=first_stage_scores, passages=passages)
    return [(text.index, text.relevance_score) for text in ranked]


def _fields(text: Any, title: str) -> dict[str, Any]:
    if isinstance(text, str) and title:  # the reranker reports a value that is not a text
        text = text.removeprefix(title + "\n")
    return {"title": title, "text": text}


def _number(value: Any) -> float:
    """A score of metadata as a number; NaN if it is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan
