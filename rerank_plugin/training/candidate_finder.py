"""Finds the candidates for training pairs and for validation."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rerank_plugin.files.progress import progress
from rerank_plugin.files.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.ranking.pipeline import from_first_stage
from rerank_plugin.retrieval.given_run import RunConfig
from rerank_plugin.retrieval.register import FirstStage, FirstStageConfig


class CandidateFinder:
    """Candidates by query id, from a run if one is given, otherwise from the first stage.

    Args:
        first_stage: its configuration; it is opened when it is first needed, so that runs need no Java.
        threads: how many queries are searched in parallel.
    """

    def __init__(self, index: Index, first_stage: FirstStageConfig | None, threads: int):
        self.index, self.first_stage, self.threads = index, first_stage, threads
        self.opened: FirstStage | None = None

    def __call__(self, queries: Sequence[Query], run_path: Path | None, depth: int) -> dict[str, Candidates]:
        if run_path:
            first_stage = self.index.first_stage(RunConfig(str(run_path)))
        else:
            if self.opened is None:
                self.opened = self.index.first_stage(self.first_stage)
            first_stage = self.opened
        source = from_first_stage(first_stage, depth)
        with ThreadPoolExecutor(self.threads) as executor:
            found = progress(executor.map(source, queries), "candidates", "queries")
            return {query.id: one for query, one in zip(queries, found)}
