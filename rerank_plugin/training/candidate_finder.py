"""The candidates that a training re-ranks and draws its pairs from."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Sequence

from rerank_plugin.files.progress import progress
from rerank_plugin.files.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.ranking import pipeline


class CandidateFinder:
    """Candidates of queries by id: from a run where one is given, else from the first stage.

    Args:
        first_stage: a configuration, as :func:`rerank_plugin.options.first_stage_config` gives it; it is opened
            when it is first needed, so that runs need no Java.
        threads: first-stage searches at once.
    """

    def __init__(self, index: Index, first_stage, threads: int):
        self.index, self.first_stage, self.threads = index, first_stage, threads
        self.opened = None

    def __call__(self, queries: Sequence[Query], run_path: Path | None, depth: int) -> dict[str, Candidates]:
        if run_path:
            from rerank_plugin.files.runs import read_run

            source = pipeline.from_run(read_run(run_path), self.index.forward, depth, str(run_path))
        else:
            if self.opened is None:
                self.opened = self.index.first_stage(self.first_stage)
            source = pipeline.from_first_stage(self.opened, depth)
        with ThreadPoolExecutor(self.threads) as executor:
            found = progress(executor.map(source, queries), "candidates", "queries")
            return {query.id: one for query, one in zip(queries, found)}
