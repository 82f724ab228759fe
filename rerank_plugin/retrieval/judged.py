"""Judged documents as the candidates of a query, and as a filter of another first stage's candidates."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Judgments, Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.retrieval.register import (
    NOTHING,
    FirstStage,
    FirstStageConfig,
    FirstStageEntry,
    can_filter,
    lacking_words,
    register,
)

NO_ROWS = np.zeros(0, np.int64)  # of a query without judgments

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class JudgedConfig:
    """Judged documents as a first stage; ``judgments`` is a spec that :func:`rerank_plugin.corpora.judgments` reads."""

    name: str = field(default="judged", init=False)
    judgments: str

    def open(self, index: Index) -> JudgedDocuments:
        from rerank_plugin.corpora import judgments

        return JudgedDocuments(judgments(self.judgments), index.forward, self.judgments)


def judged_rows(judgments: Judgments, index: ForwardIndex, name: str) -> dict[str, np.ndarray]:
    """The judged documents of each query as rows, by decreasing document id, int64 [n].

    Documents that are not in the index are left out with one warning.

    Args:
        name: of the judgments, for messages.

    Raises:
        InputError: the index has none of the documents.
    """
    doc_ids = sorted({document for judged in judgments.values() for document in judged}, reverse=True)
    rows = index.rows(doc_ids)
    missing = np.flatnonzero(rows < 0)
    if len(missing) == len(doc_ids):
        first = f", first '{doc_ids[0]}'" if doc_ids else ""
        raise InputError(
            f"{name}: none of its {len(doc_ids)} judged documents is in the index{first}: the judgments belong to "
            "another collection"
        )
    if len(missing):
        log.warning(
            "%s: %d of %d judged documents are not in the index and are left out, as %s",
            name, len(missing), len(doc_ids), doc_ids[int(missing[0])],
        )  # fmt: skip
    row_of = {id: row for id, row in zip(doc_ids, rows.tolist()) if row >= 0}
    return {
        query: np.array([row_of[id] for id in sorted(judged, reverse=True) if id in row_of], np.int64)
        for query, judged in judgments.items()
    }


class JudgedDocuments:
    """Gives all judged documents of a query, of any grade, with score 0 and by decreasing document id ([D18] 5.1).

    A query without judgments has no candidates. Arguments and errors as in `judged_rows`.
    """

    name = JudgedConfig.name

    def __init__(self, judgments: Judgments, index: ForwardIndex, name: str):
        self.forward, self.rows = index, judged_rows(judgments, index, name)

    def search(self, query: Query, depth: int) -> Candidates:
        """All judged documents of the query, whatever the depth."""
        rows = self.rows.get(query.id, NO_ROWS)
        return Candidates(self.forward, rows, np.zeros(len(rows)))


@dataclass(frozen=True)
class JudgedOnlyConfig:
    """Another first stage, reduced to judged documents; ``judgments`` is a spec as in `JudgedConfig`."""

    first_stage: FirstStageConfig
    judgments: str

    @property
    def name(self) -> str:
        return self.first_stage.name

    def open(self, index: Index) -> JudgedOnly:
        from rerank_plugin.corpora import judgments

        rows = judged_rows(judgments(self.judgments), index.forward, self.judgments)
        return JudgedOnly(self.first_stage.open(index), rows)


class JudgedOnly:
    """Keeps the judged candidates (`judged_rows`) of another first stage, after the cut at the depth."""

    def __init__(self, first_stage: FirstStage, rows: Mapping[str, np.ndarray]):
        self.first_stage, self.name, self.rows = first_stage, first_stage.name, rows
        self.filters = can_filter(first_stage)

    def search(self, query: Query, depth: int) -> Candidates:
        candidates = self.first_stage.search(query, depth)
        return candidates.take(np.flatnonzero(np.isin(candidates.rows, self.rows.get(query.id, NO_ROWS))))

    def lacking_words(self, query: Query) -> list[str]:
        return lacking_words(self.first_stage, query)


register(
    FirstStageEntry(
        JudgedConfig,
        "the judged documents of each query, all of them, with score 0",
        "judgments",
        fusable=False,
        depth_cuts=NOTHING,
        needs_query_id=True,
    )
)
