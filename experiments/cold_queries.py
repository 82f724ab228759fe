"""``python -m experiments.cold_queries``: how long queries take by several pipelines after the page cache was emptied.

Each pipeline is opened in a process of its own, after the system has forgotten all files (which only root may ask for:
without ``--cold`` nothing is emptied). It gets each query once, and then each once more: the first time pages of the
index come from the disk, and Java compiles its loops. Of several indexes each gets a query in turn, so that their times
compare. ``--strategies`` ranks strategies in PubMed's language by BM25.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

import rerank_plugin as rp
from experiments.needles import anonymous_megabytes
from rerank_plugin import InputError
from rerank_plugin import options as commandline
from rerank_plugin.corpora import QUERIES, accepted, queries
from rerank_plugin.files.tables import markdown
from rerank_plugin.ranking.reading import PLAIN, PUBMED
from rerank_plugin.retrieval.hybrid import HYBRID, HybridConfig

PIPELINES = ("bm25", "bm25,delta", "hybrid", "hybrid,delta", "hybrid,delta+0.5")
CACHES = Path("/proc/sys/vm/drop_caches")
PERCENTILES = (50, 95, 99)
HITS = 10


class Times(NamedTuple):
    """Milliseconds of each query, the first time and the second, and MB of the process that no file backs."""

    first: list[float]
    again: list[float]
    memory: float | None


def empty_page_cache() -> None:
    """Let the system forget the pages of all files.

    Raises:
        InputError: this process may not ask for it.
    """
    os.sync()
    try:
        CACHES.write_text("3")
    except OSError as error:
        raise InputError(f"--cold needs to write {CACHES}, which only root may do ({error.strerror})") from None


def times(
    indexes: list[str], pipeline: str, texts: list[str], syntax: str, depth: int, nprobe: int | None
) -> list[Times]:
    """Open a pipeline, ``STAGE`` or ``STAGE,RERANKER``, over each index, and search all texts twice."""
    stage, _, reranker = pipeline.partition(",")
    first_stage = HybridConfig(nprobe=nprobe) if stage == HYBRID else stage
    rounds: list[tuple[list[float], list[float]]] = [([], []) for _ in indexes]
    with ExitStack() as opened:
        searchers = [
            opened.enter_context(rp.Searcher(index, reranker or None, first_stage, depth)) for index in indexes
        ]
        for number in range(2):
            for text in texts:
                for searcher, of_index in zip(searchers, rounds):
                    begun = time.perf_counter()
                    searcher.search(text, HITS, query_syntax=syntax)
                    of_index[number].append((time.perf_counter() - begun) * 1000)
        memory = anonymous_megabytes()
    return [Times(*of_index, memory) for of_index in rounds]


def row(name: str, count: int, found: Times) -> list[str]:
    memory = "" if found.memory is None else f"{found.memory:,.0f}"
    shares = (np.percentile(values, PERCENTILES) for values in (found.first, found.again))
    return [name, str(count), *(" / ".join(f"{value:.1f}" for value in values) for values in shares), memory]


def main(argv: list[str] | None = None) -> None:
    parser = commandline.parser("cold_queries", __doc__.split("\n\n", 1)[1])
    parser.prog = "python -m experiments.cold_queries"
    add = parser.add_argument
    add("--index", nargs="+", required=True, help="index to search, or several that are compared")
    add("--queries", required=True, metavar="SPEC", help=f"queries: {accepted(QUERIES)}")
    add("--most", type=int, default=300, help="queries (default: 300)")
    add("--pipelines", nargs="+", default=list(PIPELINES), metavar="STAGE[,RERANKER]", help="pipelines to measure")
    add("--strategies", type=Path, help="file of strategies, with a line between")
    add("--depth", type=int, default=500, help="candidates of each query (default: 500)")
    add("--nprobe", type=int, help="inverted lists that the hybrid reads (default: as many as the index says)")
    add("--cold", action="store_true", help="empty the page cache before each pipeline; for root only")
    options = commandline.parse(parser, argv)
    parser.check_counts(options, "most", "depth")
    texts = [query.text for query in queries(options.queries)][: options.most]
    measured = [(pipeline, pipeline, texts, PLAIN) for pipeline in options.pipelines]
    if options.strategies:
        strategies = [one.strip() for one in options.strategies.read_text("utf-8").split("\n\n")]
        measured.append(("strategies, by BM25", "bm25", [one for one in strategies if one], PUBMED))
    table = [["pipeline", "queries", "first, ms: median / p95 / p99", "again", "anonymous MB"]]
    for name, pipeline, of_pipeline, syntax in measured:
        if options.cold:
            empty_page_cache()
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            settings = syntax, options.depth, options.nprobe
            found = process.submit(times, options.index, pipeline, of_pipeline, *settings).result()
        several = len(found) > 1
        for index, of_index in zip(options.index, found):
            table.append(row(f"{name}, {index}" if several else name, len(of_pipeline), of_index))
    print(markdown(table), end="")


if __name__ == "__main__":
    commandline.run(main)
