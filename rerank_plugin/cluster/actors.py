"""The shards of an index as actors of Ray, each with a Java of its own.

A process of Ray never forks another after Java runs, and Ray restarts one that dies as often as needed. A call of a
dead process is not repeated by Ray (it would count the time of the restart as tries): the coordinator asks another
replica, keeps the dead one from questions, and pings it until it answers; an actor is open before it answers anything.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Condition, Thread
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError

from rerank_plugin.base.errors import InputError, UnavailableError, one_line
from rerank_plugin.cluster.config import ClusterConfig
from rerank_plugin.cluster.connection import connect, environment
from rerank_plugin.cluster.index import Question
from rerank_plugin.kernels.parallel import processors

log = logging.getLogger(__name__)

OPENING = 120.0  # seconds in which a shard has to open
PING = 0.1  # seconds between two pings of a process that does not answer
TIMES = 10_000  # questions whose times are kept
AT_ONCE = 8  # questions that a process answers at the same time


class ShardActor:
    """The process of a shard."""

    def __init__(self, folder: str, generation: str, threads: int):
        from rerank_plugin.cluster.shard import Shard

        self.error, self.shard = "", None
        try:
            self.shard = Shard(folder, generation, threads)
        except InputError as error:  # raised, it would count as a crash, and Ray would start it again
            self.error = str(error)

    def ask(self, question: Question) -> tuple[str, Any, float]:
        """The message of an `InputError`, or an empty one and the answer; and the seconds that it took."""
        if self.shard is None:
            return self.error, None, 0.0
        started = time.perf_counter()
        try:
            return "", self.shard.ask(*question), time.perf_counter() - started
        except InputError as error:
            return str(error), None, 0.0


class RayShards:
    """The shards of an index on a Ray cluster (:class:`rerank_plugin.cluster.index.Shards`).

    Attributes:
        times: of the last questions to several shards, the seconds until all had answered, and those of the slowest.

    Raises:
        InputError: there is no such cluster, or a shard cannot be opened.
    """

    def __init__(self, folders: Sequence[Path], generation: str, config: ClusterConfig):
        self.folders, self.config = folders, config
        connect(config.address)
        actor = ray.remote(ShardActor).options(
            num_cpus=0, max_restarts=-1, max_task_retries=0, max_concurrency=AT_ONCE, scheduling_strategy="SPREAD",
            runtime_env=environment(config.heap),
        )  # fmt: skip
        threads = max(1, processors() // len(folders)) if config.address == "local" else processors()
        self.actors: list[list[Any]] = [
            [actor.remote(str(folder), generation, threads) for _ in range(config.replicas)] for folder in folders
        ]
        self.changed = Condition()
        self.away: set[tuple[int, int]] = set()  # shards and replicas that do not answer
        self.remembered: list[Question] = []
        self.closed, self.turn = False, 0
        self.times = deque[tuple[float, float]](maxlen=TIMES)
        try:
            for error, *_ in self._opened([replica for replicas in self.actors for replica in replicas]):
                if error:
                    raise InputError(error)
        except BaseException:
            self.close()
            raise

    def _opened(self, actors: Sequence[Any]) -> list[tuple[str, Any, float]]:
        try:
            return ray.get([actor.ask.remote(("opened",)) for actor in actors], timeout=OPENING)
        except RayError as error:
            raise InputError(f"a shard does not open on the cluster ({one_line(error):.300})") from error

    def remember(self, question: Question) -> None:
        with self.changed:
            self.remembered.append(question)

    def ask(self, questions: Mapping[int, Question]) -> dict[int, Any]:
        if self.closed:
            raise InputError("the connection to the cluster is closed: open the index again")
        started = time.monotonic()
        deadline = started + self.config.deadline
        pending: dict[Any, tuple[int, int]] = {}
        for number, question in questions.items():
            if (replica := self._replica(number)) is not None:
                pending[self._send(number, replica, question)] = number, replica
        answers: dict[int, tuple[Any, float]] = {}
        hedged = self.config.replicas == 1
        while len(answers) < len(questions):
            left = deadline - time.monotonic()
            if left <= 0:
                raise UnavailableError(self._missing([number for number in questions if number not in answers]))
            if pending:
                some = left if hedged else min(left, self.config.hedge)
                done, _ = ray.wait(list(pending), num_returns=len(pending), timeout=some, fetch_local=True)
                done = done or ray.wait(list(pending), num_returns=1, timeout=0)[0]
                for reference in done:
                    number, replica = pending.pop(reference)
                    self._take(number, replica, reference, answers)
            asked = {number for number, _ in pending.values()}
            for number, question in questions.items():
                if number in answers or (number in asked and hedged):
                    continue
                others = {replica for of, replica in pending.values() if of == number}
                replica = self._replica(number, others, wait=0.0 if pending else min(left, PING))
                if replica is not None:
                    pending[self._send(number, replica, question)] = number, replica
            hedged = True
        if len(answers) > 1:
            self.times.append((time.monotonic() - started, max(seconds for _, seconds in answers.values())))
        return {number: answer for number, (answer, _) in answers.items()}

    def _send(self, number: int, replica: int, question: Question) -> Any:
        return self.actors[number][replica].ask.remote(question)

    def _take(self, number: int, replica: int, reference: Any, answers: dict[int, Any]) -> None:
        """Add the answer of a call, unless its process died, which is then kept from questions."""
        try:
            error, answer, seconds = ray.get(reference)
        except RayError as failure:
            log.warning("%s does not answer (%s)", self._name(number, replica), type(failure).__name__)
            self._quarantine(number, replica)
            return
        if error:
            raise InputError(error)
        answers.setdefault(number, (answer, seconds))

    def _name(self, number: int, replica: int) -> str:
        name = f"shard {number} of {len(self.actors)}"
        return name if self.config.replicas == 1 else f"{name}, replica {replica}"

    def _missing(self, numbers: Sequence[int]) -> str:
        shards = f"shard{'s' if numbers[1:] else ''} {', '.join(map(str, numbers))} of {len(self.actors)}"
        return (
            f"{shards} did not answer within {self.config.deadline:g} s, so the ranking would lack documents: try again"
        )

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
                    self.turn += 1
                    return there[self.turn % len(there)]
                if not wait or not self.changed.wait(wait):
                    return None
        return None

    def _quarantine(self, number: int, replica: int) -> None:
        with self.changed:
            if self.closed or (number, replica) in self.away:
                return
            self.away.add((number, replica))
        Thread(target=self._ping, args=(number, replica), daemon=True).start()

    def _ping(self, number: int, replica: int) -> None:
        """Ping a process until it answers, and has loaded what was loaded before; then ask it again."""
        started = time.monotonic()
        while not self.closed:
            try:
                for question in (("opened",), *self.remembered):
                    error, *_ = ray.get(self._send(number, replica, question), timeout=OPENING)
                    if error:
                        log.warning("%s: %s", self._name(number, replica), error)
                        return
                break
            except (RayError, GetTimeoutError):
                time.sleep(PING)
        with self.changed:
            self.away.discard((number, replica))
            self.changed.notify_all()
        log.warning("%s answers again after %.1f s", self._name(number, replica), time.monotonic() - started)

    def close(self) -> None:
        """End the processes of the shards."""
        with self.changed:
            if self.closed:
                return
            self.closed = True
        for replicas in self.actors:
            for actor in replicas:
                ray.kill(actor, no_restart=True)
