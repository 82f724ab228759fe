"""The shards of an index as actors of Ray, each with a Java of its own.

A process of Ray never forks another after Java runs, and Ray restarts one that dies as often as needed. Questions take
connections of their own (:mod:`rerank_plugin.cluster.channel`). When one breaks, the coordinator asks another replica,
keeps the dead one from questions, and pings it by Ray until it answers, which it does with its shard open.

A process has several commits of its shard open, when the index is opened again after an update: the old one until
its last search has ended, and the new one.
"""

from __future__ import annotations

import logging
import math
import time
import traceback
from collections import deque
from collections.abc import Mapping, Sequence, Set
from itertools import count, cycle, islice
from multiprocessing.connection import wait
from pathlib import Path
from threading import Condition, Lock, Semaphore, Thread
from typing import Any, ClassVar, NamedTuple

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rerank_plugin.base.errors import InputError, UnavailableError, one_line
from rerank_plugin.base.stopping import LateError, seconds_left, within
from rerank_plugin.cluster.channel import AGREEING, Address, Channel, Channels, listen, packed
from rerank_plugin.cluster.config import AT_ONCE, ClusterConfig
from rerank_plugin.cluster.connection import connect, environment
from rerank_plugin.cluster.index import OpenShards, Question
from rerank_plugin.indexes.sharding import Commit
from rerank_plugin.kernels.parallel import processors

log = logging.getLogger(__name__)

OPENING = 120.0  # seconds in which a shard has to open, or a reranker to be loaded
PING = 0.1  # seconds between two pings of a process that does not answer
REFUSED = 2.0  # the same of one that cannot open its shard
LOST = 1.0  # seconds after which a shard without an answer may be left out: one that was started again is back before
WORKING = 0.9  # of a search's time, in which a shard works on a question: it is not taken for dead
TIMES = 10_000  # questions whose times are kept


class Opening(NamedTuple):
    """A coordinator's opening of an index, by a number that no other has on the same processes; and the commit."""

    number: int
    commit: Commit


class ShardActor:
    """The process of a shard. It has the shard open once for each opening: commits are beside one another.

    Args:
        beside: the processes of shards on this machine, this one included, which share the processors.
    """

    def __init__(self, folder: str, beside: int):
        self.folder, self.threads, self.lock = folder, max(1, processors() // beside), Lock()
        self.shards: dict[int, OpenShard] = {}
        self.closed: set[int] = set()
        self.turns = Semaphore(AT_ONCE)
        self.listening = listen(ray.util.get_node_ip_address(), self._converse)

    def address(self) -> Address:
        """Where it answers the same questions sooner."""
        return self.listening

    def _converse(self, channel: Channel) -> None:
        opening = Opening(*channel.receive())
        while True:
            question = channel.receive()
            try:
                with self.turns:
                    answer = packed(self.ask(opening, *question))
            except Exception:  # an error of ours, whose cause should be seen where it matters
                answer = packed((traceback.format_exc(), None, -1.0))
            channel.send_packed(answer)

    def ask(self, opening: Opening, question: Question, seconds: float = math.inf) -> tuple[str, Any, float]:
        """The answer of a question, which may take so many seconds, after an empty message; and what it took.

        Or the message of an `InputError`, and whether it is a `LateError`.

        The first question of an opening opens the shard, also in a process that was started again.
        """
        try:
            with self.lock:
                if opening.number in self.closed:  # a question that was asked twice may come late
                    raise InputError("the shard is closed")
                shard = self.shards.setdefault(opening.number, OpenShard())
            opened = shard.opened(self.folder, opening.commit, self.threads)
            started = time.perf_counter()
            with within(seconds):
                return "", opened.ask(*question), time.perf_counter() - started
        except InputError as error:  # raised, it would travel with the objects of its traceback
            return str(error), isinstance(error, LateError), 0.0

    def close(self, opening: Opening) -> None:
        """Close what an opening has opened."""
        with self.lock:
            self.closed.add(opening.number)
            shard = self.shards.pop(opening.number, None)
        if shard is not None:
            shard.close()


class OpenShard:
    """A shard that its first user opens, while the others wait."""

    def __init__(self) -> None:
        self.shard: Any = None
        self.lock = Lock()

    def opened(self, folder: str, commit: Commit, threads: int) -> Any:
        from rerank_plugin.cluster.shard import Shard

        with self.lock:
            if self.shard is None:
                self.shard = Shard(folder, commit, threads)
            return self.shard

    def close(self) -> None:
        with self.lock:
            if self.shard is not None:
                self.shard.close()


class Processes:
    """The processes of an index's shards, several for each; all openings of the index in this process share them."""

    shared: ClassVar[dict[tuple, Processes]] = {}
    lock = Lock()

    def __init__(self, folders: Sequence[Path], config: ClusterConfig):
        needs: dict[str, Any] = {
            "num_cpus": 0,
            "memory": 1,  # Ray heeds no place of a process that needs nothing
            "max_restarts": -1,
            "max_task_retries": 0,
            "max_concurrency": AT_ONCE,
            "runtime_env": environment(config.heap),
        }
        actor: Any = ray.remote(**needs)(ShardActor)
        machines = _machines()
        beside = -(-len(folders) * config.replicas // len(machines))
        # Ray's strategies may put all replicas of a shard on one machine; of a lost one, their processes go to another.
        places = cycle(NodeAffinitySchedulingStrategy(machine, soft=True) for machine in machines)
        self.actors: list[list[Any]] = [
            [
                actor.options(scheduling_strategy=place).remote(str(folder), beside)
                for place in islice(places, config.replicas)
            ]
            for folder in folders
        ]
        self.users, self.numbers = 0, count()

    @classmethod
    def of(cls, folders: Sequence[Path], config: ClusterConfig) -> Processes:
        """Those of these folders, for one more user; started if there are none."""
        connection = ray.get_runtime_context().get_job_id()
        key = *folders, connection, config.replicas, config.heap
        with cls.lock:
            if key not in cls.shared:
                cls.shared[key] = cls(folders, config)
            cls.shared[key].users += 1
            return cls.shared[key]

    def release(self, opening: Opening) -> None:
        """Close an opening; the processes end with the last one."""
        with self.lock:
            self.users -= 1
            last = self.users == 0
            if last:
                Processes.shared = {key: one for key, one in self.shared.items() if one is not self}
        for actor in (actor for replicas in self.actors for actor in replicas):
            if last:
                ray.kill(actor, no_restart=True)
            else:
                actor.close.remote(opening)


def _machines() -> list[str]:
    """Ray's ids of the machines of the cluster: of those with processors for it, if there are any."""
    nodes = sorted((node["NodeID"], node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"])
    return [id for id, cpus in nodes if cpus] or [id for id, _ in nodes]


class RayShards(OpenShards):
    """The shards of an index on a Ray cluster (:class:`rerank_plugin.cluster.index.OpenShards`).

    Attributes:
        times: of the last questions to several shards, the seconds until all had answered, and those of the slowest.

    Raises:
        InputError: there is no such cluster, or a shard cannot be opened.
    """

    def __init__(self, folders: Sequence[Path], commit: Commit, config: ClusterConfig):
        self.config, self.partial = config, config.partial
        connect(config.address)
        self.processes = Processes.of(folders, config)
        self.actors, self.opening = self.processes.actors, Opening(next(self.processes.numbers), commit)
        self.changed = Condition()
        self.away: dict[tuple[int, int], float] = {}  # shards and replicas that do not answer, and since when
        self.channels: dict[tuple[int, int], Channels] = {}
        self.timeout = config.deadline if config.replicas == 1 else config.hedge  # of connections and their messages
        self.remembered: list[Question] = []
        self.closed, self.turns = False, [0] * len(folders)
        self.times = deque[tuple[float, float]](maxlen=TIMES)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        """Open every shard. A process that dies meanwhile is pinged, unless it is the only one of its shard."""
        self._ask_processes(("opened",))
        addresses = {of: actor.address.remote() for of, actor in self._processes() if of not in self.away}
        for of, reference in addresses.items():
            try:
                address = ray.get(reference, timeout=OPENING)
            except RayError:
                self._quarantine(*of)
                continue
            self.channels[of] = Channels(address, tuple(self.opening))
            try:  # a port that no machine can reach is told before the first search; a busy machine is no such
                self.channels[of].take(max(self.timeout, AGREEING)).close()
            except OSError as error:
                place = f"{address.host}:{address.port}"
                raise InputError(f"{self._name(*of)} cannot be reached at {place} ({error}): open the port") from error

    def _processes(self) -> list[tuple[tuple[int, int], Any]]:
        """The actors by shard and replica."""
        return [
            ((n, replica), actor) for n, replicas in enumerate(self.actors) for replica, actor in enumerate(replicas)
        ]

    def _ask_processes(self, question: Question) -> dict[int, Any]:
        """An answer of each shard to a question that every process of it is asked by Ray, however long it takes.

        A process that dies meanwhile is pinged, unless it is the only one of its shard.
        """
        asked = {of: actor.ask.remote(self.opening, question) for of, actor in self._processes()}
        failed: dict[tuple[int, int], RayError] = {}
        answers: dict[int, Any] = {}
        for of, reference in asked.items():
            try:
                error, answer, _ = ray.get(reference, timeout=OPENING)
            except RayError as failure:
                failed[of] = failure
                continue
            if error:
                raise InputError(error)
            answers[of[0]] = answer
        for of, died in failed.items():
            if of[0] not in answers:
                raise InputError(f"{self._name(*of)} does not open on the cluster ({one_line(died):.300})")
            self._quarantine(*of)
        return answers

    def load(self, question: Question) -> dict[int, Any]:
        with self.changed:
            self.remembered.append(question)  # of a process that comes back meanwhile, too
        try:
            return self._ask_processes(question)
        except InputError:
            with self.changed:
                self.remembered.remove(question)
            raise

    def ask(self, questions: Mapping[int, Question]) -> dict[int, Any]:
        if self.closed:
            raise InputError("the connection to the cluster is closed: open the index again")
        started = time.monotonic()
        deadline, hedge = started + self.config.deadline, started + self.config.hedge
        different = {id(question): question for question in questions.values()}  # most are asked of all shards
        seconds = min(WORKING * self.config.deadline, seconds_left())
        messages = {key: packed((question, seconds)) for key, question in different.items()}
        pending: dict[Channel, tuple[int, int]] = {}
        answers: dict[int, tuple[Any, float]] = {}
        try:
            while len(answers) < len(questions):
                now = time.monotonic()
                if now >= deadline:
                    for slow in pending.values():  # not asked again until it has answered a ping
                        self._quarantine(*slow)
                    raise self._unavailable(questions.keys() - answers.keys())
                if self.partial and (lost := self.lost() & (questions.keys() - answers.keys())):
                    raise self._unavailable(lost)
                asked = {number for number, _ in pending.values()}
                if late := now >= hedge:
                    hedge = math.inf  # once
                for number, question in questions.items():
                    if number in answers or (number in asked and not late):
                        continue
                    others = {replica for of, replica in pending.values() if of == number}
                    replica = self._replica(number, others, wait=0.0 if pending else min(deadline - now, PING))
                    if replica is not None and (channel := self._send(number, replica, messages[id(question)])):
                        pending[channel] = number, replica
                if pending:
                    ready: list[Any] = wait(list[Any](pending), max(min(deadline, hedge) - now, 0))
                    for channel in ready:
                        self._take(*pending.pop(channel), channel, answers)
        finally:
            for channel in pending:  # an answer that nobody waits for
                channel.close()
        if len(answers) > 1:
            self.times.append((time.monotonic() - started, max(seconds for _, seconds in answers.values())))
        return {number: answer for number, (answer, _) in answers.items()}

    def _send(self, number: int, replica: int, message: bytes) -> Channel | None:
        """Ask a replica; None if it cannot be reached, which is then kept from questions."""
        channel = None
        try:
            channel = self.channels[number, replica].take(self.timeout)
            channel.send_packed(message)
            return channel
        except OSError as error:
            self._fail(number, replica, channel, error)
            return None

    def _take(self, number: int, replica: int, channel: Channel, answers: dict[int, tuple[Any, float]]) -> None:
        """Add the answer of a replica, unless its process died, which is then kept from questions."""
        channels = self.channels[number, replica]
        try:
            error, answer, seconds = channel.receive()
        except OSError as failure:
            self._fail(number, replica, channel, failure)
            return
        channels.idle.append(channel)
        if seconds < 0:
            raise RuntimeError(f"{self._name(number, replica)}: {error}")
        if error:
            raise (LateError if answer else InputError)(error)
        answers.setdefault(number, (answer, seconds))

    def _fail(self, number: int, replica: int, channel: Channel | None, error: OSError) -> None:
        self.channels[number, replica].close()
        if channel is not None:
            channel.close()
        log.warning("%s does not answer (%s)", self._name(number, replica), one_line(error) or type(error).__name__)
        self._quarantine(number, replica)

    def _name(self, number: int, replica: int) -> str:
        name = f"shard {number} of {len(self.actors)}"
        return name if self.config.replicas == 1 else f"{name}, replica {replica}"

    def lost(self) -> frozenset[int]:
        replicas = range(self.config.replicas)
        now = time.monotonic()
        with self.changed:
            away = {of for of, since in self.away.items() if now - since >= LOST}
        return frozenset(number for number, _ in away if away.issuperset((number, replica) for replica in replicas))

    def _unavailable(self, shards: Set[int]) -> UnavailableError:
        named = f"shard{'s' * (len(shards) > 1)} {', '.join(map(str, sorted(shards)))} of {len(self.actors)}"
        within = "" if self.partial else f" within {self.config.deadline:g} s, so the ranking would lack documents"
        return UnavailableError(f"{named} did not answer{within}: try again", shards)

    def _replica(self, number: int, but: set[int] = frozenset(), wait: float = 0.0) -> int | None:  # type: ignore
        """A replica of a shard that answers, in turn; None if there is none within ``wait`` seconds."""
        with self.changed:
            for _ in range(2):
                there = [
                    replica
                    for replica in range(self.config.replicas)
                    if (number, replica) not in self.away and replica not in but
                ]
                if there:
                    self.turns[number] += 1
                    return there[self.turns[number] % len(there)]
                if not wait or not self.changed.wait(wait):
                    return None
        return None

    def _quarantine(self, number: int, replica: int) -> None:
        with self.changed:
            if self.closed or (number, replica) in self.away:
                return
            self.away[number, replica] = time.monotonic()
        Thread(target=self._ping, args=(number, replica), daemon=True).start()

    def _ping(self, number: int, replica: int) -> None:
        """Ping a process until it answers, and has loaded what was loaded before; then ask it again."""
        started, said = time.monotonic(), ""
        while not self.closed:
            error = self._refusal(number, replica)
            if error == "":
                break
            if error and error != said:  # its files may be of another commit; they may come
                log.warning("%s: %s", self._name(number, replica), error)
                said = error
            time.sleep(REFUSED if error else PING)
        if self.closed:
            return
        with self.changed:
            self.away.pop((number, replica), None)
            self.changed.notify_all()
        log.warning("%s answers again after %.1f s", self._name(number, replica), time.monotonic() - started)

    def _refusal(self, number: int, replica: int) -> str | None:
        """Empty if a process is open and has loaded everything, or why it refuses; None if it does not answer."""
        actor = self.actors[number][replica]
        try:
            for question in (("opened",), *self.remembered):
                error, *_ = ray.get(actor.ask.remote(self.opening, question), timeout=OPENING)
                if error:
                    return error
            address = ray.get(actor.address.remote(), timeout=OPENING)
            with self.changed:
                before, self.channels[number, replica] = (
                    self.channels.get((number, replica)), Channels(address, tuple(self.opening)),
                )  # fmt: skip
            if before is not None:
                before.close()
        except (RayError, GetTimeoutError):
            return None
        return ""

    def close(self) -> None:
        """Close the shards; their processes end with their last user."""
        with self.changed:
            if self.closed:
                return
            self.closed, opened = True, [*self.channels.values()]  # a thread that pings may add some
        for channels in opened:
            channels.close()
        self.processes.release(self.opening)
