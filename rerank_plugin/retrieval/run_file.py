"""An existing run as a first stage: its documents are the candidates of its queries."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.files.runs import RankedList, read_run
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.retrieval.register import FirstStageEntry, register

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunConfig:
    """A run as a first stage; ``run`` is a TREC run file."""

    name: str = field(default="run", init=False)
    run: str

    def open(self, index: Index) -> RunFile:
        return RunFile(read_run(self.run), index.forward, self.run)


class RunFile:
    """Gives the documents of a run, with their scores and in their order; none for a query that the run lacks.

    Args:
        run: the ranked lists by query id.
        path: the run file, for messages.
        rows_of: maps document ids to rows; by default ``index.rows``.
    """

    name = RunConfig.name

    def __init__(
        self,
        run: Mapping[str, RankedList],
        index: ForwardIndex,
        path: str | Path,
        rows_of: Callable[[Sequence[str]], np.ndarray] | None = None,
    ):
        self.run, self.forward, self.path, self.rows_of = run, index, path, rows_of or index.rows

    def search(self, query: Query, depth: int) -> Candidates:
        """The first ``depth`` documents of the query's list; an `InputError` if some of them are not in the index."""
        if query.id not in self.run:
            return Candidates(self.forward, [], [])
        doc_ids, scores = self.run[query.id]
        doc_ids, scores = doc_ids[:depth], scores[:depth].copy()  # a view would keep the whole list in memory
        rows = self.rows_of(doc_ids)
        if len(unknown := np.flatnonzero(rows < 0)):
            raise InputError(
                f"{self.path}: query {query.id} ranks {len(unknown)} documents that are not in the index, first "
                f"'{doc_ids[int(unknown[0])]}': the run was made from another collection"
            )
        return Candidates(self.forward, rows, scores)

    def below(self, queries: Sequence[Query], depth: int) -> tuple[int, int]:
        """The number of documents ranked below the depth for these queries, and of all ranked documents.

        Raises:
            InputError: the run has other queries only.
        """
        lengths = [len(self.run[query.id].doc_ids) for query in queries if query.id in self.run]
        if queries and self.run and not lengths:
            raise InputError(
                f"{self.path}: none of its {len(self.run)} queries ({next(iter(self.run))}, ...) is searched "
                f"({queries[0].id}, ...): name the queries of this run"
            )
        return sum(max(length - depth, 0) for length in lengths), sum(lengths)


def warn_of_cut(name: str | Path, below: int, ranked: int, depth: int) -> None:
    """Warn that documents of a run, or of several, are left out, which lowers recall."""
    if below:
        log.warning(
            "%s: %s of %s documents are below rank %d, the depth: left out", name, f"{below:,}", f"{ranked:,}", depth
        )


register(FirstStageEntry(RunConfig, "the documents of a TREC run", "run", needs_query_id=True))
