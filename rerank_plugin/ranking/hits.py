"""Hits: the documents of a ranked list, and the documents, hits or rows of a table that a caller gives to re-rank."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from types import NoneType
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Missing
from rerank_plugin.ranking.pipeline import Ranking
from rerank_plugin.ranking.stored_documents import StoredDocument
from rerank_plugin.ranking.texts import fields_of

ID_FIELDS = ("docid", "docno", "id")  # of a row: the first that is there
NO_LUCENE_NUMBER = -1  # of a hit of an index that is not Lucene's


@dataclass(frozen=True)
class Hit:
    """One document of a ranked list.

    Attributes:
        docid: the document's external id.
        score: the reranker's score, or the first stage's without a reranker.
        rank: from 1 on.
        title: as written; empty for a document without a title.
        lucene_docid: the document's number in the Lucene index.
        first_stage_score: the first stage's score.
        first_stage_rank: the rank before re-ranking, from 1 on.
    """

    docid: str
    score: float
    rank: int
    title: str
    first_stage_score: float
    first_stage_rank: int
    lucene_docid: int

    @property
    def lucene_document(self) -> Any:
        """The stored document, read now, with ``get(field)``; None if it is gone.

        Raises:
            InputError: the hit is a copy, or its searcher is closed, or the index does not store its documents.
        """
        read: Callable[[], Any] | None = self.__dict__.get("_read")
        if read is None:
            raise InputError(f"the hit '{self.docid}' is a copy, without its searcher: read it by Searcher.doc(docid)")
        return read()

    def read_by(self, read: Callable[[], Any]) -> Hit:
        """The hit itself, whose document ``read`` gives."""
        object.__setattr__(self, "_read", read)  # no field: a hit is equal to another, and copied, without it
        return self

    def __reduce__(self) -> tuple[type[Hit], tuple[Any, ...]]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))


class Hits(list[Hit]):
    """The hits of a search, a list.

    Attributes:
        missing: the shards of a cluster that did not answer, whose documents the ranking lacks; None if it is whole.
    """

    def __init__(self, hits: Iterable[Hit], missing: Missing | None = None):
        super().__init__(hits)
        self.missing = missing


def ranked_hits(
    ranking: Ranking, k: int, offset: int = 0, find: Callable[[str], StoredDocument | None] | None = None
) -> Hits:
    """The top k documents of a ranking after the first ``offset``; ``find`` reads the document of a hit by its id."""
    page = ranking._replace(order=ranking.order[offset : offset + k])
    candidates, index = ranking.candidates, ranking.candidates.index
    rows = candidates.rows[page.order]
    scores = page.ranked_scores.tolist(), range(offset + 1, offset + len(rows) + 1)
    first_stage = candidates.first_stage_scores[page.order].tolist(), (page.order + 1).tolist()
    columns = page.doc_ids, *scores, index.titles.take(rows), *first_stage, index.lucene_numbers[rows].tolist()
    hits = (Hit(*values) for values in zip(*columns))
    return Hits(hits if find is None else (hit.read_by(partial(find, hit.docid)) for hit in hits), ranking.missing)


def listed(documents: Any) -> list[Any]:
    """The documents of a list, or the rows of a table of pandas or polars."""
    if isinstance(documents, (str, bytes, Mapping, NoneType)):
        raise InputError(f"documents to re-rank are a list, not one {type(documents).__name__}")
    if not hasattr(documents, "columns"):
        return list(documents)
    # A table iterates over the names of its columns, or over the columns.
    if hasattr(documents, "to_dicts"):  # polars
        return list(documents.to_dicts())
    if hasattr(documents, "to_dict"):  # pandas
        return list(documents.to_dict("records"))
    raise InputError(f"documents to re-rank are a list, not one {type(documents).__name__}: give a list of its rows")


def id_of(given: Any) -> str:
    """The id of a document of an index that is given by its id, as a hit, or as a row with a column of ids."""
    id = given
    if is_hit(given):
        id = given.docid
    elif isinstance(given, Mapping):
        id = next((given[field] for field in ID_FIELDS if field in given), None)
        if isinstance(id, (int, np.integer)):  # as tables have ids of digits
            return str(id)
    if not isinstance(id, str):
        raise InputError(
            f"documents of an index are ids or hits, not {type(given).__name__}; for texts, load the reranker without "
            "an index"
        )
    return id


def is_hit(given: Any) -> bool:
    """Whether it is a `Hit`, or a hit of Pyserini: ``ScoredDoc`` of Lucene, ``DenseSearchResult`` of Faiss, ..."""
    return isinstance(given, Hit) or (
        not isinstance(given, (str, Mapping)) and hasattr(given, "docid") and hasattr(given, "score")
    )


def scores_of(documents: list[Any]) -> list[float] | None:
    """The first-stage scores of documents that are all given as hits; None of others."""
    if not documents or not all(map(is_hit, documents)):
        return None
    return [hit.first_stage_score if isinstance(hit, Hit) else float(hit.score) for hit in documents]


def text_of_hit(hit: Any) -> dict[str, str]:
    """Title and text of a hit of Lucene; an `InputError` as in `stored_fields`, or for a hit without a document."""
    document = getattr(hit, "lucene_document", hit)  # hits of Pyserini before 0.22 have raw and contents themselves
    if document is hit and not hasattr(hit, "raw"):
        raise InputError(
            f"the hit '{hit.docid}' of type {type(hit).__name__} has no text: give its searcher, too (rerank_hits), or "
            "load the reranker with the index"
        )
    return stored_fields(document, hit.docid)


def stored_fields(document: Any, docid: str) -> dict[str, str]:
    """Title and text of a document of a searcher like Pyserini's, or of Lucene: JSON, or plain text.

    Raises:
        InputError: there is no such document, or its index does not store texts.
    """
    stored = None if document is None else _stored(document, "raw") or _stored(document, "contents")
    if stored is None:
        raise InputError(
            f"the searcher has no text of document '{docid}': it needs an index that stores raw or contents"
        )
    try:
        value = json.loads(stored)
    except ValueError:
        value = stored
    title, text = fields_of(value if isinstance(value, dict) else stored, f"'{docid}'")
    return {"title": title, "text": text}


def _stored(document: Any, field: str) -> str | None:
    """A stored field, by a method of Pyserini's documents, an attribute of its oldest hits, or Lucene's ``get``."""
    value = getattr(document, field, None)
    if value is None:
        value = document.get(field) if hasattr(document, "get") else None
    return value() if callable(value) else value
