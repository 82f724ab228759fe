"""``python -m experiments.shards``: searches of an index of shards beside those of a single index of the same corpus.

Each query is searched by every pipeline in the single index, in the folder of shards in the same process, and on a Ray
cluster of this machine with a process for each shard, in turns. The rankings are compared to their whole depth: which
documents they have, by how much scores differ, and at how many places another document stands, with the largest
difference of the two documents' scores. Latencies are those of the same searches.

    python -m experiments.shards --single indexes/single --sharded indexes/sharded --cluster local \
        --queries data/nfcorpus:test data/bioasq-snippets:test
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import rerank_plugin as rp
from experiments.cluster_plan import sampled
from rerank_plugin import options as commandline
from rerank_plugin.base.terminal import progress
from rerank_plugin.cluster.config import ClusterConfig
from rerank_plugin.files.tables import markdown
from rerank_plugin.indexes.locations import open_index
from rerank_plugin.ranking.cascade import Stage
from rerank_plugin.ranking.pipeline import OpenPipeline, Pipeline
from rerank_plugin.retrieval.register import configure

PIPELINES = ("bm25", "qld", "bm25,delta", "hybrid", "hybrid,ktrel", "dense:ktrel")
DEPTH = 500
SINGLE = "single index"


@dataclass
class Differences:
    """Of the rankings of some queries from those of the single index.

    Attributes:
        documents: of all rankings of the single index.
        missing: documents that only the single index finds.
        score: the largest difference of a document's scores.
        exchanged: places with another document, and the largest difference of the scores there.
    """

    documents: int = 0
    missing: int = 0
    score: float = 0.0
    exchanged: int = 0
    apart: float = 0.0
    seconds: list[float] = field(default_factory=list)

    def add(self, expected: rp.RankedList, found: rp.RankedList) -> None:
        self.documents += len(expected.doc_ids)
        scores = dict(zip(found.doc_ids, np.asarray(found.scores, np.float64)))
        both = [(score, scores[id]) for id, score in zip(*expected) if id in scores]
        self.missing += len(expected.doc_ids) - len(both)
        self.score = max([self.score, *(abs(float(one) - other) for one, other in both)])
        for id, score, other, at_place in zip(*expected, *found):
            if id != other:
                self.exchanged += 1
                self.apart = max(self.apart, abs(float(score) - float(at_place)))


def compared(indexes: Mapping[str, rp.Index], name: str, queries: Sequence[rp.Query]) -> dict[str, Differences]:
    """By index, the differences of a pipeline's rankings from those of the first index, and its latencies."""
    stage, *rerankers = name.split(",")
    stages = tuple(map(Stage.parse, rerankers))
    pipelines = {index: Pipeline(opened, configure(stage), DEPTH, stages).open() for index, opened in indexes.items()}
    found = {index: Differences() for index in indexes}
    for pipeline in pipelines.values():
        _ranked(pipeline, queries[0])  # loads what the first query needs
    for query in progress(queries, name, "queries", total=len(queries)):
        expected = None
        for index, pipeline in pipelines.items():
            started = time.perf_counter()
            ranked = _ranked(pipeline, query)
            found[index].seconds.append(time.perf_counter() - started)
            expected = expected or ranked
            found[index].add(expected, ranked)
    return found


def _ranked(pipeline: OpenPipeline, query: rp.Query) -> rp.RankedList:
    ranking = pipeline.rank(query)
    return rp.RankedList(ranking.doc_ids, ranking.ranked_scores)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.shards", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--single", type=Path, required=True, help="folder of the single index")
    add("--sharded", type=Path, required=True, help="folder of the index of shards of the same corpus")
    add("--cluster", help="Ray cluster to search the shards on, too: HOST:PORT, auto or local")
    add("--heap", default="512m", help="Java's heap in the process of each shard")
    add("--queries", nargs="+", required=True, help="queries, as search takes them")
    add("--sample", type=int, default=100, help="queries of each --queries, at most")
    add("--pipelines", nargs="+", default=PIPELINES, help="FIRST_STAGE[,RERANKER...]")
    options = parser.parse_args(argv)
    queries = list(sampled(options.queries, options.sample))
    places = {SINGLE: str(options.single), "shards, one process": str(options.sharded)}
    if options.cluster:
        places["shards on Ray"] = ClusterConfig(options.cluster, heap=options.heap).url(options.sharded)
    rows = [["search", "index", "documents", "missing", "largest difference", "exchanged", "apart", "median ms", "p99"]]
    with ExitStack() as stack:
        indexes = {name: stack.enter_context(closing(open_index(place))) for name, place in places.items()}
        for name in options.pipelines:
            for index, differences in compared(indexes, name, queries).items():
                latencies = 1000 * np.percentile(differences.seconds, [50, 99])
                rows.append(
                    [
                        name, index, f"{differences.documents:,}", f"{differences.missing}", f"{differences.score:.1g}",
                        f"{differences.exchanged}", f"{differences.apart:.1g}", *(f"{ms:.1f}" for ms in latencies),
                    ]
                )  # fmt: skip
    print(f"{len(queries)} queries, to depth {DEPTH}\n\n{markdown(rows, 2)}", end="")


if __name__ == "__main__":
    commandline.run(main)
