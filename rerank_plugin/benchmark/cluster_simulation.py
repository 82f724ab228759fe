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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.benchmark.cluster_parts import MeasuredIndex, Parts, Round, Transport
from rerank_plugin.cluster.config import AT_ONCE
from rerank_plugin.kernels.compiling import njit

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


def simulate(parts: Parts, pipeline: str, cluster: Cluster, rate: float, queries: int, seed: int) -> Simulated:
    """Simulate queries that arrive at random.

    Args:
        rate: queries a second; 0 for one after the other.

    Raises:
        InputError: the pipeline was not measured.
    """
    laws, transport, size = Laws(parts.indexes, pipeline), parts.transport, cluster.size
    source = laws.closest(size)
    random = np.random.default_rng(seed)
    alive, slowness = (np.ones((size.shards, cluster.replicas)) for _ in range(2))
    changed = random.permutation(alive.size)
    alive.flat[changed[: cluster.dead]] = 0
    slowness.flat[changed[cluster.dead : cluster.dead + cluster.slow]] = cluster.slowness
    if not alive.any(axis=1).all():
        return Simulated(np.zeros(0), (0.0, 0.0, 0.0), "a shard has no process that answers")
    arrivals = np.cumsum(random.exponential(1 / rate, queries)) if rate else np.zeros(queries)
    picks = random.integers(0, len(source.pipelines[pipeline]), queries)
    network = cluster.round_trip / 2, 1 / cluster.bandwidth, transport.answer_seconds
    done, empty = np.zeros(queries), _empty(cluster, queries)
    piled_up = _run(
        arrivals, done, rate > 0, picks, _flat(laws, source, size, transport), *empty, alive, slowness, cluster.hedge,
        network, seed,
    )  # fmt: skip
    started, machines = arrivals if rate else np.append(0.0, done[:-1]), empty[2]
    busy = machines.work / machines.cores / max(float(done.max() - started[0]), 1e-12)
    loads = float(busy[:-1].mean()), float(busy[:-1].max()), float(busy[-1])
    if piled_up:
        return Simulated(np.zeros(0), loads, "queries come faster than they are answered")
    return Simulated((done - started)[int(SETTLING * queries) :], loads)


def _empty(cluster: Cluster, queries: int) -> tuple[_Events, _Queries, _Machines, _Processes, _Jobs]:
    """A cluster that computes nothing. The last machine is that of the coordinators, a core for each."""
    shards, machines, coordinators = cluster.size.shards, cluster.machines, cluster.coordinators
    most = MOST_WAITING * (min(cluster.replicas, 2) * shards + 1)
    events = np.zeros(4 * most), *np.zeros((4, 4 * most), np.int64), np.zeros(1, np.int64)
    places = np.arange(MOST_WAITING), np.array([MOST_WAITING]), *np.zeros((2, MOST_WAITING), np.int64)
    of_shards = *np.zeros((2, MOST_WAITING, shards), np.int64), np.zeros((MOST_WAITING, shards), np.bool_)
    active = np.zeros((machines + 1, cluster.processes * AT_ONCE + coordinators), np.int64)
    cores, running = np.append(np.full(machines, cluster.cores), coordinators).astype(float), active[:, 0].copy()
    times = np.zeros(machines + 1), np.full(machines + 1, np.inf), np.zeros(machines + 1)
    shard, replica = np.divmod(np.arange(shards * cluster.replicas), cluster.replicas)
    machine = replica * math.ceil(shards / cluster.processes) + shard // cluster.processes
    machine = np.append(machine, np.full(coordinators, 0 if cluster.together else machines))
    at_once = np.append(np.full(len(shard), AT_ONCE), np.ones(coordinators, np.int64))
    nobody = np.full(len(machine), -1)
    numbers = *np.zeros((5, most), np.int64), np.arange(most)[::-1].copy(), np.array([most])
    return (
        _Events._make(events), _Queries._make((np.full(queries, -1), *places, *of_shards)),
        _Machines(cores, active, running, *times), _Processes(machine, at_once, 0 * machine, nobody, nobody.copy()),
        _Jobs._make((np.zeros(most), *numbers)),
    )  # fmt: skip


def _flat(laws: Laws, source: MeasuredIndex, size: Size, transport: Transport) -> tuple:
    """The measured searches as arrays, scaled to another size.

    Returns:
        first round of each search, int64 [n + 1]; of each round the coordinator's seconds before it without Ray's, its
        first entry, int64 [m + 1], the documents that it asks about (-1 for all of the index), and the bytes to and
        from a shard; of each entry the shard's seconds for no and for each document; and Ray's seconds for a round and
        for each shard.
    """
    own = laws.of_coordinator(size, 0.0) / laws.of_coordinator(Size.of(source), 0.0)
    firsts, coordinator, starts, asked, sent, received = [0], [], [0], [], [], []
    constant, slope = [], []
    for search in source.pipelines[laws.pipeline]:
        for each in search.rounds:
            law = laws.of_shard[each.method]
            coordinator.append(own * each.coordinator)
            asked.append(max(sum(each.rows), 1) if each.rows else -1)
            share = source.shards / size.shards if each.rows else 1.0  # bytes of rows are divided among more shards
            sent.append(each.sent * share)
            received.append(each.received * share)
            for seconds, rows in zip(each.seconds, each.rows or [0] * len(each.seconds)):
                ratio = seconds / law(Size.of(source), rows)
                at_none = law(size, 0.0)
                constant.append(ratio * at_none)
                slope.append(ratio * (law(size, 1.0) - at_none))
            starts.append(len(constant))
        coordinator.append(own * search.after)  # a last round that asks nobody
        asked.append(0)
        sent.append(0.0)
        received.append(0.0)
        starts.append(len(constant))
        firsts.append(len(coordinator))
    return (
        np.array(firsts), np.array(coordinator), np.array(starts), np.array(asked), np.array(sent), np.array(received),
        np.array(constant), np.array(slope), transport.round_seconds, transport.question_seconds,
    )  # fmt: skip


class _Jobs(NamedTuple):
    """Computations of processes, by numbers that are used again, [J] each."""

    left: np.ndarray  # seconds of a core, float64
    process: np.ndarray
    query: np.ndarray
    round: np.ndarray
    shard: np.ndarray  # -1 at a coordinator
    following: np.ndarray  # the next one that waits for the process, -1 for none
    unused: np.ndarray  # the first `number[0]` are numbers without a computation
    number: np.ndarray  # int64 [1]


class _Processes(NamedTuple):
    """Those of the shards, replica by replica, then coordinators, [P] each."""

    machine: np.ndarray
    most: np.ndarray  # computations at the same time
    computing: np.ndarray
    first: np.ndarray  # the first and the last computation that waits, -1 for none
    last: np.ndarray


class _Machines(NamedTuple):
    """[M] each."""

    cores: np.ndarray
    active: np.ndarray  # the computations that share the cores, [M, most]
    running: np.ndarray  # how many
    since: np.ndarray  # when they last changed
    end: np.ndarray  # when the next of them ends, infinite without any
    work: np.ndarray  # seconds of cores so far


class _Events(NamedTuple):
    """What happens when, as a binary heap whose first place is 1."""

    when: np.ndarray  # float64 [E]
    kind: np.ndarray  # int64 [E] each
    query: np.ndarray
    round: np.ndarray
    shard: np.ndarray
    number: np.ndarray  # int64 [1]


class _Queries(NamedTuple):
    """Queries that have begun and not ended, by places that are used again, [P] and [P, S]."""

    place: np.ndarray  # of each query, -1 before and after, [n]
    unused: np.ndarray  # the first `number[0]` are places without a query
    number: np.ndarray  # int64 [1]
    round: np.ndarray
    waiting: np.ndarray  # shards whose answers it waits for
    rows: np.ndarray  # documents that each shard is asked about in this round
    taker: np.ndarray  # the replica that was asked last, -1 for none
    answered: np.ndarray  # bool


@njit(cache=True)
def _expect(events, when, kind, query, at, shard):
    """Add an event."""
    place = events.number[0] + 1
    events.number[0] = place
    while place > 1 and events.when[place // 2] > when:
        _move(events, place // 2, place)
        place //= 2
    events.when[place], events.kind[place] = when, kind
    events.query[place], events.round[place], events.shard[place] = query, at, shard


@njit(cache=True)
def _move(events, source, target):
    events.when[target], events.kind[target] = events.when[source], events.kind[source]
    events.query[target], events.round[target] = events.query[source], events.round[source]
    events.shard[target] = events.shard[source]


@njit(cache=True)
def _remove_first(events):
    """Remove the first event."""
    last = events.number[0]
    events.number[0] = last - 1
    place, when = 1, events.when[last]
    while 2 * place < last:
        below = 2 * place
        if below + 1 < last and events.when[below + 1] < events.when[below]:
            below += 1
        if when <= events.when[below]:
            break
        _move(events, below, place)
        place = below
    _move(events, last, place)


@njit(cache=True)
def _advance(machines, jobs, machine, now):
    """Compute until now."""
    count = machines.running[machine]
    if count:
        each = (now - machines.since[machine]) * min(1.0, machines.cores[machine] / count)
        for place in range(count):
            jobs.left[machines.active[machine, place]] -= each
        machines.work[machine] += each * count
    machines.since[machine] = now


@njit(cache=True)
def _next_end(machines, jobs, machine):
    """The place of the computation that ends first, and the seconds until then."""
    count, least = machines.running[machine], 0
    for place in range(1, count):
        if jobs.left[machines.active[machine, place]] < jobs.left[machines.active[machine, least]]:
            least = place
    left = max(jobs.left[machines.active[machine, least]], 0.0)
    return least, left / min(1.0, machines.cores[machine] / count)


@njit(cache=True)
def _changed(machines, jobs, machine, now):
    """Expect the next end of a computation of a machine."""
    machines.end[machine] = np.inf
    if machines.running[machine]:
        machines.end[machine] = now + _next_end(machines, jobs, machine)[1]


@njit(cache=True)
def _begin(machines, processes, jobs, process, query, at, shard, seconds, now):
    """Give a process a computation, which waits if the process has enough."""
    jobs.number[0] -= 1
    job = jobs.unused[jobs.number[0]]
    jobs.left[job], jobs.process[job], jobs.following[job] = seconds, process, -1
    jobs.query[job], jobs.round[job], jobs.shard[job] = query, at, shard
    if processes.computing[process] == processes.most[process]:
        if processes.first[process] < 0:
            processes.first[process] = job
        else:
            jobs.following[processes.last[process]] = job
        processes.last[process] = job
        return
    processes.computing[process] += 1
    machine = processes.machine[process]
    _advance(machines, jobs, machine, now)
    machines.active[machine, machines.running[machine]] = job
    machines.running[machine] += 1
    _changed(machines, jobs, machine, now)


@njit(cache=True)
def _ended(machines, processes, jobs, machine, now):
    """The computation that ends on a machine now; the next one that waits for its process begins."""
    _advance(machines, jobs, machine, now)
    place = _next_end(machines, jobs, machine)[0]
    job = machines.active[machine, place]
    process = jobs.process[job]
    waiting = processes.first[process]
    if waiting >= 0:
        processes.first[process] = jobs.following[waiting]
        machines.active[machine, place] = waiting
    else:
        processes.computing[process] -= 1
        machines.running[machine] -= 1
        machines.active[machine, place] = machines.active[machine, machines.running[machine]]
    _changed(machines, jobs, machine, now)
    jobs.unused[jobs.number[0]] = job
    jobs.number[0] += 1
    return job


ARRIVAL, COORDINATED, QUESTION, ANSWER, HEDGE = range(5)


@njit(cache=True)
def _run(
    arrivals, done, open_loop, picks, measured, events, queries, machines, processes, jobs, alive, slowness, hedge,
    network, seed,
):  # fmt: skip
    """Whether queries pile up; otherwise ``done``, float64 [n], is filled with the ends of the queries.

    Args:
        arrivals: of the queries, float64 [n]; without ``open_loop`` each arrives when the one before it ends.
        picks: the measured search of each, int64 [n].
        measured: as of `_flat`.
        alive, slowness: of each replica of each shard, float64 [S, R]; 0 for a dead one.
        network: seconds of a way, and of a byte, and those of a processor for an answer.
    """
    firsts, coordinator, starts, asked, sent, received, constant, slope, round_seconds, question_seconds = measured
    one_way, per_byte, answer_seconds = network
    np.random.seed(seed)
    number_of, shards, replicas = len(arrivals), alive.shape[0], alive.shape[1]
    coordinators, ended = len(processes.machine) - shards * replicas, 0
    rows, taker, answered, waiting = queries.rows, queries.taker, queries.answered, queries.waiting
    _expect(events, arrivals[0], ARRIVAL, 0, 0, 0)
    while ended < number_of:
        machine = np.argmin(machines.end)
        if events.number[0] and events.when[1] <= machines.end[machine]:
            now = events.when[1]
            kind, query, at, shard = events.kind[1], events.query[1], events.round[1], events.shard[1]
            _remove_first(events)
        else:
            now = machines.end[machine]
            job = _ended(machines, processes, jobs, machine, now)
            query, at, shard = jobs.query[job], jobs.round[job], jobs.shard[job]
            if shard >= 0:
                several = shards if asked[at] < 0 else 1
                _expect(events, now + one_way + received[at] * several * per_byte, ANSWER, query, at, shard)
                continue
            kind = COORDINATED
        if kind == ARRIVAL:
            if not queries.number[0] or 2 * events.number[0] > len(events.when):
                return True
            queries.number[0] -= 1
            queries.place[query] = queries.unused[queries.number[0]]
            queries.round[queries.place[query]] = firsts[picks[query]] - 1
            if open_loop and query + 1 < number_of:
                _expect(events, arrivals[query + 1], ARRIVAL, query + 1, 0, 0)
        place = queries.place[query]
        if kind != ARRIVAL and (place < 0 or queries.round[place] != at):
            continue  # this round is over
        if kind == ANSWER:
            if answered[place, shard]:
                continue
            answered[place, shard] = True
            waiting[place] -= 1
        elif kind == COORDINATED:
            if starts[at] == starts[at + 1]:  # the last computation, after which nobody is asked
                done[query] = now
                ended += 1
                queries.unused[queries.number[0]] = place
                queries.number[0] += 1
                queries.place[query] = -1
                if not open_loop and query + 1 < number_of:
                    _expect(events, now, ARRIVAL, query + 1, 0, 0)
                continue
            for shard in range(shards):
                if rows[place, shard]:
                    _expect(events, now + one_way + sent[at] * per_byte, QUESTION, query, at, shard)
            if replicas > 1:
                _expect(events, now + hedge, HEDGE, query, at, 0)
        elif kind == HEDGE:
            for shard in range(shards):
                if not answered[place, shard]:
                    _expect(events, now + one_way + sent[at] * per_byte, QUESTION, query, at, shard)
        elif kind == QUESTION and not answered[place, shard]:
            for step in range(replicas):
                replica = (query + step) % replicas
                if alive[shard, replica] and replica != taker[place, shard]:
                    taker[place, shard] = replica
                    entry = starts[at] + np.random.randint(starts[at + 1] - starts[at])
                    seconds = constant[entry] + (slope[entry] * rows[place, shard] if asked[at] >= 0 else 0.0)
                    seconds = (seconds + answer_seconds) * slowness[shard, replica]
                    process = shard * replicas + replica
                    _begin(machines, processes, jobs, process, query, at, shard, seconds, now)
                    break
        if kind == ARRIVAL or (kind == ANSWER and not waiting[place]):
            queries.round[place] += 1
            at = queries.round[place]
            for shard in range(shards):
                rows[place, shard] = 1 if asked[at] < 0 else 0
                taker[place, shard] = -1
            for _ in range(asked[at]):
                rows[place, np.random.randint(shards)] += 1
            waiting[place] = 0
            for shard in range(shards):
                answered[place, shard] = rows[place, shard] == 0
                waiting[place] += rows[place, shard] > 0
            seconds = coordinator[at]
            if waiting[place]:
                seconds += round_seconds + question_seconds * waiting[place]
            process = shards * replicas + query % coordinators
            _begin(machines, processes, jobs, process, query, at, -1, seconds, now)
    return False
