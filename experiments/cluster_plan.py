"""``python -m experiments.cluster_plan``: plans a cluster for an index of shards by a simulation of its queues.

The parts of searches are measured on this machine (:mod:`experiments.cluster_parts`), and latencies, utilization and
cost of machines that are not there simulated with them (:mod:`experiments.cluster_simulation`). Tables go to stdout.
Parts are seconds of a processor, which other work on the machine hardly changes; ``--check`` needs an idle machine.

    python -m experiments.cluster_plan --parts parts.json --measure --index indexes/a indexes/b --queries mine.tsv
    python -m experiments.cluster_plan --parts parts.json --documents 40000000 400000000 --rate 20
"""

from __future__ import annotations

import logging
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.cluster_parts import HITS, PARTS, Parts, measured_index, measured_transport, warmed
from experiments.cluster_simulation import Cluster, Simulated, Size, simulate
from rerank_plugin import InputError, Query, Searcher
from rerank_plugin import options as commandline
from rerank_plugin.base.memory import MEGABYTE
from rerank_plugin.base.settings import check_bounds, setting
from rerank_plugin.benchmark import machine
from rerank_plugin.benchmark.rows import number
from rerank_plugin.cluster.config import ClusterConfig
from rerank_plugin.corpora import queries
from rerank_plugin.files.outputs import check_free
from rerank_plugin.files.tables import markdown
from rerank_plugin.indexes.locations import open_index
from rerank_plugin.indexes.vector_store_writer import ListsConfig
from rerank_plugin.kernels.parallel import processors

PIPELINES = ("bm25", "bm25,delta", "hybrid")
PERCENTILES = (50, 99, 99.9)
CLIENTS = 64  # queries of a check at the same time
SIMULATED = 20_000  # queries of a check
GIGA = 1e9
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MeasuringConfig:
    """How the parts are measured, and how a cluster on this machine is checked."""

    sample: int = setting(100, "queries to measure with, at most, of each source of queries", metavar="N", ge=1)
    rounds: int = setting(2, "times that each query is measured", metavar="N", ge=1)
    heap: str = setting("512m", "Java's heap in the process of each shard", option="shard_heap", metavar="SIZE")
    cluster: str = setting("local", "Ray cluster to measure Ray on: HOST:PORT, auto, or local to start one here")
    check_seconds: float = setting(15.0, "seconds of each rate of a check", metavar="S")
    depth: int = 500
    seed: int = 42


@dataclass(frozen=True)
class PlanConfig:
    """A cluster that is not there."""

    shard_documents: int = setting(5_000_000, "documents of a shard", metavar="N", ge=1)
    cores: int = setting(8, "cores of a machine", metavar="N", ge=1)
    memory: float = setting(64.0, "memory of a machine, GB", metavar="GB", gt=0)
    replicas: int = setting(1, "processes for each shard, on different machines", metavar="N", ge=1)
    hedge: float = setting(0.2, "seconds after which a second replica is asked", metavar="S", ge=0)
    coordinators: int = setting(1, "processes that take queries, each on a core of further machines", metavar="N", ge=1)
    network_ms: float = setting(0.2, "round trip between machines, milliseconds", metavar="MS", ge=0)
    gigabits: float = setting(10.0, "bandwidth of a coordinator's network, Gbit/s", metavar="N", gt=0)
    slow: int = setting(0, "processes that are slow", metavar="N", ge=0)
    slowness: float = setting(10.0, "how many times as slow they are", metavar="F", ge=1)
    dead: int = setting(0, "processes that are dead all the time", metavar="N", ge=0)
    price: float | None = setting(
        None, "price of a machine for an hour, in any currency", metavar="P", type=float, ge=0
    )
    simulated: int = setting(5000, "queries of a simulation", metavar="N", ge=1)
    seed: int = 42

    def __post_init__(self) -> None:
        check_bounds(self)


def sampled(specs: Sequence[str], sample: int) -> Iterator[Query]:
    """Queries spread evenly over those of each source."""
    for spec in specs:
        found = list(queries(spec))
        if not found:
            raise InputError(f"{spec}: there are no queries to measure with")
        yield from (found[place] for place in np.unique(np.linspace(0, len(found) - 1, sample).astype(int)))


def measure(
    folders: Sequence[Path], sampled: Sequence[Query], pipelines: Sequence[str], config: MeasuringConfig
) -> Parts:
    """Measure the parts of pipelines on indexes of shards, and Ray's on those with the fewest and the most shards.

    Raises:
        InputError: a folder is no index of shards, or a cluster cannot compute a pipeline.
    """
    indexes = [measured_index(folder, sampled, pipelines, config.depth, config.rounds) for folder in folders]
    by_shards = sorted(indexes, key=lambda index: (index.shards, -index.documents))
    on_ray = by_shards[:1] if len(by_shards) == 1 else [by_shards[0], by_shards[-1]]
    transport = measured_transport(on_ray, sampled, config.depth, ClusterConfig(config.cluster, heap=config.heap))
    return Parts(machine.describe(1, "cpu"), transport, indexes)


def checked(
    parts: Parts, folders: Sequence[Path], sampled: Sequence[Query], pipelines: Sequence[str], rates: Sequence[float],
    config: MeasuringConfig,
) -> list[list[str]]:  # fmt: skip
    """Latencies on Ray on this machine beside those of the simulation, as a table.

    Args:
        rates: queries a second; 0 for one after the other.

    Raises:
        InputError: an index or a pipeline was not measured, or cannot be opened.
    """
    rows = [["documents / shards", "search", "queries a second"]]
    rows[0] += [f"{name} {which}" for name in ("median", "p99") for which in ("measured", "simulated", "error")]
    for folder in folders:
        measured = next((each for each in parts.indexes if each.name == str(folder)), None)
        if measured is None:
            raise InputError(f"{folder} was not measured: measure it, too, before the check")
        size = Size.of(measured)
        cluster = Cluster(size, measured.shards, processors(), together=True)
        with closing(open_index(ClusterConfig(config.cluster, heap=config.heap).url(folder))) as index:
            for pipeline in pipelines:
                searcher = warmed(index, pipeline, sampled, config.depth)
                for rate in rates:
                    taken = _loaded(searcher, sampled, rate, config)
                    simulated = simulate(parts, pipeline, cluster, rate, SIMULATED, config.seed)
                    rows.append(
                        [f"{size.documents:,} / {size.shards}", pipeline, _rate(rate), *_beside(taken, simulated)]
                    )
                    log.info("checked: %s", ", ".join(rows[-1]))
    return rows


def _beside(taken: np.ndarray, simulated: Simulated) -> list[str]:
    """Median and p99: measured, simulated, and the error of the simulation."""
    cells = []
    for percent in PERCENTILES[:2]:
        found = 1000 * float(np.percentile(taken, percent))
        if simulated.failed:
            cells += [number(found), simulated.failed, ""]
            continue
        expected = 1000 * float(np.percentile(simulated.seconds, percent))
        cells += [number(found), number(expected), f"{100 * (expected / found - 1):+.0f}%"]
    return cells


def _rate(rate: float) -> str:
    return f"{rate:g}" if rate else "one by one"


def _loaded(searcher: Searcher, sampled: Sequence[Query], rate: float, config: MeasuringConfig) -> np.ndarray:
    """Latencies of queries at random times, counted from when they are due; at rate 0 one after the other."""
    random, taken = np.random.default_rng(config.seed), list[float]()

    def search(due: float, query: Query) -> None:
        searcher.search(query.text, HITS)
        taken.append(time.perf_counter() - due)

    end = time.perf_counter() + config.check_seconds
    if not rate:
        while (now := time.perf_counter()) < end:
            search(now, sampled[int(random.integers(len(sampled)))])
        return np.array(taken)
    waits = random.exponential(1 / rate, max(1, round(rate * config.check_seconds)))
    with ThreadPoolExecutor(CLIENTS) as executor:
        running = []
        for due in time.perf_counter() + np.cumsum(waits):
            if (wait := due - time.perf_counter()) > 0:
                time.sleep(wait)
            running.append(executor.submit(search, due, sampled[int(random.integers(len(sampled)))]))
        for each in running:
            each.result()
    return np.array(taken)


class Needed(NamedTuple):
    """What the shards of a cluster need."""

    shards: int
    memory: float  # GB of a process, with the files that it searches
    processes: int  # on a machine


def _needed(parts: Parts, documents: int, config: PlanConfig) -> Needed:
    """Shards, and how many processes fit into the memory and the cores of a machine.

    Raises:
        InputError: a machine has not enough memory for a shard.
    """
    largest = max(parts.indexes, key=lambda index: index.documents)
    shards = max(1, round(documents / config.shard_documents))
    memory = parts.transport.memory_mb * MEGABYTE
    memory += largest.searched_bytes / largest.documents * documents / shards
    fit = int(config.memory * GIGA // memory)
    if not fit:
        raise InputError(
            f"a shard of {documents // shards:,} documents takes {memory / GIGA:.1f} GB, and a machine has "
            f"{config.memory:g}: take fewer documents for each shard, or more memory"
        )
    return Needed(shards, memory / GIGA, min(fit, config.cores, shards))


def planned(
    parts: Parts, pipelines: Sequence[str], documents: Sequence[int], rates: Sequence[float], config: PlanConfig
) -> list[list[str]]:
    """The clusters for numbers of documents, their latencies and their cost, as a table.

    Raises:
        InputError: a pipeline was not measured, or a machine has not enough memory for a shard.
    """
    unit = "machine-hours" if config.price is None else "cost"
    rows = [["search", "documents", "shards", "GB each", "a machine", "machines", "queries a second", "median ms"]]
    rows[0] += ["p99", "p99.9", "cores busy", "busiest", "coordinators busy", f"{unit} for a million queries"]
    for pipeline in pipelines:
        for number_of in documents:
            needed = _needed(parts, number_of, config)
            size = Size(number_of, needed.shards, *ListsConfig().sizes(number_of))
            cluster = Cluster(
                size, needed.processes, config.cores, config.replicas, config.hedge, config.coordinators, False,
                config.network_ms / 1000, config.gigabits * GIGA / 8, config.slow, config.slowness, config.dead,
            )  # fmt: skip
            machines = cluster.machines + -(-config.coordinators // config.cores)
            for rate in rates:
                simulated = simulate(parts, pipeline, cluster, rate, config.simulated, config.seed)
                cost = machines * 1e6 / rate / 3600 * (config.price or 1.0) if rate else 0.0
                loads = [f"{100 * load:.0f}%" for load in simulated.busy]
                rows.append(
                    [
                        pipeline, f"{number_of:,}", f"{needed.shards:,}", f"{needed.memory:.1f}", f"{needed.processes}",
                        f"{machines:,}", _rate(rate), *_latencies(simulated), *loads,
                        number(cost) if cost and not simulated.failed else "",
                    ]
                )  # fmt: skip
    return rows


def _latencies(simulated: Simulated) -> list[str]:
    if simulated.failed:
        return [simulated.failed, "", ""]
    return [number(1000 * float(np.percentile(simulated.seconds, percent))) for percent in PERCENTILES]


def arguments() -> commandline.Parser:
    parser = commandline.parser("cluster_plan", __doc__.split("\n\n", 1)[1])
    parser.prog = "python -m experiments.cluster_plan"
    add = parser.add_argument
    parts = "JSON file of measured parts, to read, or with --measure to write"
    add("--parts", type=Path, required=True, metavar="FILE", help=parts)
    add("--documents", type=int, nargs="+", default=[], metavar="N", help="documents of clusters to simulate")
    rate = "queries a second, at random times; 0: one after the other"
    add("--rate", type=float, nargs="+", default=[0.0, 10.0], metavar="N", help=rate)
    pipeline = "searches: FIRST_STAGE[,RERANKER...] (default: all that were measured)"
    add("--pipeline", nargs="+", metavar="P", help=pipeline)
    add("--measure", action="store_true", help="measure the parts, on --index")
    check = "search on Ray on this machine, too, and compare the latencies with simulated ones"
    add("--check", action="store_true", help=check)
    add("--index", type=Path, nargs="+", default=[], metavar="FOLDER", help="indexes of shards, of several sizes")
    add("--queries", nargs="+", default=[], help="queries to measure with, as search takes them")
    add("--overwrite", action="store_true", help="replace an existing file of parts")
    commandline.add_settings(parser, MeasuringConfig)
    commandline.add_settings(parser, PlanConfig)
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = commandline.parse(parser, argv)
    if (options.measure or options.check) and not (options.index and options.queries):
        parser.error("--measure and --check need --index and --queries")
    if not (options.measure or options.check or options.documents):
        parser.error("give --measure, --check, or the number of --documents to simulate")
    if min(options.rate) < 0:
        parser.error("--rate must not be negative")
    parser.check_counts(options, *(["documents"] if options.documents else []))
    measuring = commandline.configured(MeasuringConfig, options, seed=options.seed)
    plan = commandline.configured(PlanConfig, options, seed=options.seed)
    asked = list(sampled(options.queries, measuring.sample))
    if options.measure:
        check_free(options.parts, PARTS, options.overwrite)
        parts = measure(options.index, asked, options.pipeline or PIPELINES, measuring)
        parts.save(options.parts, options.overwrite)
    else:
        parts = Parts.load(options.parts)
    pipelines = options.pipeline or list(parts.indexes[0].pipelines)
    line = shlex.join(sys.argv[1:] if argv is None else argv)
    print(f"`{parser.prog} {line}`\n\nParts measured on {parts.machine}.")
    if options.check:
        print(f"\n{markdown(checked(parts, options.index, asked, pipelines, options.rate, measuring), 3)}", end="")
    if options.documents:
        print(f"\n{markdown(planned(parts, pipelines, options.documents, options.rate, plan))}", end="")


if __name__ == "__main__":
    commandline.run(main)
