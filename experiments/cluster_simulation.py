"""Latencies of a cluster that is not there: a simulation of its queues, with measured times of the parts.

Queries arrive at random (a Poisson process) at coordinators. A coordinator computes, asks all shards, waits for the
last answer, computes, asks again, and so on; each question and answer crosses the network. A process answers some
questions at the same time, and further ones wait in their order; the processes of a machine share its cores evenly, and
a question computes on one. A query of the simulation takes the times of one measured query in all of its rounds and on
all shards, so that a query that is slow on one shard is slow on the others.

Times of an index of another size are those of the measured one that is closest, times the ratio of a law: a sum of
terms with coefficients that are not negative, by least squares on the means of all measured indexes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import NamedTuple

import numpy as np

from experiments.cluster_parts import MeasuredIndex, Parts, Round
from rerank_plugin import InputError
from rerank_plugin.cluster.config import AT_ONCE

MOST_WAITING = 1000  # queries that have begun and not ended: the cluster is too slow for its queries
SETTLING = 0.1  # share of the queries that come first, into empty queues, and are not counted


class Size(NamedTuple):
    """The size of an index of shards."""

    documents: int
    shards: int
    lists: int  # inverted lists of its vectors
    probes: int  # lists that are read

    @property
    def of_shard(self) -> float:
        """Documents of a shard."""
        return self.documents / self.shards

    @property
    def read(self) -> int:
        """Lists that a search reads."""
        return min(self.probes, self.lists)

    @property
    def scanned(self) -> float:
        """Vectors that a search compares in a shard, besides centroids."""
        return self.of_shard * self.read / max(self.lists, 1)

    @classmethod
    def of(cls, index: MeasuredIndex) -> Size:
        return cls(index.documents, index.shards, index.lists, index.probes)


Term = Callable[[Size, float], float]  # of a size, and of the documents that a shard is asked about
CONSTANT: Term = lambda size, rows: 1.0  # noqa: E731
ROWS: Term = lambda size, rows: rows  # noqa: E731
# What a shard's work grows with, by the method of `Shard`; others grow with the documents that they are asked about.
TERMS: dict[str, tuple[Term, ...]] = {
    "best_matches": (CONSTANT, lambda size, rows: math.sqrt(size.of_shard)),
    # A centroid is compared as a vector is; each list that is read costs a jump.
    "nearest": (
        CONSTANT,
        lambda size, rows: size.lists + size.scanned,
        lambda size, rows: min(size.probes, size.lists),
    ),
}
OTHERS = (CONSTANT, ROWS)
COORDINATOR = (CONSTANT, lambda size, rows: size.shards)


class Law:
    """Seconds by the size of an index, and the documents that a shard is asked about.

    Args:
        measured: sizes, documents and mean seconds.
    """

    def __init__(self, terms: Sequence[Term], measured: Iterable[tuple[Size, float, float]]):
        from scipy.optimize import nnls

        self.terms, measured = terms, list(measured)
        values = np.array([[term(size, rows) for term in terms] for size, rows, _ in measured])
        seconds = np.array([seconds for *_, seconds in measured])
        scale = np.maximum(np.abs(values).max(axis=0), 1e-300)
        relative = np.maximum(seconds, 1e-9)[:, None]  # errors relative to the seconds: small indexes count, too
        self.coefficients = nnls(values / scale / relative, seconds / relative[:, 0])[0] / scale

    def __call__(self, size: Size, rows: float) -> float:
        return max(float(sum(c * term(size, rows) for c, term in zip(self.coefficients, self.terms))), 1e-12)


class Laws:
    """The laws of a pipeline, of the coordinator and of each method of a shard.

    Raises:
        InputError: no index was measured with the pipeline.
    """

    def __init__(self, indexes: Sequence[MeasuredIndex], pipeline: str):
        measured = [index for index in indexes if pipeline in index.pipelines]
        if not measured:
            known = sorted({name for index in indexes for name in index.pipelines})
            raise InputError(f"'{pipeline}' was not measured: take {', '.join(known)}, or measure it")
        searches = {Size.of(index): index.pipelines[pipeline] for index in measured}
        rounds: dict[str, dict[Size, list[Round]]] = {}
        for size, of_size in searches.items():
            for search in of_size:
                for each in search.rounds:
                    rounds.setdefault(each.method, {}).setdefault(size, []).append(each)
        self.of_shard = {method: Law(TERMS.get(method, OTHERS), _means(found)) for method, found in rounds.items()}
        own = {size: float(np.mean([search.coordinator for search in found])) for size, found in searches.items()}
        self.of_coordinator = Law(COORDINATOR, [(size, 0.0, seconds) for size, seconds in own.items()])
        self.indexes, self.pipeline = measured, pipeline

    def closest(self, size: Size) -> MeasuredIndex:
        """The measured index whose shards are closest in size; among those, in number."""
        return min(
            self.indexes,
            key=lambda index: (
                abs(math.log(Size.of(index).of_shard / size.of_shard)), abs(math.log(index.shards / size.shards)),
            ),
        )  # fmt: skip


def _means(found: dict[Size, list[Round]]) -> list[tuple[Size, float, float]]:
    """Size, documents asked about and seconds of a shard, in the mean: of few documents, and of many."""
    means = []
    for size, rounds in found.items():
        rows = np.concatenate([each.rows or np.zeros(len(each.seconds)) for each in rounds])
        seconds = np.concatenate([each.seconds for each in rounds])
        for part in np.array_split(np.argsort(rows, kind="stable"), 2 if rows.any() and len(rows) > 1 else 1):
            means.append((size, float(rows[part].mean()), float(seconds[part].mean())))
    return means


@dataclass(frozen=True)
class Cluster:
    """Machines, and how they are asked.

    Attributes:
        size: of the index.
        processes: shards on a machine.
        cores: of a machine.
        replicas: processes for each shard, on different machines.
        hedge: seconds after which a second replica is asked.
        coordinators: processes that take queries; together on machines of their own, unless ``together``.
        together: coordinators compute on the first machine of the shards.
        round_trip: seconds of the network.
        bandwidth: bytes a second of the network of a coordinator.
        slow, slowness: processes that are slow, and how many times as slow as others.
        dead: processes that do not answer and are not asked, while the cluster lasts.
    """

    size: Size
    processes: int
    cores: int
    replicas: int = 1
    hedge: float = 0.2
    coordinators: int = 1
    together: bool = False
    round_trip: float = 0.0
    bandwidth: float = math.inf
    slow: int = 0
    slowness: float = 1.0
    dead: int = 0

    @property
    def machines(self) -> int:
        """Machines of the shards."""
        return self.replicas * math.ceil(self.size.shards / self.processes)


class Simulated(NamedTuple):
    """The outcome.

    Attributes:
        seconds: latencies of the queries, float64 [n]; empty if a shard has no process, or queries pile up.
        busy: share of the shards' cores that computes, in the mean; that of the busiest machine; and of coordinators.
        failed: why there are no latencies.
    """

    seconds: np.ndarray
    busy: tuple[float, float, float]
    failed: str = ""


class PiledUp(Exception):
    """Queries come faster than they are answered."""


def simulate(parts: Parts, pipeline: str, cluster: Cluster, rate: float, queries: int, seed: int) -> Simulated:
    """Simulate queries that arrive at random.

    Args:
        rate: queries a second; 0 for one after the other.

    Raises:
        InputError: the pipeline was not measured.
    """
    return Simulation(parts, pipeline, cluster, rate, queries, seed).run()


class Clock:
    """What happens when: a heap of times and functions, which are called with the time."""

    def __init__(self) -> None:
        self.events: list[tuple[float, int, Callable[[float], None]]] = []
        self.numbers = count()

    def at(self, when: float, happens: Callable[[float], None]) -> None:
        heappush(self.events, (when, next(self.numbers), happens))

    def run(self) -> None:
        while self.events:
            now, _, happens = heappop(self.events)
            happens(now)


class Machine:
    """Cores that running computations share evenly, each at most one of them.

    All of them advance alike, so each ends when the seconds that one has got since the beginning (``given``) have grown
    by its own.
    """

    def __init__(self, clock: Clock, cores: int):
        self.clock, self.cores, self.given, self.since, self.work, self.plans = clock, cores, 0.0, 0.0, 0.0, 0
        self.running: list[tuple[float, int, Callable[[float], None]]] = []

    def begin(self, now: float, seconds: float, ended: Callable[[float], None]) -> None:
        self._advance(now)
        heappush(self.running, (self.given + seconds, next(self.clock.numbers), ended))
        self._plan(now)

    def _share(self) -> float:
        return min(1.0, self.cores / len(self.running))

    def _advance(self, now: float) -> None:
        if self.running:
            self.given += (now - self.since) * self._share()
            self.work += (now - self.since) * min(len(self.running), self.cores)
        self.since = now

    def _plan(self, now: float) -> None:
        self.plans += 1
        plan = self.plans
        if self.running:
            end = now + max(self.running[0][0] - self.given, 0.0) / self._share()
            self.clock.at(end, lambda then: self._end(then) if plan == self.plans else None)

    def _end(self, now: float) -> None:
        self._advance(now)
        *_, ended = heappop(self.running)
        self._plan(now)
        ended(now)


class Process:
    """A process, which computes some answers at the same time; others wait in their order."""

    def __init__(self, machine: Machine, most: int):
        self.machine, self.free = machine, most
        self.waiting: deque[tuple[float, Callable[[float], None]]] = deque()

    def compute(self, now: float, seconds: float, ended: Callable[[float], None]) -> None:
        if not self.free:
            self.waiting.append((seconds, ended))
            return
        self.free -= 1
        self._begin(now, seconds, ended)

    def _begin(self, now: float, seconds: float, ended: Callable[[float], None]) -> None:
        def end(then: float) -> None:
            if self.waiting:
                self._begin(then, *self.waiting.popleft())
            else:
                self.free += 1
            ended(then)

        self.machine.begin(now, seconds, end)


class Simulation:
    """A cluster and the queries that it answers; arguments as of `simulate`."""

    def __init__(self, parts: Parts, pipeline: str, cluster: Cluster, rate: float, queries: int, seed: int):
        self.cluster, self.rate, self.transport, self.size = cluster, rate, parts.transport, cluster.size
        self.laws = Laws(parts.indexes, pipeline)
        self.source = self.laws.closest(self.size)
        self.from_size, self.searches = Size.of(self.source), self.source.pipelines[pipeline]
        own = self.laws.of_coordinator
        self.own = own(self.size, 0.0) / own(self.from_size, 0.0)
        numpy_random, self.random, shards = np.random.default_rng(seed), Random(seed), self.size.shards
        changed = numpy_random.permutation(shards * cluster.replicas).tolist()
        self.dead = {divmod(place, cluster.replicas) for place in changed[: cluster.dead]}
        slow = changed[cluster.dead : cluster.dead + cluster.slow]
        self.slow = {divmod(place, cluster.replicas) for place in slow}
        self.arrivals = np.cumsum(numpy_random.exponential(1 / rate, queries)) if rate else np.zeros(queries)
        self.picks = numpy_random.integers(0, len(self.searches), queries).tolist()
        self.multinomial = numpy_random.multinomial
        self.clock = Clock()
        self.machines = [Machine(self.clock, cluster.cores) for _ in range(cluster.machines)]
        of_replica = math.ceil(shards / cluster.processes)
        self.processes = {
            (shard, replica): Process(self.machines[replica * of_replica + shard // cluster.processes], AT_ONCE)
            for shard in range(shards)
            for replica in range(cluster.replicas)
        }
        self.front = self.machines[0] if cluster.together else Machine(self.clock, cluster.coordinators)
        self.coordinators = [Process(self.front, 1) for _ in range(cluster.coordinators)]
        self.started, self.done, self.open = self.arrivals.copy(), np.zeros(queries), 0

    def run(self) -> Simulated:
        if any(all((n, r) in self.dead for r in range(self.cluster.replicas)) for n in range(self.size.shards)):
            return Simulated(np.zeros(0), (0.0, 0.0, 0.0), "a shard has no process that answers")
        self.clock.at(float(self.arrivals[0]), lambda now: self._arrive(now, 0))
        failed = ""
        try:
            self.clock.run()
        except PiledUp as error:
            failed = str(error)
        lasted = max(float(self.done.max() - self.started[0]), 1e-12)
        busy = [machine.work / machine.cores / lasted for machine in self.machines]
        coordinators = 0.0 if self.cluster.together else self.front.work / self.front.cores / lasted
        latencies = (self.done - self.started)[int(SETTLING * len(self.done)) :]
        return Simulated(np.zeros(0) if failed else latencies, (float(np.mean(busy)), max(busy), coordinators), failed)

    def _arrive(self, now: float, query: int) -> None:
        if self.open == MOST_WAITING:
            raise PiledUp("queries come faster than they are answered")
        self.open += 1
        self.started[query] = now
        if self.rate and query + 1 < len(self.done):
            self.clock.at(float(self.arrivals[query + 1]), lambda then: self._arrive(then, query + 1))
        self._next(now, query, 0)

    def _next(self, now: float, query: int, at: int) -> None:
        """The coordinator computes, then asks shards, or answers."""
        search = self.searches[self.picks[query]]
        last = at == len(search.rounds)
        seconds = self.own * (search.after if last else search.rounds[at].coordinator)
        asked = None if last else Asked(self, query, at, search.rounds[at])
        if asked is not None:
            seconds += self.transport.round_seconds + self.transport.question_seconds * len(asked.waiting)
        process = self.coordinators[query % len(self.coordinators)]
        process.compute(now, seconds, (lambda then: self._answer(then, query)) if asked is None else asked.ask)

    def _answer(self, now: float, query: int) -> None:
        self.done[query] = now
        self.open -= 1
        if not self.rate and query + 1 < len(self.done):
            self.clock.at(now, lambda then: self._arrive(then, query + 1))


class Asked:
    """A round of a query: the shards that have not answered, and the documents that each of them is asked about."""

    def __init__(self, simulation: Simulation, query: int, at: int, measured: Round):
        self.simulation, self.query, self.at, self.measured = simulation, query, at, measured
        shards, source = simulation.size.shards, simulation.source
        self.waiting = dict.fromkeys(range(shards), 0)
        share = 1.0
        if measured.rows:  # documents are divided among the shards, and so are the bytes of a question about them
            divided = simulation.multinomial(max(sum(measured.rows), 1), np.full(shards, 1 / shards))
            self.waiting = {shard: rows for shard, rows in enumerate(divided.tolist()) if rows}
            share = source.shards / shards
        self.takers: dict[int, int] = {}
        cluster, one_way = simulation.cluster, simulation.cluster.round_trip / 2
        several = 1 if measured.rows else shards  # answers of all shards arrive together
        self.there = one_way + measured.sent * share / cluster.bandwidth
        self.back = one_way + measured.received * share * several / cluster.bandwidth

    def ask(self, now: float) -> None:
        """Ask every shard that has not answered; with replicas once more after the time of hedging."""
        for shard in self.waiting:
            self.simulation.clock.at(now + self.there, lambda then, shard=shard: self._reach(then, shard))
        if self.simulation.cluster.replicas > 1 and not self.takers:
            self.simulation.clock.at(now + self.simulation.cluster.hedge, lambda then: self.waiting and self.ask(then))

    def _reach(self, now: float, shard: int) -> None:
        if shard not in self.waiting:
            return
        simulation, replicas = self.simulation, self.simulation.cluster.replicas
        in_turn = ((self.query + step) % replicas for step in range(replicas))
        replica = next((r for r in in_turn if (shard, r) not in simulation.dead and r != self.takers.get(shard)), None)
        if replica is None:
            return
        self.takers[shard] = replica
        seconds = self._seconds(self.waiting[shard]) + simulation.transport.answer_seconds
        if (shard, replica) in simulation.slow:
            seconds *= simulation.cluster.slowness
        process = simulation.processes[shard, replica]
        ended = lambda end: simulation.clock.at(end + self.back, lambda then: self._answered(then, shard))  # noqa: E731
        process.compute(now, seconds, ended)

    def _seconds(self, rows: int) -> float:
        """Those of one measured shard, drawn at random, brought to the size of the index."""
        simulation, measured = self.simulation, self.measured
        law, entry = simulation.laws.of_shard[measured.method], simulation.random.randrange(len(measured.seconds))
        before = law(simulation.from_size, measured.rows[entry] if measured.rows else 0)
        return measured.seconds[entry] * law(simulation.size, rows) / before

    def _answered(self, now: float, shard: int) -> None:
        if self.waiting.pop(shard, None) is not None and not self.waiting:
            self.simulation._next(now, self.query, self.at + 1)
