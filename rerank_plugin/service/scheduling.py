"""Admission, threads and batches: what runs at the same time, what waits, and what is refused.

Few requests are let in; more are refused at once, so that those inside are answered soon. One thread takes all that
wait for the same scorer through the three steps of a query together: their first stages, in a few threads; their
scores, by the batches of the fast paths; their answers. So each step has the processors to itself: where queries were
at different steps at the same time, their threads waited for each other. What is cancelled before its turn costs
nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeVar

from rerank_plugin.service.errors import OverloadedError

T, R, A = TypeVar("T"), TypeVar("R"), TypeVar("A")
Together = Callable[[Sequence[T]], Sequence[R]]


@dataclass(eq=False)
class Job:
    """One request: what makes its item, the function of several items, and what makes the answer of its result."""

    prepare: Callable[[], Any]
    together: Together
    finish: Callable[[Any], Any]
    future: Future = field(default_factory=Future)
    item: Any = None


class Scheduler:
    """Runs what requests ask for.

    Args:
        threads: of first stages.
        most: requests that are let in at the same time.
        at_once: the most that are taken through the steps together; none of them is answered before all are scored.
    """

    def __init__(self, threads: int, most: int, at_once: int):
        self.most, self.at_once, self.inside = most, at_once, 0
        self.threads, self.turns = ThreadPoolExecutor(threads, "first-stage"), ThreadPoolExecutor(1, "scoring")
        self.waiting: list[Job] = []
        self.changing, self.working = Lock(), False  # whether a thread takes what waits

    @property
    def full(self) -> bool:
        return self.inside >= self.most

    @contextmanager
    def admitted(self, queries: int = 1) -> Iterator[None]:
        """Lets a request in for the block, in the thread of the event loop; one of several queries counts as several.

        Raises:
            OverloadedError: as many as may be are inside.
        """
        if self.full:
            raise OverloadedError
        self.inside += queries
        try:
            yield
        finally:
            self.inside -= queries

    async def in_thread(self, function: Callable[..., R], *arguments: Any) -> R:
        """The result of a function, run in a thread."""
        return await asyncio.wrap_future(self.threads.submit(function, *arguments))

    async def together(self, prepare: Callable[[], T], together: Together[T, R], finish: Callable[[R], A]) -> A:
        """What ``finish`` makes of the result of one item by a function that takes several; all run in threads.

        Items that wait for the same function, by ``==``, are given to it together. If it raises, it gets them one by
        one, so that only the item at fault fails.
        """
        job = Job(prepare, together, finish)
        with self.changing:
            self.waiting.append(job)
            start, self.working = not self.working, True
        if start:  # one call does all jobs that come while it works: with one each, calls would pile up
            self.turns.submit(self._work)
        return await asyncio.wrap_future(job.future)

    def _work(self) -> None:
        """Do jobs until none waits: the oldest, and others for the same function with it."""
        while batch := self._next():
            ready = list(self.threads.map(_prepared, batch)) if len(batch) > 1 else [_prepared(job) for job in batch]
            self._score([job for job, done in zip(batch, ready) if done and job.future.set_running_or_notify_cancel()])

    def _next(self) -> list[Job]:
        with self.changing:
            batch = [job for job in self.waiting if job.together == self.waiting[0].together][: self.at_once]
            self.waiting = [job for job in self.waiting if job not in batch]
            self.working = bool(batch)
        return batch

    def _score(self, batch: Sequence[Job]) -> None:
        if not batch:
            return
        try:
            results = batch[0].together([job.item for job in batch])
        except Exception as error:
            if len(batch) == 1:
                batch[0].future.set_exception(error)
            else:
                for job in batch:
                    self._score([job])
            return
        for job, result in zip(batch, results, strict=True):
            try:
                job.future.set_result(job.finish(result))
            except Exception as error:
                job.future.set_exception(error)

    def close(self) -> None:
        """Finish what waits, and end the threads."""
        self.turns.shutdown()
        self.threads.shutdown()


def _prepared(job: Job) -> bool:
    """Whether the item of a job is there; it is not where nobody waits for it, or it cannot be made."""
    if job.future.cancelled():
        return False
    try:
        job.item = job.prepare()
    except Exception as error:
        if job.future.set_running_or_notify_cancel():
            job.future.set_exception(error)
        return False
    return True
